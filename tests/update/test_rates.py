"""Rates: the usual ones, and functions of one's own."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from ddol.update.rates import constant, evaluate, inverse, inverse_sqrt


@pytest.mark.parametrize(
    ("rate", "values"),
    [
        (constant(2.0), [2.0, 2.0, 2.0]),
        (inverse_sqrt(3.0), [3.0, 3.0 / math.sqrt(2), 3.0 / math.sqrt(3)]),
        (inverse(), [1.0, 0.5, 1 / 3]),
        (lambda t: 0.1, [0.1, 0.1, 0.1]),
        (lambda t: 1 / math.sqrt(t), [1.0, 1 / math.sqrt(2), 1 / math.sqrt(3)]),
        (lambda t: 1.0 if t < 2 else 0.5, [1.0, 0.5, 0.5]),
        (lambda t: [9.0, 8.0, 7.0][t - 1], [9.0, 8.0, 7.0]),
        (lambda t: np.array([9.0, 8.0, 7.0])[t - 1], [9.0, 8.0, 7.0]),
    ],
)
def test_rounds_together_and_one_by_one(rate, values):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(evaluate(rate, 1, 3), values)
        one_by_one = [evaluate(rate, t, 1)[0] for t in (1, 2, 3)]
    assert one_by_one == evaluate(rate, 1, 3).tolist()


@pytest.mark.parametrize(
    ("rate", "error", "message"),
    [
        (lambda t, eta: eta, TypeError, "`rate` function <lambda> failed in round 1.*function of"),
        (lambda t: None, TypeError, "that returns a number"),
        (lambda t: -1.0, ValueError, "`rate` gave -1.0 in round 1, expected a finite number ≥ 0"),
        (lambda t: math.nan, ValueError, "`rate` gave nan in round 1"),
        (lambda t: 1 / (t - 3), ZeroDivisionError, "division by zero"),
    ],
)
def test_a_rate_that_is_none(rate, error, message):
    with pytest.raises(error, match=message):
        evaluate(lambda t: rate(t) if np.isscalar(t) else rate(int(t[0])), 1, 3)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan, "fast", None])
def test_a_scale_that_is_no_positive_number(scale):
    with pytest.raises(ValueError, match="`rate` must be a positive number or a function"):
        constant(scale)
