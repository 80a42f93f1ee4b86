"""Which theorem is offered for which run, and the alarm when one is violated."""

import numpy as np
import pytest

import ddol
from ddol.measure import bounds, theorems
from ddol.measure.theorems import Bound, find_theorem, on_mistakes

OFFERED = [
    (ddol.wma(), theorems.WMA),
    (ddol.dwm_a().on(1, period=5), theorems.WMA),
    (ddol.dwm_i().on(4), theorems.DWM_I),
    (ddol.dwm_a().on(4), theorems.DWM_A),
    (ddol.drwm().on(4), theorems.DRWM),
    (ddol.drwm(average="primal").on(1), theorems.DRWM),
    (ddol.drwm(average="primal").on(4), theorems.DRWM_A),
    (ddol.doeg().on(4), theorems.DOMD),
    (ddol.doeg(average="primal").on(1), theorems.DOMD),
    (ddol.dogd(average="primal").on(4), theorems.DOMD),
]


@pytest.mark.parametrize(("algorithm", "theorem"), OFFERED)
def test_theorem_is_offered_where_its_assumptions_hold(algorithm, theorem):
    found = find_theorem(algorithm)
    assert found.holds
    assert found.theorem is theorem
    assert found.reason == ""


REFUSED = [
    (ddol.dwm_i().on(ddol.ring(5)), "DWM-I bound not offered: the mixing is not"),
    (ddol.dwm_i().on(4, period=3), "communicate every 3 rounds"),
    (ddol.dwm_i().on(4, batch=2), "2 examples per agent and round"),
    (ddol.dwm_i().on(1, batch=2), "WMA bound not offered: 2 examples"),
    (ddol.dwm_i().on(4, delay=1), "1 rounds late"),
    (ddol.doeg(average="primal").on(4), "averaged in the primal"),
    (ddol.dogd(rate=lambda t: 0.1 * t).on(4), "rate may increase"),
    (ddol.coin().on(4), "no bound: no theorem of the paper is about"),
]


@pytest.mark.parametrize(("algorithm", "reason"), REFUSED)
def test_refusal_says_why(algorithm, reason):
    found = find_theorem(algorithm)
    assert not found.holds
    assert reason in found.reason


def test_all_that_is_missing_is_named():
    assert len(find_theorem(ddol.dwm_i().on(4, period=3, delay=2)).missing) == 2


def test_best_expert_changes_over_a_run():
    counts = np.array([[0, 2], [5, 3]])
    value = on_mistakes(theorems.DWM_I, counts * np.log(0.5) / 3, 2, 3, 0.5).value
    np.testing.assert_allclose(value, bounds.dwm_i([0, 3], 2, 3, 0.5))
    value = on_mistakes(theorems.DRWM, counts * np.log(0.5) / 3, 2, 3, 0.5).value
    np.testing.assert_allclose(value, bounds.drwm([0, 3], 2, 3, 0.5))


def test_primal_average_uses_the_log_weights():
    kept = np.array([[-0.1, -0.4], [-2.0, -0.9]])
    for theorem, formula in ((theorems.DWM_A, bounds.dwm_a), (theorems.DRWM_A, bounds.drwm_a)):
        value = on_mistakes(theorem, kept, 2, 3, 0.5).value
        np.testing.assert_allclose(value, formula([-0.1, -0.9], 2, 3, 0.5))


def test_violation_is_loud_and_names_the_first_point():
    bound = Bound(theorems.WMA, np.array([3.0, 4.0, 5.0]))
    assert bound.exceeded([3, 4, 5]) == ""
    message = bound.exceeded([3, 6, 9], rounds=[10, 20, 30])
    assert message.startswith("bound violated: WMA allows 4 mistakes by round 20, 6 were observed")
    assert message.endswith("a bug in the code or in the theorem")


def test_not_a_number_is_a_violation():
    assert "violated" in Bound(theorems.DOMD, np.array([3.0])).exceeded([np.nan])


def test_luck_is_no_violation_of_an_expectation():
    bound = on_mistakes(theorems.DRWM, [-100.0], 2, 1, 0.5)
    assert bound.exceeded(bound.value + 5) == ""
    assert "violated" in bound.exceeded(bound.value * 3)
