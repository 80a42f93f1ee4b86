import inspect

import numpy as np
import pytest

import ddol
from ddol.estimators.placing import LINEAR_PRESETS, linear_algorithm, network_of
from ddol.job.algorithm import on_network
from ddol.update.losses import hinge, squared


@pytest.mark.parametrize("name", LINEAR_PRESETS)
def test_every_linear_preset_can_be_named(name):
    assert linear_algorithm(name, {"C": 0.5}, {"batch": 2, "outputs": 3}).outputs == 3


def test_experts_are_not_linear():
    assert not {"dwm_i", "dwm_a", "drwm", "wma", "rwma"} & set(LINEAR_PRESETS)


def test_what_a_preset_has_not_is_said():
    with pytest.raises(ValueError, match=r"l2 does not go with the algorithm coin, which has loss"):
        linear_algorithm("coin", {"l2": 0.1}, {})
    with pytest.raises(
        ValueError, match=r"^radius does not go with the algorithm dogd of your own"
    ):
        linear_algorithm(ddol.dogd(), {"radius": 0.1}, {})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"alpha": 0.2}, {"l2": 0.2}),
        ({"alpha": 0.2, "penalty": "l1"}, {"l1": 0.2}),
        ({"alpha": 0.2, "penalty": "elasticnet", "l1_ratio": 0.25}, {"l1": 0.05, "l2": 0.15}),
    ],
)
def test_penalties_by_their_old_names_warn_with_the_new_ones(old, new):
    X, y = np.eye(4), [0, 1, 0, 1]
    with pytest.warns(DeprecationWarning, match=", ".join(f"{k}={v}" for k, v in new.items())) as w:
        model = ddol.DDOLClassifier(random_state=0, **old).fit(X, y)
    assert w[0].filename == __file__
    assert np.array_equal(model.coef_, ddol.DDOLClassifier(random_state=0, **new).fit(X, y).coef_)
    with pytest.warns(DeprecationWarning, match="`penalty` has no effect without"):
        ddol.DDOLRegressor(penalty="l1").partial_fit(X, y)


def test_what_is_none_is_left_to_the_algorithm():
    own = ddol.dogd("logistic", C=0.25, batch=3)
    assert linear_algorithm(own, {"C": None}, {}) == own
    changed = linear_algorithm(own, {"loss": hinge, "C": 2.0}, {"batch": 1})
    assert (changed.loss, changed.C, changed.batch) == (hinge, 2.0, 1)


def test_own_algorithms_take_rates_as_functions_only():
    with pytest.raises(ValueError, match=r"must be a function, it is 0\.1"):
        linear_algorithm(ddol.dogd(), {"rate": 0.1}, {})


def placed(algorithm, named=None, **network):
    return on_network(algorithm, network_of(ddol.DDOLClassifier(**network), seed=0), named)


@pytest.mark.parametrize(
    ("network", "named", "expected"),
    [
        ({}, None, 1),
        ({}, 5, 5),
        ({"n_agents": 3}, 2, 3),
        ({"topology": ddol.ring(6)}, None, 6),
        ({"n_agents": 4, "topology": "star", "mixing": "uniform"}, None, 4),
    ],
)
def test_the_number_of_agents(network, named, expected):
    assert placed(ddol.dogd(squared), named, **network).n_agents == expected


def test_a_placed_algorithm_stays_where_it_is():
    there = ddol.dogd().on(ddol.ring(5))
    assert placed(there, named=2) == there


def test_contradictions_are_refused():
    with pytest.raises(ValueError, match="has 6 agents, the run has 4"):
        placed(ddol.dogd(), n_agents=4, topology=ddol.ring(6))
    with pytest.raises(ValueError, match="must be one of"):
        placed(ddol.dogd(), n_agents=4, topology="rnig")


def test_a_matrix_says_how_agents_average():
    lazy = np.array([[0.9, 0.1], [0.1, 0.9]])
    mixing = placed(ddol.dogd(), n_agents=2, mixing=lazy).mixing
    np.testing.assert_array_equal(mixing.csr()[2].reshape(2, 2), lazy)


@pytest.mark.parametrize(
    "kind", [ddol.DDOLClassifier, ddol.DDOLRegressor, ddol.WeightedMajorityClassifier]
)
def test_every_parameter_is_explained_once(kind):
    section = kind.__doc__.partition("\nParameters\n")[2].partition("\nAttributes\n")[0]
    heads = [line.partition(":")[0] for line in section.split("\n") if line[:1].isalpha()]
    named = [name.strip() for head in heads for name in head.split(",")]
    assert sorted(named) == sorted(inspect.signature(kind).parameters)
