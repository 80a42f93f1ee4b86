"""Topologies: shapes, small sizes, names, random graphs and bad input."""

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

from ddol.communicate import topologies as tp
from ddol.communicate.graph import from_pairs
from ddol.communicate.random_graphs import _coin_tosses

BUILDERS = {
    "complete": (tp.complete, nx.complete_graph),
    "ring": (tp.ring, nx.cycle_graph),
    "path": (tp.path, nx.path_graph),
    "star": (tp.star, lambda n: nx.star_graph(n - 1)),
    "grid": (lambda n: tp.grid(2, n // 2), lambda n: nx.grid_2d_graph(2, n // 2)),
    "torus": (lambda n: tp.torus(4, n // 4), lambda n: nx.grid_2d_graph(4, n // 4, periodic=True)),
    "hypercube": (tp.hypercube, lambda n: nx.hypercube_graph(n.bit_length() - 1)),
}


def as_networkx(graph):
    out = nx.empty_graph(graph.n_agents)
    out.add_edges_from(graph.edges().tolist())
    return out


@pytest.mark.parametrize("name", BUILDERS)
def test_named_graph_is_the_one_networkx_makes(name):
    ours, theirs = BUILDERS[name]
    assert nx.is_isomorphic(as_networkx(ours(16)), theirs(16))


@pytest.mark.parametrize("name", [*tp.TOPOLOGIES, "random-regular:3", "erdos-renyi:0.4"])
def test_neighbour_lists_are_symmetric_sorted_and_without_loops(name):
    graph = tp.topology(name, 16)
    indptr, indices = graph.csr()
    assert indptr.dtype == indices.dtype == np.int64
    assert indptr[-1] == indices.size == 2 * graph.n_edges
    for i in range(16):
        near = graph.neighbours(i)
        assert np.array_equal(near, indices[indptr[i] : indptr[i + 1]])
        assert np.all(np.diff(near) > 0)
        assert i not in near
        assert all(i in graph.neighbours(j) for j in near)
    assert np.array_equal(graph.degrees, np.diff(indptr))
    assert graph.is_connected


@pytest.mark.parametrize("name", tp.TOPOLOGIES)
def test_one_and_two_agents(name):
    one, two = tp.topology(name, 1), tp.topology(name, 2)
    assert (one.n_edges, two.n_edges) == (0, 1)
    assert one.is_complete and two.is_complete
    assert one.is_connected and two.is_connected
    assert two.edges().tolist() == [[0, 1]]


def test_one_and_two_random_agents():
    assert tp.random_regular(1, 0).n_edges == 0
    assert tp.random_regular(2, 1).edges().tolist() == [[0, 1]]
    assert tp.erdos_renyi(1, 0.5).n_edges == 0
    assert tp.erdos_renyi(2, 0.5).edges().tolist() == [[0, 1]]


def test_complete_graph_of_ten_thousand_stores_nothing():
    graph = tp.complete(10_000)
    assert graph.indices.size == 0
    assert graph.is_complete and graph.is_connected
    assert graph.degrees.sum() == 2 * graph.n_edges
    assert graph.neighbours(7).size == 9_999


@pytest.mark.parametrize("seed", range(5))
def test_components_are_those_of_networkx(seed):
    theirs = nx.gnm_random_graph(300, 200, seed=seed)
    order = np.random.default_rng(seed).permutation(300)
    pairs = order[np.array(theirs.edges)]
    ours = from_pairs("random", 300, pairs[:, 0], pairs[:, 1])
    expected = {frozenset(order[list(part)]) for part in nx.connected_components(theirs)}
    assert {frozenset(part) for part in ours.components()} == expected
    assert not ours.is_connected


def test_long_path_in_random_order_is_connected():
    order = np.random.default_rng(0).permutation(5000)
    assert from_pairs("path", 5000, order[:-1], order[1:]).is_connected


def test_exponential_reaches_everyone_in_logarithmic_steps():
    assert nx.diameter(as_networkx(tp.exponential(64))) <= 4


@pytest.mark.parametrize(("n", "degree"), [(10, 3), (9, 4), (50, 4), (12, 9), (8, 7), (400, 16)])
def test_random_regular_is_regular_connected_and_seeded(n, degree):
    graph = tp.random_regular(n, degree, seed=5)
    assert np.all(graph.degrees == degree)
    assert graph.is_connected
    assert np.array_equal(graph.edges(), tp.random_regular(n, degree, seed=5).edges())


def test_random_regular_differs_by_seed():
    first, second = (tp.random_regular(40, 4, seed=s).edges() for s in (1, 2))
    assert not np.array_equal(first, second)


def test_erdos_renyi_has_about_p_of_the_edges():
    graph = tp.erdos_renyi(400, 0.1, seed=2)
    pairs = 400 * 399 / 2
    assert abs(graph.n_edges - 0.1 * pairs) < 5 * np.sqrt(pairs * 0.09)
    assert np.array_equal(graph.edges(), tp.erdos_renyi(400, 0.1, seed=2).edges())


def test_erdos_renyi_tosses_every_coin_alike():
    rng = np.random.default_rng(0)
    heads = np.zeros(45)
    for _ in range(4000):
        heads[_coin_tosses(45, 0.3, rng)] += 1
    assert np.all(np.abs(heads / 4000 - 0.3) < 5 * np.sqrt(0.21 / 4000))


def test_hopeless_random_graph_says_what_to_do():
    with pytest.raises(ValueError, match="not connected in 100 draws; raise p or change the seed"):
        tp.erdos_renyi(1000, 1e-5)


def test_equal_graphs_from_edges_adjacency_and_networkx():
    graph = nx.petersen_graph()
    matrix = nx.to_numpy_array(graph)
    made = [
        tp.from_edges(10, graph.edges),
        tp.from_edges(10, [(b, a) for a, b in graph.edges] * 2),
        tp.from_adjacency(matrix),
        tp.from_adjacency(sparse.csr_array(matrix)),
        tp.from_networkx(graph),
    ]
    for one in made:
        assert np.array_equal(one.edges(), made[0].edges())
        assert one.n_edges == 15


def test_networkx_nodes_of_any_kind_are_numbered_in_their_order():
    graph = nx.Graph([("paris", "lyon"), ("lyon", "nice"), ("nice", "nice")])
    assert tp.from_networkx(graph).edges().tolist() == [[0, 1], [1, 2]]


def test_topology_accepts_names_values_and_functions():
    ring = tp.ring(6)
    assert tp.topology(ring, 6) is ring
    assert tp.topology("erdos_renyi:0.5", 8).name == "erdos-renyi"
    assert tp.topology("grid", 7).shape == (1, 7)
    assert tp.topology(nx.to_numpy_array(nx.cycle_graph(6)), 6).n_edges == 6
    assert tp.topology(tp.star, 5).name == "star"
    assert tp.topology([(0, 1), (1, 2)], 3).n_edges == 2


BAD = [
    (lambda: tp.ring(0), "at least 1, got 0"),
    (lambda: tp.ring(2.5), "whole number"),
    (lambda: tp.hypercube(6), "power of two agents, got 6"),
    (lambda: tp.topology("mesh", 4), "must be one of complete, ring.*got 'mesh'"),
    (lambda: tp.topology("random-regular", 4), "must be one of"),
    (lambda: tp.topology("random-regular:x", 4), "number after the colon, got 'x'"),
    (lambda: tp.topology(tp.ring(5), 4), "ring has 5 agents, the run has 4"),
    (lambda: tp.random_regular(5, 3), "even n × degree, got 5 × 3"),
    (lambda: tp.random_regular(5, 5), "degree from 0 to 4"),
    (lambda: tp.erdos_renyi(5, 1.5), "probability"),
    (lambda: tp.from_edges(3, [(0, 1), (1, 3)]), r"agents 0 to 2, edge 1 is \[1, 3\]"),
    (lambda: tp.from_edges(3, [(0, 1, 2)]), "pairs of agents"),
    (lambda: tp.from_edges(3, [(0, 1), (1,)]), "pairs of agents"),
    (lambda: tp.from_edges(3, [(0, 1.5)]), "pairs of agents"),
    (lambda: tp.from_adjacency([[0, 1], [0, 0]]), r"symmetric, but has \(0, 1\) and not \(1, 0\)"),
    (lambda: tp.from_adjacency([[0, 1]]), r"square matrix, got shape \(1, 2\)"),
    (lambda: tp.from_networkx(nx.DiGraph([(0, 1)])), "must be undirected"),
    (
        lambda: tp.from_edges(5, [(0, 1), (2, 3)]),
        r"its 5 agents fall into 3 components: \{0, 1\}, \{2, 3\}, \{4\}; add edges",
    ),
    (lambda: tp.from_edges(9, []), "9 components: .* and 5 more"),
]


@pytest.mark.parametrize(("build", "message"), BAD)
def test_bad_input_is_one_clear_line(build, message):
    with pytest.raises(ValueError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [*tp.TOPOLOGIES, "random-regular:3"])
def test_drawing_keeps_agents_apart_and_inside_the_square(name):
    place = tp.topology(name, 16).positions()
    assert place.shape == (16, 2)
    assert np.abs(place).max() <= 1 + 1e-12
    apart = np.linalg.norm(place[:, None] - place, axis=2) + 9 * np.eye(16)
    assert apart.min() > 0.05


@pytest.mark.parametrize("name", tp.TOPOLOGIES)
def test_drawing_of_one_and_two_agents(name):
    assert tp.topology(name, 1).positions().tolist() == [[0, 0]]
    two = tp.topology(name, 2).positions()
    assert np.linalg.norm(two[0] - two[1]) > 0.5
