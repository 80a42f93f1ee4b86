"""The contract checks let ours pass, and refuse parts that are wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

import ddol
from ddol.communicate.graph import Topology
from ddol.compiled import column
from ddol.testing import check_algorithm, check_loss, check_mirror, check_topology, check_update
from ddol.update import linear
from ddol.update.contract import Loops
from ddol.update.losses import REGRESSION, Loss
from ddol.update.mirrors import MirrorDescent, separable_mirror

TOPOLOGIES = (
    ddol.complete(1),
    ddol.complete(5),
    ddol.ring(3),
    ddol.ring(8),
    ddol.path(2),
    ddol.path(5),
    ddol.star(6),
    ddol.grid(3, 4),
    ddol.torus(3, 4),
    ddol.hypercube(8),
    ddol.exponential(9),
    ddol.random_regular(10, 3, seed=1),
    ddol.erdos_renyi(12, 0.3, seed=1),
    ddol.from_edges(4, [(0, 1), (1, 2), (2, 3), (0, 2)]),
)


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda t: f"{t.name}-{t.n_agents}")
def test_every_topology_keeps_the_contract(topology):
    check_topology(topology)


def square(z, y, p):
    return (z - y) ** 2


def half_slope(z, y, p):
    return z - y


def concave(z, y, p):
    return -abs(z - y)


def concave_slope(z, y, p):
    return -1.0 if z > y else 1.0


def overflowing(z, y, p):
    return math.exp(min(z, 700.0)) * 1e300 * 1e300


@pytest.mark.parametrize(
    ("value", "derivative", "message"),
    [
        (square, half_slope, "no subgradient"),
        (concave, concave_slope, "is the derivative right, and the loss convex"),
        (overflowing, overflowing, "not finite"),
    ],
)
def test_a_wrong_loss_is_refused(value, derivative, message):
    with pytest.raises(AssertionError, match=message):
        check_loss(Loss("wrong", value, derivative, task=REGRESSION))


def cube(x, p):
    return x * x * x


def no_inverse(x, p):
    return x


def falling(x, p):
    return -x


@pytest.mark.parametrize(
    ("to_primal", "to_dual", "message"),
    [(cube, no_inverse, "off by"), (falling, falling, "not monotone")],
)
def test_a_wrong_mirror_is_refused(to_primal, to_dual, message):
    with pytest.raises(AssertionError, match=message):
        check_mirror(separable_mirror("wrong", to_primal, to_dual))


def test_a_wrong_graph_is_refused():
    one_way = Topology("one way", 3, np.array([0, 2, 4, 5]), np.array([1, 2, 0, 2, 1]))
    with pytest.raises(AssertionError, match="an edge of 0 has one end"):
        check_topology(one_way)
    apart = Topology("apart", 4, np.array([0, 1, 2, 3, 4]), np.array([1, 0, 3, 2]))
    with pytest.raises(AssertionError, match="not connected"):
        check_topology(apart)


def dense_only(w, s, p, x, index, n, D, g, eta, weight):
    """Forgets that the j-th value of a sparse row is not feature j."""
    for j in range(n):
        w[j] -= eta * weight * g * x[j]


def greedy_message(w, s, p, index, n, D, out):
    for j in range(n):
        out[j] = 1.5 * s[0] * w[column(index, j)]


def curious_step(w, s, p, x, index, n, D, g, eta, weight):
    """Is not additive, as its loops say: what it adds depends on what others added."""
    for j in range(n):
        d = column(index, j)
        w[d] -= eta * weight * g * x[j] / (1.0 + w[d] * w[d])


@dataclass(frozen=True)
class WrongLoops(MirrorDescent):
    """A step that is right for dense rows only."""

    def loops(self, space):
        return replace(linear.FREE, step=dense_only)


@dataclass(frozen=True)
class Greedy(MirrorDescent):
    """Agents learn more from their neighbours than there is."""

    def loops(self, space):
        return replace(linear.LOOPS, to_message=greedy_message, shared=None)


@dataclass(frozen=True)
class Curious(MirrorDescent):
    """Its steps do not add up."""

    def loops(self, space):
        return Loops(linear.free_score, curious_step, additive=True)


def test_an_update_whose_loops_are_wrong_is_refused():
    with pytest.raises(AssertionError, match=r"engine and reference: checked .* sparse rows"):
        check_update(WrongLoops())


def test_an_update_whose_average_is_none_is_refused():
    with pytest.raises(AssertionError, match="agents with the same examples, and one alone"):
        check_update(Greedy())


def test_an_update_whose_steps_do_not_add_up_is_refused():
    with pytest.raises(AssertionError, match=r"engine and reference: checked .* on complete of 3"):
        check_update(Curious())


def test_an_algorithm_is_checked_where_it_stands():
    check_algorithm(ddol.dogd().on(ddol.ring(6), batch=2), sparse=True, n_examples=100)
    wrong = ddol.Algorithm("wrong", WrongLoops()).on(3)
    with pytest.raises(AssertionError, match="wrong with the loss hinge on complete of 3, batch 1"):
        check_algorithm(wrong, sparse=True)


def softplus(z, y, p):
    margin = y * z
    return math.log1p(math.exp(-abs(margin))) + max(-margin, 0.0)


def softplus_slope(z, y, p):
    return -y / (1.0 + math.exp(y * z))  # beyond 709 plain Python gives up; compiled it is 0


def test_a_loss_that_overflows_in_plain_python_only_is_right():
    check_loss(Loss("softplus", softplus, softplus_slope))


def test_a_loss_that_overflows_compiled_is_refused():
    grows = Loss(
        "exponential", lambda z, y, p: math.exp(-y * z), lambda z, y, p: -y * math.exp(-y * z)
    )
    with pytest.raises(AssertionError, match="exponential: not finite at z = "):
        check_loss(grows)
