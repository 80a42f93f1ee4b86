"""Rows that belong to somebody: agents=ids, alone and routed through scikit-learn."""

import numpy as np
import pytest
import sklearn
from sklearn.datasets import make_classification
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ddol
from ddol import DDOLClassifier, DDOLRegressor

X, Y = make_classification(240, 6, random_state=0)
SITES = np.random.default_rng(0).choice(["Bern", "Lyon", "Turin"], 240, p=[0.6, 0.3, 0.1])


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_every_site_learns_from_its_own_rows():
    model = DDOLClassifier("dogd", topology="ring", passes=1, shuffle=False).fit(X, Y, agents=SITES)
    rows = np.hstack([np.ones((240, 1)), X])
    of_site = [np.flatnonzero(np.equal(SITES, site)) for site in ("Bern", "Lyon", "Turin")]
    own = [(rows[numbers], Y[numbers]) for numbers in of_site]
    trace = ddol.run(ddol.dogd(), own, ddol.ring(3))
    np.testing.assert_allclose(model.trace_.weights, trace.weights, rtol=1e-12)
    assert model.trace_.state.examples.tolist() == [len(numbers) for numbers in of_site]


def test_numbers_and_names_are_the_same_agents():
    _, numbers = np.unique(SITES, return_inverse=True)
    one = DDOLClassifier(n_agents=3, random_state=0).fit(X, Y, agents=SITES)
    other = DDOLClassifier(n_agents=3, random_state=0).fit(X, Y, agents=numbers)
    np.testing.assert_array_equal(one.coef_, other.coef_)


@pytest.mark.parametrize("ids", [[1001, 2002, 5], [-1, 7, 0], ["b", "a", "c"], [0.5, 2.5, 1.5]])
def test_agents_are_the_distinct_ids_in_rising_order(ids):
    numbers = np.random.default_rng(0).integers(0, 3, 240)
    given = np.array(ids)[numbers]
    model = DDOLClassifier("dogd", topology="ring", shuffle=False).fit(X, Y, agents=given)
    assert model.agents_ == sorted(ids) and model.trace_.agents == 3
    ranks = np.searchsorted(sorted(ids), given)
    other = DDOLClassifier("dogd", n_agents=3, topology="ring", shuffle=False)
    np.testing.assert_array_equal(model.coef_, other.fit(X, Y, agents=ranks).coef_)
    assert other.agents_ == [0, 1, 2]


@pytest.mark.parametrize("estimator", [DDOLClassifier, DDOLRegressor])
def test_every_row_is_predicted_by_its_own_agent(estimator):
    model = estimator("dogd", topology="ring", period=7, passes=1).fit(X, Y, agents=SITES)
    own = model.trace_.weights[:, 0]
    rows = np.hstack([np.ones((240, 1)), X])
    numbers = np.searchsorted(model.agents_, SITES)
    scores = np.sum(own[numbers] * rows, axis=1)
    found = (model.predict if estimator is DDOLRegressor else model.decision_function)(
        X, agents=SITES
    )
    np.testing.assert_allclose(found, scores, rtol=1e-9)
    assert not np.allclose(found, scores[::-1])
    with pytest.raises(ValueError, match="found the agent 'Rome', expected one of those learned"):
        model.predict(X[:1], agents=["Rome"])


@pytest.mark.parametrize("size", [1, 7, 100])
def test_partial_fit_knows_no_blocks(size):
    network = {"n_agents": 3, "topology": "path"}
    whole = DDOLClassifier(**network).partial_fit(X, Y, classes=[0, 1], agents=SITES)
    parts = DDOLClassifier(**network)
    for lo in range(0, 240, size):
        part = slice(lo, lo + size)
        parts.partial_fit(X[part], Y[part], classes=[0, 1], agents=SITES[part])
    np.testing.assert_array_equal(parts.trace_.weights, whole.trace_.weights)


def test_mistakes_are_told():
    with pytest.raises(ValueError, match="one agent for each of the 240 rows"):
        DDOLClassifier().fit(X, Y, agents=SITES[:-1])
    with pytest.raises(ValueError, match="names 3 agents, expected at most 2; set n_agents=3"):
        DDOLClassifier(n_agents=2).fit(X, Y, agents=SITES)


def test_agents_reach_the_estimator_through_a_pipeline(routing):
    model = DDOLClassifier(random_state=0).set_fit_request(agents=True)
    pipeline = make_pipeline(StandardScaler(), model).fit(X, Y, agents=SITES)
    assert pipeline[-1].trace_.agents == 3


@pytest.mark.parametrize("estimator", [DDOLClassifier, DDOLRegressor])
def test_agents_are_split_with_their_rows(routing, estimator):
    model = estimator(n_agents=3, random_state=0).set_fit_request(agents=True, sample_weight=False)
    model.set_score_request(agents=True)
    found = cross_validate(
        make_pipeline(StandardScaler(), model),
        X,
        Y,
        cv=4,
        params={"agents": SITES},
        return_estimator=True,
    )
    for fitted in found["estimator"]:
        assert fitted[-1].trace_.state.examples.sum() == 5 * 180
    assert np.mean(found["test_score"]) > 0.3
