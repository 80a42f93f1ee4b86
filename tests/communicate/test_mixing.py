"""Mixing matrices: stochastic rows, implicit complete graph, checks of one's own matrix."""

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import ddol
from ddol.communicate import mixing as mx
from ddol.communicate import topologies as tp

NAMES = [*tp.TOPOLOGIES, "random-regular:3", "erdos-renyi:0.4"]


def uniform_by_hand(graph):
    near = nx.to_numpy_array(graph) + np.eye(len(graph))
    return near / near.sum(axis=1, keepdims=True)


def metropolis_by_hand(graph):
    matrix = np.zeros((len(graph), len(graph)))
    for i, j in graph.edges:
        matrix[i, j] = matrix[j, i] = 1 / (1 + max(graph.degree[i], graph.degree[j]))
    return matrix + np.diag(1 - matrix.sum(axis=1))


@pytest.mark.parametrize("name", NAMES)
def test_entries_are_those_of_the_definition(name):
    ours = tp.topology(name, 16)
    graph = nx.empty_graph(16)
    graph.add_edges_from(ours.edges().tolist())
    np.testing.assert_allclose(mx.uniform(ours).dense(), uniform_by_hand(graph), atol=1e-15)
    np.testing.assert_allclose(mx.metropolis(ours).dense(), metropolis_by_hand(graph), atol=1e-15)


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_sorted_hold_the_agent_itself_and_sum_to_one(name):
    for build in (mx.uniform, mx.metropolis):
        mixing = build(tp.topology(name, 16))
        for agent in range(16):
            near, weights = mixing.row(agent)
            assert agent in near
            assert np.all(np.diff(near) > 0)
            assert np.all(weights >= 0)
            assert weights.sum() == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_both_agree_and_store_nothing_on_complete_graphs(n):
    for graph in (tp.complete(n), tp.from_edges(n, nx.complete_graph(n).edges)):
        for build in (mx.uniform, mx.metropolis):
            mixing = build(graph)
            assert mixing.is_uniform_complete
            assert mixing.weights.size == 0
            np.testing.assert_array_equal(mixing.dense(), np.full((n, n), 1 / n))


def test_ten_thousand_agents_are_cheap():
    assert mx.uniform(tp.complete(10_000)).is_uniform_complete
    assert mx.metropolis(tp.ring(10_000)).weights.size == 30_000


@pytest.mark.parametrize("name", NAMES)
def test_metropolis_is_doubly_stochastic(name):
    mixing = mx.metropolis(tp.topology(name, 16))
    np.testing.assert_allclose(mixing.dense().sum(axis=0), 1, atol=1e-14)


def test_uniform_listens_more_to_the_hub():
    assert mx.uniform(tp.star(5)).dense().sum(axis=0)[0] == pytest.approx(4 / 2 + 1 / 5)


@pytest.mark.parametrize("as_type", [np.asarray, np.ndarray.tolist, sparse.csr_array])
def test_own_matrix_dense_list_or_sparse(as_type):
    rng = np.random.default_rng(0)
    matrix = rng.random((6, 6)) * (rng.random((6, 6)) < 0.7) + np.diag(np.ones(6))
    matrix /= matrix.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(mx.custom(as_type(matrix)).dense(), matrix, rtol=1e-15)


def test_own_matrix_keeps_a_zero_diagonal_in_its_rows():
    mixing = mx.custom([[0, 1], [1, 0]])
    assert mixing.indices.tolist() == [0, 1, 0, 1]
    assert mixing.weights.tolist() == [0, 1, 1, 0]


def test_own_matrix_of_equal_entries_is_the_complete_graph():
    equal = np.full((3, 3), 1 / 3)
    tilt = np.array([[1, -1, 0], [0, 1, -1], [-1, 0, 1]])
    assert mx.custom(equal).is_uniform_complete
    assert not mx.custom(equal + 1e-6 * tilt).is_uniform_complete


def test_rows_off_by_rounding_are_made_exact():
    mixing = mx.custom(np.array([[0.5, 0.5 + 5e-10], [0.25, 0.75]]))
    assert mixing.weights[:2].sum() == pytest.approx(1, abs=1e-15)


BAD = [
    ([[0.97, 0], [0, 1]], r"rows must sum to 1, row 0 sums to 0.97; use ddol.metropolis\(graph\)"),
    (sparse.csr_array([[1.0, 0], [0.5, 0.4]]), "row 1 sums to 0.9;"),
    ([[1.5, -0.5], [0, 1]], r"not negative, entry \(0, 1\) is -0.5"),
    ([[np.nan, 1], [0, 1]], r"must be finite.*entry \(0, 0\) is nan"),
    ([[1, 0, 0]], r"square matrix, got shape \(1, 3\)"),
    ([["a"]], "matrix of numbers"),
]


@pytest.mark.parametrize(("matrix", "message"), BAD)
def test_bad_matrix_is_one_clear_line(matrix, message):
    with pytest.raises(ValueError, match=message) as caught:
        mx.custom(matrix)
    assert "\n" not in str(caught.value)


def test_own_matrix_must_keep_to_the_graph():
    matrix = np.full((4, 4), 0.25)
    with pytest.raises(ValueError, match=r"entry \(0, 2\) is 0.25, but agents 0 and 2 are not"):
        mx.custom(matrix, tp.ring(4))
    with pytest.raises(ValueError, match=r"entry \(0, 2\)"):
        mx.mixing_for(matrix, tp.ring(4))
    with pytest.raises(ValueError, match="4 agents, the graph ring has 3"):
        mx.custom(matrix, tp.ring(3))
    with pytest.raises(ValueError, match="2 agents, the graph path has 3"):
        mx.custom(np.full((2, 2), 0.5), tp.path(3))


@pytest.mark.parametrize(
    ("engine", "schedule"),
    [
        *(("local", name) for name in ("rounds", "async", "gossip", "push-sum")),
        *(("threads", name) for name in ("rounds", "async")),
    ],
)
def test_agents_that_exchange_nothing_learn_alone_and_it_is_said(schedule, engine):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    y = np.sign(X[:, 0] + 0.3 * rng.standard_normal(400))
    with pytest.warns(UserWarning, match=r"4 parts that exchange nothing: \{0\}, \{1\}"):
        alone = ddol.dogd().on(4, mixing=np.eye(4))
    found = ddol.run(alone, (X, y), schedule=schedule, engine=engine)
    each = [ddol.run(ddol.dogd(), (X[k::4], y[k::4])).mistakes[0] for k in range(4)]
    assert found.mistakes.tolist() == each and found.messages == 0


def test_blocks_average_apart_and_no_token_walks_between_them():
    blocks = np.kron(np.eye(2), np.full((2, 2), 0.5))
    with pytest.warns(UserWarning, match=r"2 parts .*\{0, 1\}, \{2, 3\}; each learns alone"):
        mixing = mx.custom(blocks)
    np.testing.assert_array_equal(mixing.dense(), blocks)
    with pytest.raises(ValueError, match="walk needs a connected graph; this one has 2 parts"):
        ddol.run(ddol.dogd().on(4, mixing=mixing), (np.eye(4), [1, -1, 1, -1]), schedule="walk")


def test_changing_matrix_may_be_disconnected_in_a_round():
    def gossip(t):
        matrix = np.eye(4)
        i, j = t % 4, (t + 1) % 4
        matrix[np.ix_([i, j], [i, j])] = 0.5
        return matrix

    mixing = mx.changing(gossip)
    assert mixing.n_agents == 4
    assert not mixing.is_uniform_complete
    np.testing.assert_array_equal(mixing.at(6).dense(), gossip(6))


def test_changing_accepts_ready_mixings():
    ring, star = mx.uniform(tp.ring(5)), mx.uniform(tp.star(5))
    mixing = mx.changing(lambda t: ring if t % 2 else star)
    assert mixing.at(1) is ring
    assert mixing.at(2) is star


def test_changing_reports_a_failing_function_before_any_round():
    def no_round():
        return np.eye(2)

    with pytest.raises(ValueError, match=r"no_round failed at round t = 1.*take the round"):
        mx.changing(no_round)
    with pytest.raises(ValueError, match="row 0 sums to 2"):
        mx.changing(lambda t: 2 * np.eye(3))
    with pytest.raises(ValueError, match="must be a function of the round"):
        mx.changing(np.eye(2))


def test_changing_must_keep_its_size():
    mixing = mx.changing(lambda t: np.eye(t))
    with pytest.raises(ValueError, match="round 3 has 3 agents and round 1 had 1"):
        mixing.at(3)


def test_mixing_for_names_matrices_and_functions():
    ring = tp.ring(4)
    assert mx.mixing_for("uniform", ring).name == "uniform"
    ready = mx.uniform(ring)
    assert mx.mixing_for(ready, ring) is ready
    assert ready.at(17) is ready
    own = np.array([[0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 0.5, 0.5], [0.5, 0, 0, 0.5]])
    assert mx.mixing_for(own, tp.complete(4)).topology.n_edges == 4
    assert mx.mixing_for(lambda t: own, ring).at(9).n_agents == 4
    with pytest.raises(ValueError, match="uniform, metropolis or a matrix, got 'max'"):
        mx.mixing_for("max", ring)
    with pytest.raises(ValueError, match="4 agents, the graph complete has 5"):
        mx.mixing_for(own, tp.complete(5))


def test_directed_links_have_their_own_weights():
    mixing = ddol.from_links(3, [(0, 1), (0, 2), (1, 2, 0.25), (2, 0, 0.5)])
    third = 1 / 3
    expected = [[third, third, third], [0.0, 0.75, 0.25], [0.5, 0.0, 0.5]]
    np.testing.assert_allclose(mixing.dense(), expected)
    assert mixing.n_messages == 4
    with pytest.raises(ValueError, match=r"links to agent 0 add up to 1\.5, expected at most 1"):
        ddol.from_links(2, [(0, 1, 1.5)])
