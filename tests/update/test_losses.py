"""Losses: slopes, ties and parameters."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddol.testing import check_loss
from ddol.update.losses import LOSSES, REGRESSION, Loss, huber, loss_named, quantile

CONVEX = [make() for name, make in LOSSES.items() if name != "zero_one"]
scores = st.floats(-30, 30)


@pytest.mark.parametrize("loss", CONVEX, ids=lambda loss: loss.name)
def test_every_loss_keeps_the_contract(loss):
    check_loss(loss)


@pytest.mark.parametrize("loss", CONVEX, ids=lambda loss: loss.name)
@given(z=scores, y=st.floats(-5, 5), positive=st.booleans())
def test_the_derivative_lies_between_the_difference_quotients(loss, z, y, positive):
    answer, h, p = (y if loss.task == REGRESSION else 1.0 if positive else -1.0), 1e-6, None
    p = loss.parameters
    here = loss.value(z, answer, p)
    left = (here - loss.value(z - h, answer, p)) / h
    right = (loss.value(z + h, answer, p) - here) / h
    room = 1e-7 * (1 + abs(here) / h * 1e-8)
    assert left - room <= loss.derivative(z, answer, p) <= right + room


@pytest.mark.parametrize(
    ("name", "z", "y", "slope"),
    [
        ("hinge", 1.0, 1.0, 0.0),
        ("squared_hinge", 1.0, 1.0, 0.0),
        ("absolute", 2.0, 2.0, 0.0),
        ("epsilon_insensitive", 0.1, 0.0, 0.0),
        ("quantile", 2.0, 2.0, 0.0),
        # Score 0 predicts +1: a mistake on −1 only.
        ("perceptron", 0.0, 1.0, 0.0),
        ("perceptron", 0.0, -1.0, 1.0),
    ],
)
def test_tie_rules(name, z, y, slope):
    loss = loss_named(name)
    assert loss.derivative(z, y, loss.parameters) == slope


@given(z=st.lists(scores, min_size=3, max_size=6), which=st.integers(0, 2))
def test_several_classes_together_have_the_slopes_of_their_loss(z, which):
    loss = loss_named("softmax")
    cost, slopes = loss.compare(z, which)
    assert math.isclose(cost, np.logaddexp.reduce(z) - z[which], abs_tol=1e-12)
    for k, slope in enumerate(slopes):
        moved = [score + (1e-6 if j == k else 0.0) for j, score in enumerate(z)]
        assert math.isclose(slope, (loss.compare(moved, which)[0] - cost) / 1e-6, abs_tol=1e-5)
    chances = loss.chances(np.array([z]))[0]
    assert math.isclose(-math.log(max(chances[which], 1e-300)), cost, abs_tol=1e-9)


def test_logistic_neither_overflows_nor_loses_digits():
    logistic = loss_named("logistic")
    assert logistic.value(-1e6, 1.0, ()) == 1e6
    assert logistic.value(800.0, 1.0, ()) == 0.0
    assert math.isclose(logistic.value(40.0, 1.0, ()), math.exp(-40), rel_tol=1e-12)
    assert logistic.derivative(-1e6, 1.0, ()) == -1.0
    assert logistic.probability(-1e6) == 0.0 and logistic.probability(0.0) == 0.5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: huber(0.0), "`delta` must be a positive number, it is 0.0"),
        (lambda: quantile(1.0), "`q` must lie between 0 and 1"),
        (lambda: loss_named("epsilon-insensitive", epsilon=-1.0), "`epsilon` must be at least 0"),
        (lambda: loss_named("hing"), "unknown loss 'hing'; use one of absolute"),
        (lambda: Loss("own", abs_value, abs_value, task="ranking"), "use binary or regression"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def abs_value(z, y, p):
    return abs(z - y)
