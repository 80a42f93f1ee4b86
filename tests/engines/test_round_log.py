"""Recordings of runs of which no process has seen all rounds."""

import numpy as np
import pytest

import ddol
from ddol.engines.events.round_record import RoundLog
from ddol.streams.dealing import table_round_robin
from ddol.streams.rows import Block, Rows


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("n", [23, 24])
def test_a_log_that_is_filled_is_that_of_who_saw_all(n, passes):
    algorithm = ddol.dogd().on(ddol.ring(4), period=2)
    rows = Rows.from_dense(np.ones((n, 1)), np.ones(n))
    table = table_round_robin(n, 4)
    seen_all, seen_half = RoundLog(algorithm), RoundLog(algorithm)
    for _ in range(passes):
        seen_all.add(Block(rows, table))
        seen_half.add(Block(rows, np.where(np.arange(4)[:, None] < 2, table, -1)))
    seen_half.fill(passes * (table >= 0).sum(axis=(0, 2)), passes)
    expected, found = seen_all.events(passes, 1), seen_half.events(passes, 1)
    for name in ("kind", "agent", "peer", "row"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
