import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from river import linear_model
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import ddol
from ddol import WeightedMajorityClassifier
from ddol.streams import Encoding
from ddol.streams.arrays import array_stream
from ddol.streams.coding.stumps import fit_stumps

X, Y = make_classification(400, 6, n_informative=4, random_state=0)
CODED = 2.0 * Y - 1.0
STUMPS = fit_stumps(array_stream(X, CODED))
ADVICE = STUMPS.advice(array_stream(X, CODED).rows).data.reshape(400, -1)


def yes(X):
    return np.ones(len(X), int)


def no(X):
    return np.zeros(len(X), int)


@pytest.mark.parametrize("average", ["dual", "primal"])
@pytest.mark.parametrize("network", [{"n_agents": 1}, {"n_agents": 4, "topology": "ring"}])
def test_advice_is_weighed_as_in_the_library(average, network):
    preset = {"dual": ddol.dwm_i, "primal": ddol.dwm_a}[average](0.8)
    graph = ddol.ring(4) if "topology" in network else 1
    trace = ddol.run(preset, (ADVICE, CODED), graph)
    model = WeightedMajorityClassifier("advice", average=average, alpha=0.8, **network)
    model.fit(ADVICE, CODED)
    np.testing.assert_allclose(model.weights_, trace.weights[:, 0], rtol=1e-9)
    np.testing.assert_array_equal(model.trace_.mistakes, trace.mistakes)


def test_a_number_is_that_many_stumps():
    model = WeightedMajorityClassifier(6).fit(X, Y)
    expected = WeightedMajorityClassifier("advice").fit(ADVICE, CODED)
    np.testing.assert_array_equal(model.weights_, expected.weights_)
    np.testing.assert_array_equal(2.0 * model.predict(X) - 1.0, expected.predict(ADVICE))
    sparse = WeightedMajorityClassifier(6).fit(sp.csr_array(X), Y)
    np.testing.assert_array_equal(sparse.weights_, model.weights_)


def test_stumps_tell_two_classes_apart():
    with pytest.raises(ValueError, match="stumps tell two classes apart, found 3"):
        WeightedMajorityClassifier(2).fit(*load_iris(return_X_y=True))
    with pytest.raises(ValueError, match="`experts` must be from 1 to 6"):
        WeightedMajorityClassifier(7).fit(X, Y)


def test_unfitted_experts_are_cloned_and_fitted_on_the_first_part():
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    model = WeightedMajorityClassifier([tree, GaussianNB()], fit_fraction=0.25).fit(X, Y)
    assert not hasattr(tree, "tree_")
    expected = clone(tree).fit(X[:100], Y[:100]).predict(X)
    np.testing.assert_array_equal(model.experts_.labels(X)[:, 0], expected)
    assert model.trace_.examples == 300


def test_fitted_experts_stay_as_they_are_and_hold_nothing_out():
    scaled = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[:50], Y[:50])
    model = WeightedMajorityClassifier([("scaled", scaled), ("yes", yes), no]).fit(X, Y)
    assert model.experts_.experts[0].model is scaled
    assert model.expert_names_ == ["scaled", "yes", "no"]
    assert model.trace_.examples == 400


def test_several_classes():
    iris, kinds = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[kinds]
    model = WeightedMajorityClassifier(n_agents=3, shuffle=True, random_state=0).fit(iris, names)
    assert model.score(iris, names) > 0.9
    np.testing.assert_allclose(model.predict_proba(iris).sum(axis=1), 1.0)


def test_ties_go_to_the_second_of_two_classes_and_the_first_of_more():
    two = WeightedMajorityClassifier([yes, no]).fit(X[:2], [0, 1])
    assert two.predict(X[:1]) == [1]
    advice = np.array([[0, 1, 2]] * 3)
    three = WeightedMajorityClassifier("advice").fit(advice, [0, 1, 2])
    assert three.predict(advice[:1]) == [0]


def test_blocks_and_one_call_agree():
    whole = WeightedMajorityClassifier([yes, no], n_agents=3).fit(X, Y)
    parts = WeightedMajorityClassifier([yes, no], n_agents=3)
    for lo in range(0, 400, 37):
        parts.partial_fit(X[lo : lo + 37], Y[lo : lo + 37], classes=[0, 1])
    np.testing.assert_array_equal(parts.weights_, whole.weights_)
    np.testing.assert_array_equal(parts.expert_mistakes_, whole.expert_mistakes_)


def test_few_answers_and_few_messages():
    X, y = make_classification(900, n_features=8, random_state=0)
    model = WeightedMajorityClassifier(6, n_agents=3, random_state=0).fit(X, y)
    few = clone(model).set_params(query="experts", talk="drift:0.3").fit(X, y)
    assert 0 < few.trace_.labels < model.trace_.labels == 900
    assert 0 < few.trace_.bytes_sent < model.trace_.bytes_sent
    with pytest.raises(ValueError, match="teach"):
        clone(model).set_params(teach=1).fit(X, y)


def test_mistakes_are_counted_at_the_agent_that_made_them():
    model = WeightedMajorityClassifier([yes], n_agents=3).fit(X[:100], Y[:100])
    model.partial_fit(X[100:], Y[100:])
    np.testing.assert_array_equal(model.expert_mistakes_[:, 0], model.trace_.mistakes)


def test_the_report_says_who_won_where():
    sites = np.where(Y == 1, "north", "south")
    network = {"n_agents": 2, "mixing": np.array([[0.99, 0.01], [0.01, 0.99]])}
    model = WeightedMajorityClassifier([yes, no], **network).fit(X, Y, agents=sites)
    report = model.report()
    assert report.agents == ["north", "south"]
    assert report.best == report.heaviest == ["yes", "no"]
    assert report.expert_mistakes.tolist() == [[0, (Y == 1).sum()], [(Y == 0).sum(), 0]]
    assert report.examples.tolist() == [(Y == 1).sum(), (Y == 0).sum()]
    lines = str(report).splitlines()
    assert len(lines) == 3 and "yes" in lines[1] and "south" in lines[2]


def test_randomised_agents_follow_experts_with_their_weights():
    model = WeightedMajorityClassifier([yes, no], randomized=True, alpha=0.999, random_state=0)
    model.fit(np.zeros((1000, 1)), np.r_[np.ones(700), np.zeros(300)].astype(int))
    followed = model.predict(np.zeros((20000, 1))).mean()
    assert followed == pytest.approx(model.weights_[0, 0], abs=0.02)
    assert model.trace_.expected_mistakes.sum() > 0


def test_what_experts_may_not_be():
    with pytest.raises(ValueError, match="expected a classifier with `predict`, a model of river"):
        WeightedMajorityClassifier(["LogisticRegression"]).fit(X, Y)
    with pytest.raises(ValueError, match="`experts` is empty, expected at least one"):
        WeightedMajorityClassifier([]).fit(X, Y)
    with pytest.raises(ValueError, match="expert wide gave labels of shape"):
        WeightedMajorityClassifier([("wide", lambda X: np.ones((len(X), 2)))]).fit(X, Y)
    with pytest.raises(ValueError, match="found label 7"):
        WeightedMajorityClassifier([lambda X: np.full(len(X), 7)]).fit(X, Y)


def test_too_few_rows_for_the_experts():
    with pytest.raises(ValueError, match="n_samples=2 leaves no row to learn from"):
        WeightedMajorityClassifier(fit_fraction=0.9).fit(X[:2], [0, 1])


def test_pickles_go_on():
    model = WeightedMajorityClassifier([yes, no], n_agents=3).fit(X, Y)
    thawed = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(thawed.predict(X), model.predict(X))
    thawed.partial_fit(X[:5], Y[:5])
    np.testing.assert_array_equal(thawed.weights_, model.partial_fit(X[:5], Y[:5]).weights_)


def stream_of(n, seed=0):
    """Two classes that a linear model tells apart, in two dimensions."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    return X, (X[:, 0] + 0.5 * X[:, 1] > 0).astype(int)


@pytest.mark.parametrize(
    "experts",
    [
        lambda: [SGDClassifier(random_state=0), GaussianNB()],
        lambda: [linear_model.LogisticRegression()],
        lambda: [DecisionTreeClassifier(max_depth=4)],
        lambda: 2,
    ],
    ids=["partial_fit", "river", "fitted anew", "stumps"],
)
@pytest.mark.filterwarnings("ignore:the experts")
def test_the_first_call_decides_nothing(experts):
    X, y = stream_of(900)
    found = []
    for cuts in ([1], [10, 200], [600], []):
        model = WeightedMajorityClassifier(experts(), n_agents=2, random_state=0)
        for lo, hi in zip([0, *cuts], [*cuts, 900], strict=True):
            model.partial_fit(X[lo:hi], y[lo:hi], classes=[0, 1])
        found.append((model.trace_.mistakes.tolist(), model.weights_.tolist()))
        assert model.score(*stream_of(500, seed=1)) > 0.78
    assert all(one == found[0] for one in found)


def test_models_of_river_that_know_two_classes_hear_of_two_whatever_they_are_called():
    X, y = stream_of(900)
    found = []
    for labels in (y, np.where(y == 1, "up", "down")):
        model = WeightedMajorityClassifier([linear_model.LogisticRegression()])
        found.append(
            model.partial_fit(X, labels, classes=np.unique(labels)).trace_.mistakes.tolist()
        )
    assert found[0] == found[1] and found[0][0] < 300
    with pytest.raises(ValueError, match="knows two classes only, there are 3"):
        model = WeightedMajorityClassifier([linear_model.LogisticRegression()])
        model.partial_fit(X, y, classes=[0, 1, 2])


def test_experts_learn_after_they_were_heard():
    X, y = stream_of(400)
    model = WeightedMajorityClassifier([GaussianNB()]).partial_fit(X, y, classes=[0, 1])
    reference, mistakes, lo, due = GaussianNB(), 0, 0, 1
    while lo < 400:
        hi = min(due, 400)
        met = len(np.unique(y[:lo]))
        said = reference.predict(X[lo:hi]) if met > 1 else np.ones(hi - lo, int)
        mistakes += int(np.sum(said != y[lo:hi]))
        if hi == due:
            reference.partial_fit(X[lo:hi], y[lo:hi], classes=[0, 1])
        due += min(hi + 1, 128)
        lo = hi
    assert model.expert_mistakes_.sum() == mistakes
    assert mistakes < 60


def test_experts_that_cannot_go_on_say_so_and_have_a_budget_in_rows():
    X, y = stream_of(900)
    tree = DecisionTreeClassifier(random_state=0)
    with pytest.warns(UserWarning, match="DecisionTreeClassifier have no partial_fit .* first 300"):
        model = WeightedMajorityClassifier([tree], fit_rows=300)
        model.partial_fit(X[:50], y[:50], classes=[0, 1])
    model.partial_fit(X[50:], y[50:])
    np.testing.assert_array_equal(
        model.experts_.labels(X)[:, 0], clone(tree).fit(X[:300], y[:300]).predict(X)
    )


def test_experts_of_the_user_are_not_changed():
    X, y = stream_of(100)
    given = [linear_model.LogisticRegression(), GaussianNB()]
    WeightedMajorityClassifier(given).partial_fit(X, y, classes=[0, 1])
    WeightedMajorityClassifier(given).fit(X, y)
    assert not given[0].weights and not hasattr(given[1], "classes_")


@pytest.mark.parametrize("classes", [2, 3])
def test_the_vote_is_that_of_the_model_of_the_run(classes):
    rng = np.random.default_rng(5)
    advice, y = rng.integers(0, classes, (90, 4)), rng.integers(0, classes, 90)
    model = WeightedMajorityClassifier("advice", n_agents=3, topology="path").fit(advice, y)
    kept = replace(model.trace_, encoding=Encoding(classes=model.classes_)).model()
    said = advice if classes > 2 else 2 * advice - 1
    assert np.array_equal(model.predict(advice), kept.predict(said.astype(float)))
    assert np.allclose(model.predict_proba(advice).sum(axis=1), 1.0)
