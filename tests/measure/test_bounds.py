"""The formulas of the theorems, against numbers worked out by hand, and their input checks."""

import math

import numpy as np
import pytest

from ddol.measure import bounds

LOG_4_3 = math.log(4 / 3)


def test_wma_by_hand():
    # α = 1/2: 2.41 (m + log₂ P), the constant of the paper.
    assert bounds.wma(7, 16, 0.5) == pytest.approx(math.log(2) / LOG_4_3 * (7 + 4))


def test_dwm_i_by_hand():
    expected = (100 * math.log(2) + 8 * math.log(50)) / LOG_4_3
    assert bounds.dwm_i(100, 50, 8, 0.5) == pytest.approx(expected)


def test_dwm_a_by_hand():
    kept = 3 * math.log(1 - 0.5 * 2 / 4) + 5 * math.log(1 - 0.5 * 1 / 4)
    expected = (math.log(10) - kept) / -math.log(1 - 0.5 / 8)
    assert bounds.dwm_a(kept, 10, 4, 0.5) == pytest.approx(expected)
    steps = bounds.log_weight([2] * 3 + [1] * 5 + [0] * 9, 4, 0.5)
    assert steps.sum() == pytest.approx(kept)


def test_randomised_by_hand():
    assert bounds.drwm(10, 8, 3, 0.5) == pytest.approx(2 * (10 * math.log(2) + 3 * math.log(8)))
    assert bounds.drwm_a(-1.5, 8, 3, 0.5) == pytest.approx(2 * 3 * (math.log(8) + 1.5))


def test_one_agent_is_the_classic_bound_in_every_form():
    m = np.arange(20)
    classic = bounds.wma(m, 30, 0.7)
    np.testing.assert_allclose(bounds.dwm_i(m, 30, 1, 0.7), classic)
    np.testing.assert_allclose(bounds.dwm_a(m * math.log(0.7), 30, 1, 0.7), classic)
    np.testing.assert_allclose(bounds.dwm_a_before(m, 30, 1, 0.7), classic)
    np.testing.assert_allclose(
        bounds.drwm_a(m * math.log(0.7), 30, 1, 0.7), bounds.drwm(m, 30, 1, 0.7)
    )


def test_before_a_run_dwm_a_assumes_the_worst_rounds():
    rng = np.random.default_rng(0)
    wrong = rng.integers(0, 5, size=(200, 30))
    measured = bounds.dwm_a(bounds.log_weight(wrong, 4, 0.6).sum(axis=0), 9, 4, 0.6)
    assert np.all(measured <= bounds.dwm_a_before(wrong.sum(axis=0), 9, 4, 0.6))
    together = np.repeat([4, 0], 10)
    assert bounds.dwm_a(bounds.log_weight(together, 4, 0.6).sum(), 9, 4, 0.6) == pytest.approx(
        float(bounds.dwm_a_before(40, 9, 4, 0.6))
    )


def test_domd_by_hand():
    # N D/η + S/(2aN) with N = 3, D = 2, η = 1/10, S = 12, a = 1/4.
    assert bounds.domd(2, 12, 0.1, 3, 0.25) == pytest.approx(60 + 12 / (2 * 0.25 * 3))
    assert bounds.domd_paper(2, 12, 100, 3, 0.25) == pytest.approx(
        float(bounds.domd(2, 12, 0.1, 3, 0.25))
    )


def test_domd_before_a_run_is_above_what_equal_gradients_give():
    t = np.arange(1, 501)
    measured = bounds.domd(0.5, np.cumsum(2 / np.sqrt(t) * (4 * 3.0) ** 2), 2 / np.sqrt(t), 4)
    before = bounds.domd_before(0.5, 3.0, t, 4, rate=2)
    assert np.all(measured <= before)
    assert before[-1] < 1.1 * measured[-1]


def test_bounds_are_vectorised_over_points_and_experts():
    counts = np.cumsum(np.random.default_rng(1).integers(0, 2, size=(7, 5)), axis=0)
    table = bounds.dwm_i(counts, 5, 3, 0.8)
    assert table.shape == (7, 5)
    assert table[3, 2] == pytest.approx(float(bounds.dwm_i(counts[3, 2], 5, 3, 0.8)))


@pytest.mark.parametrize("alpha", [1e-9, 1 - 1e-9])
def test_extreme_penalties_stay_finite(alpha):
    for value in (
        bounds.dwm_i(5, 10, 4, alpha),
        bounds.dwm_a_before(5, 10, 4, alpha),
        bounds.drwm(5, 10, 4, alpha),
    ):
        assert np.isfinite(value)


def test_luck_is_rarely_larger_than_its_margin():
    rng = np.random.default_rng(2)
    draws = rng.binomial(400, 0.1, size=200_000)
    margin = float(bounds.chance_margin(40.0, probability=1e-3))
    assert np.mean(draws > 40 + margin) <= 1e-3
    assert margin < 30


BAD = [
    (lambda: bounds.wma(3, 10, 1.0), "`alpha` must lie between 0 and 1, got 1.0"),
    (lambda: bounds.dwm_i(-1, 10, 2, 0.5), "at least 0"),
    (lambda: bounds.dwm_i(np.nan, 10, 2, 0.5), "finite"),
    (lambda: bounds.dwm_i(3, 0, 2, 0.5), "experts and agents, got 0 and 2"),
    (lambda: bounds.dwm_a(0.1, 10, 2, 0.5), "must be at most 0"),
    (lambda: bounds.log_weight(3, 2, 0.5), "at 2 agents in a round, got 3"),
    (lambda: bounds.domd(1, 1, 0, 2), "must be positive"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
