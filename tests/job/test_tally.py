"""Baselines and confusion, against a loop in plain Python."""

import numpy as np
import pytest

from ddol.job.tally import Tally
from ddol.streams.rows import Block, Rows


def blocks(y, scores, n_agents, size):
    """Rows dealt in turn, in blocks of some rounds."""
    rounds = len(y) // n_agents
    for lo in range(0, rounds, size):
        rows = slice(lo * n_agents, min(lo + size, rounds) * n_agents)
        n = rows.stop - rows.start
        table = np.arange(n).reshape(-1, n_agents, 1)
        yield Block(Rows.from_dense(np.ones((n, 1)), y[rows]), table, scores[rows])


def test_classes_are_counted_by_agent():
    rng = np.random.default_rng(0)
    y = rng.choice([0.0, 1.0, 2.0], 600, p=[0.5, 0.3, 0.2])
    scores = rng.standard_normal((600, 3))
    tally = Tally(3, ("a", "b", "c"))
    for block in blocks(y, scores, 3, 7):
        tally(block)
    for agent in range(3):
        own = y[agent::3]
        found = tally.baseline(agent)
        assert found.constant == pytest.approx(1 - np.bincount(own.astype(int)).max() / len(own))
        assert found.last == pytest.approx((1 + (own[1:] != own[:-1]).sum()) / len(own))
    assert tally.most_frequent() == "a"
    confusion = np.zeros((3, 3), int)
    np.add.at(confusion, (y.astype(int), scores.argmax(axis=1)), 1)
    assert np.array_equal(tally.evaluation.confusion, confusion)


def test_numbers_far_from_zero_do_not_cancel():
    rng = np.random.default_rng(1)
    y = 1e9 + rng.standard_normal(500)
    tally = Tally(2, None)
    for block in blocks(y, np.zeros((500, 1)), 2, 11):
        tally(block)
    assert tally.baseline().constant == pytest.approx(y.std(), rel=1e-6)
    own = y[::2]
    gaps = np.diff(own)
    assert tally.baseline(0).last == pytest.approx(np.sqrt((gaps @ gaps) / len(own)))
