"""Conditions: what is understood, what is refused, and what is drawn."""

import math

import numpy as np
import pytest

from ddol.communicate.mixing import metropolis
from ddol.communicate.topologies import ring
from ddol.schedules.conditions import Conditions, Draw
from ddol.schedules.wiring import Wiring


@pytest.mark.parametrize(
    "wrong",
    [
        {"latency": -1}, {"latency": math.inf}, {"latency": math.nan}, {"latency": "fast"},
        {"latency": "5..2"}, {"latency": "exponential:-1"}, {"latency": "normal:2"},
        {"latency": "1..inf"}, {"drop_messages": 1.5}, {"drop_messages": -0.1}, {"drop_messages": "often"},
        {"delay": 1.5},
        {"delay": -1}, {"delay": "0.5..2"}, {"delay": [1, -2]}, {"delay": [0.5]}, {"speed": 0},
        {"speed": [1, 0]}, {"speed": "1,x"}, {"speed": [1, math.inf]}, {"churn": "90"},
        {"churn": (0, 1)}, {"churn": (1, 2, 3)}, {"churn": "a:b"}, {"latency": [[0, -1], [0, 0]]},
        {"drop_messages": [[0, 2], [0, 0]]}, {"partitions": [(5, 1, [[0]])]}, {"partitions": [(1,)]},
    ],
)  # fmt: skip
def test_bad_conditions_are_refused_in_one_line(wrong):
    [name] = wrong
    with pytest.raises(ValueError, match=f"`{name}`") as caught:
        Conditions(**wrong)
    assert "\n" not in str(caught.value)


def test_wrong_number_of_agents_is_refused():
    rng, wires = np.random.default_rng(0), Wiring.of(metropolis(ring(4)))
    with pytest.raises(ValueError, match="`speed` is given for 2 agents, the network has 4"):
        Conditions(speed=[1, 2]).speeds(4, rng)
    with pytest.raises(ValueError, match="`latency` is given for 2 × 2 agents"):
        Conditions(latency=np.zeros((2, 2))).on_wires("latency", wires)
    with pytest.raises(ValueError, match="names agent 9, expected 0 to 3"):
        Conditions(partitions=[(0, 1, [[9]])]).groups(4)


@pytest.mark.parametrize("text", ["3", "2..8", "exponential:3", "geometric:3"])
@pytest.mark.parametrize("whole", [False, True])
def test_draws_have_the_mean_that_they_say(text, whole):
    drawn = Draw.of(text, "delay").take(np.random.default_rng(0).random(200_000), whole)
    assert drawn.mean() == pytest.approx(Draw.of(text, "delay").mean, rel=0.02)
    assert drawn.min() >= 0
    if whole:
        assert not (drawn % 1).any()


def test_links_have_latencies_of_their_own():
    wires, latency = Wiring.of(metropolis(ring(3))), np.arange(9.0).reshape(3, 3)
    on_wires = Conditions(latency=latency).on_wires("latency", wires)
    for wire in range(len(wires.sender)):
        assert on_wires[wire] == latency[wires.sender[wire], wires.listener[wire]]


def test_no_condition_is_calm():
    assert Conditions().is_calm
    assert Conditions(churn=(5, 0)).is_calm
    for each in (
        {"latency": 1},
        {"drop_messages": 0.1},
        {"delay": 1},
        {"churn": (9, 1)},
        {"speed": "1..2"},
    ):
        assert not Conditions(**each).is_calm
