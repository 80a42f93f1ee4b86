"""Which theorem is offered for which run, and the alarm when one is violated."""

import numpy as np
import pytest

from ddol.measure import bounds, theorems
from ddol.measure.theorems import Bound, Setting, applicable, on_mistakes

VOTE = "weighted-majority"
MIRROR = "mirror-descent"

OFFERED = [
    (Setting(VOTE, 1), theorems.WMA),
    (Setting(VOTE, 1, average="primal", uniform_complete=False, period=5), theorems.WMA),
    (Setting(VOTE, 4), theorems.DWM_I),
    (Setting(VOTE, 4, average="primal"), theorems.DWM_A),
    (Setting(VOTE, 4, randomized=True), theorems.DRWM),
    (Setting(VOTE, 1, average="primal", randomized=True), theorems.DRWM),
    (Setting(VOTE, 4, average="primal", randomized=True), theorems.DRWM_A),
    (Setting(MIRROR, 4), theorems.DOMD),
    (Setting(MIRROR, 1, average="primal"), theorems.DOMD),
]


@pytest.mark.parametrize(("setting", "theorem"), OFFERED)
def test_theorem_is_offered_where_its_assumptions_hold(setting, theorem):
    offer = applicable(setting)
    assert offer.holds
    assert offer.theorem is theorem
    assert offer.reason == ""


REFUSED = [
    (Setting(VOTE, 4, uniform_complete=False), "DWM-I bound not offered: the mixing is not"),
    (Setting(VOTE, 4, period=3), "communicate every 3 rounds"),
    (Setting(VOTE, 4, batch=2), "2 examples per agent and round"),
    (Setting(VOTE, 1, batch=2), "WMA bound not offered: 2 examples"),
    (Setting(VOTE, 4, delay=1), "1 rounds late"),
    (Setting(MIRROR, 4, average="primal"), "averaged in the primal"),
    (Setting(MIRROR, 4, convex=False), "not convex"),
    (Setting(MIRROR, 4, rate_falls=False), "rate may increase"),
    (Setting("coin-betting", 4), "no bound: no theorem of the paper is about coin-betting"),
]


@pytest.mark.parametrize(("setting", "reason"), REFUSED)
def test_refusal_says_why(setting, reason):
    offer = applicable(setting)
    assert not offer.holds
    assert reason in offer.reason


def test_all_that_is_missing_is_named():
    offer = applicable(Setting(VOTE, 4, period=3, delay=2))
    assert len(offer.missing) == 2


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
