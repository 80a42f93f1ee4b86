"""Algorithm 1 as properties: on any graph, for any algorithm."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ddol
from ddol.reference import play_round, start
from ddol.streams.dealing import table_round_robin
from ddol.streams.rows import Rows
from ddol.testing import examples_for, play_engine

ALGORITHMS = (
    ddol.dogd(),
    ddol.dogd(l2=0.0, radius=0.5, average="primal"),
    ddol.doeg(radius=2.0),
    ddol.doeg(radius=2.0, average="primal"),
    ddol.p_norm(1.5, average="primal"),
    ddol.winnow(),
    ddol.adaptive(),
    ddol.coin(),
    ddol.newton(),
    ddol.newton(rank=2),
    ddol.dual_averaging(l1=0.01),
    ddol.dwm_i(0.7),
    ddol.dwm_a(0.7),
)
algorithms = st.sampled_from(ALGORITHMS)


@st.composite
def graphs(draw, most=6):
    """A random tree with some more edges."""
    n = draw(st.integers(2, most))
    tree = [(i, draw(st.integers(0, i - 1))) for i in range(1, n)]
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda e: e[0] != e[1])
    return n, tree + draw(st.lists(pairs, max_size=n))


def played(algorithm, seed, order=None, n=48, n_features=5):
    """Play random examples; with an order, agent order[i] gets what agent i would have got."""
    X, y = examples_for(algorithm, n, n_features, np.random.default_rng(seed))
    table = table_round_robin(n, algorithm.n_agents)
    if order is not None:
        table = table[:, np.argsort(order)]
    return play_engine(algorithm, Rows.from_dense(X, y), table)


@settings(max_examples=40)
@given(graph=graphs(), algorithm=algorithms, seed=st.integers(0, 99), data=st.data())
def test_relabelling_agents_changes_nothing(graph, algorithm, seed, data):
    n, edges = graph
    order = np.array(data.draw(st.permutations(range(n))))
    here = played(algorithm.on(ddol.from_edges(n, edges)), seed)
    there = played(algorithm.on(ddol.from_edges(n, order[np.array(edges)])), seed, order)
    np.testing.assert_allclose(there.weights[order], here.weights, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(there.loss[order], here.loss, rtol=1e-6)


@settings(max_examples=40)
@given(graph=graphs(), algorithm=algorithms, seed=st.integers(0, 99), period=st.integers(1, 3))
def test_averaging_keeps_consensus(graph, algorithm, seed, period):
    n, edges = graph
    team = algorithm.on(ddol.from_edges(n, edges), period=period)
    agents = start(team, 5)
    X, y = examples_for(team, 10, 5, np.random.default_rng(seed))
    for row in range(10):
        agents, _ = play_round(team, agents, [(X[row : row + 1], y[row : row + 1])] * n)
    weights = np.array([team.update.weights(states[0]) for states in agents.states])
    np.testing.assert_allclose(weights, weights[:1].repeat(n, axis=0), rtol=1e-6, atol=1e-9)


@settings(max_examples=25)
@given(graph=graphs(), seed=st.integers(0, 99))
def test_the_mean_of_the_duals_moves_by_the_mean_gradient(graph, seed):
    """With a doubly stochastic matrix no agent's gradient counts for more than another's."""
    n, edges = graph
    algorithm = ddol.dogd("absolute", l2=0.0).on(ddol.from_edges(n, edges))
    rng = np.random.default_rng(seed)
    agents, mean = start(algorithm, 3), np.zeros(3)
    for t in range(1, 9):
        X, y = rng.standard_normal((n, 3)), 100.0 * rng.choice([-1.0, 1.0], n)
        # Answers are so far away that slopes are the answers' signs, whatever the weights.
        mean -= (-np.sign(y) @ X) / n / np.sqrt(t)
        examples = [(X[i : i + 1], y[i : i + 1]) for i in range(n)]
        agents, _ = play_round(algorithm, agents, examples)
    states = np.array([states[0].rows[0] for states in agents.states])
    np.testing.assert_allclose(states.mean(axis=0), mean, atol=1e-12)


@pytest.mark.parametrize("average", ["dual", "primal"])
def test_geometric_and_arithmetic_means_of_two_agents(average):
    """One round of DWM by hand: agent 0's first expert is wrong, agent 1's second one."""
    algorithm = (ddol.dwm_i(0.5) if average == "dual" else ddol.dwm_a(0.5)).on(2)
    examples = [
        (np.array([[-1.0, 1.0, 1.0]]), np.array([1.0])),
        (np.array([[1.0, -1.0, 1.0]]), np.array([1.0])),
    ]
    agents, outcome = play_round(algorithm, start(algorithm, 3), examples)
    weights = np.exp(algorithm.update.log_weights(agents.states[0][0]))
    mean = np.sqrt(0.5) if average == "dual" else 0.75
    np.testing.assert_allclose(weights, [mean, mean, 1.0])
    assert outcome.mistakes.tolist() == [0, 0]


def test_placing_an_algorithm():
    algorithm = ddol.dogd().on(ddol.ring(4), period=3)
    assert (algorithm.n_agents, algorithm.period, algorithm.mixing.name) == (4, 3, "metropolis")
    assert algorithm.on(3).mixing.name == "uniform"
    assert algorithm.on(ddol.star(4), "uniform").mixing.row(1)[1].tolist() == [0.5, 0.5]
    assert ddol.adaptive().on(ddol.ring(6)).update.n_agents == 6
