"""The loops of every built-in update against formulas on whole vectors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import ddol
import oracles
from ddol.algorithm import Algorithm
from ddol.streams.dealing import table_round_robin
from ddol.streams.rows import Rows
from ddol.testing import examples_for, play_engine, play_reference
from ddol.update.averaging import DualAveraging
from ddol.update.losses import hinge, zero_one
from ddol.update.majority import Majority
from ddol.update.mirrors import (
    MirrorDescent,
    separable_mirror,
)
from ddol.update.rates import inverse_sqrt
from descents import DESCENTS, PLACES


def cube_root(theta, p):
    return np.sign(theta) * abs(theta) ** p[0]


def cube(w, p):
    return np.sign(w) * abs(w) ** (1.0 / p[0])


own = separable_mirror("root", cube_root, cube, (0.5,))
UPDATES = {
    **DESCENTS,
    "separable": MirrorDescent(own, l2=0.1),
    "dual averaging": DualAveraging(l1=0.05),
    "dual averaging, ball": DualAveraging(radius=0.3),
    "majority": Majority(0.6),
    "majority of 3": Majority(0.7, n_classes=3),
    "drawn": Majority(0.6, randomized=True),
    "drawn of 3": Majority(0.7, n_classes=3, randomized=True),
}
NETWORKS = (ddol.complete(1), ddol.complete(3), ddol.ring(4))


def near(found, expected, most):
    assert (found.mistakes == expected.mistakes).all()
    for name in ("loss", "expected", "weights"):
        one, other = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(one, other, rtol=0, atol=most * max(np.abs(other).max(), 1.0))


@pytest.mark.parametrize("average", ["dual", "primal"])
@pytest.mark.parametrize("name", UPDATES)
def test_engine_and_reference_are_the_formulas(name, average):
    update = UPDATES[name]
    loss = zero_one if update.experts else hinge
    classes = getattr(update, "n_classes", 2)
    base = Algorithm(
        name,
        update,
        loss,
        inverse_sqrt(0.3),
        average=average,
        outputs=1 if classes == 2 else classes,
    )
    for place, network in itertools.product(PLACES, NETWORKS):
        algorithm = base.on(network, **place)
        X, y = examples_for(algorithm, 47, 5, np.random.default_rng(3))
        table = table_round_robin(47, algorithm.n_agents, algorithm.batch)
        expected = oracles.play(algorithm, X, y, table)
        near(play_reference(algorithm, X, y, table), expected, 1e-10)
        near(play_engine(algorithm, Rows.from_dense(X, y), table), expected, 1e-10)


def test_several_outputs_are_the_formulas():
    for average, network in itertools.product(("dual", "primal"), NETWORKS):
        algorithm = ddol.dogd(l2=0.3, outputs=3, average=average).on(network, batch=2)
        X, y = examples_for(algorithm, 40, 4, np.random.default_rng(1))
        table = table_round_robin(40, algorithm.n_agents, 2)
        expected = oracles.play(algorithm, X, y, table)
        near(play_engine(algorithm, Rows.from_dense(X, y), table), expected, 1e-10)
