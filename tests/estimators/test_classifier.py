import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ddol
from ddol import DDOLClassifier
from ddol.streams.rows import Rows
from ddol.update.losses import loss_named

X, Y = make_classification(300, 8, n_informative=5, n_classes=2, random_state=0)
LETTERS = np.array(["a", "b", "c"])
X3, Y3 = make_classification(300, 8, n_informative=5, n_classes=3, random_state=1)
Y3 = LETTERS[Y3]


def same(one, other):
    np.testing.assert_array_equal(one.coef_, other.coef_)
    np.testing.assert_array_equal(one.intercept_, other.intercept_)


@pytest.mark.parametrize("options", [{}, {"n_agents": 4, "batch": 3}, {"n_agents": 3, "delay": 2}])
def test_one_pass_in_order_is_the_run_of_the_library(options):
    model = DDOLClassifier("dogd", passes=1, shuffle=False, **options).fit(X, Y)
    changes = {k: v for k, v in options.items() if k != "n_agents"}
    rows = np.hstack([np.ones((300, 1)), X])
    trace = ddol.run(ddol.dogd(), (rows, Y), options.get("n_agents", 1), **changes)
    weights = trace.weights.mean(axis=0)
    np.testing.assert_allclose(model.coef_, weights[:, 1:], rtol=1e-12)
    np.testing.assert_allclose(model.intercept_, weights[:, 0], rtol=1e-12)
    np.testing.assert_array_equal(model.trace_.mistakes, trace.mistakes)


@pytest.mark.parametrize("sizes", [(300,), (1, 299), (7, 100, 193), (50,) * 6])
@pytest.mark.parametrize("topology", ["complete", "ring"])
def test_partial_fit_knows_no_blocks(sizes, topology):
    whole = DDOLClassifier(n_agents=4, topology=topology, passes=1, shuffle=False, random_state=0)
    parts = clone(whole)
    for lo, size in zip(np.cumsum([0, *sizes]), sizes, strict=False):
        parts.partial_fit(X3[lo : lo + size], Y3[lo : lo + size], classes=LETTERS)
    same(whole.fit(X3, Y3), parts)


@pytest.mark.parametrize("made", [np.asarray, sp.csr_matrix])
def test_a_weight_is_as_many_rows_wherever_they_stand(made):
    counts = np.random.default_rng(0).integers(0, 4, 300)
    order = np.random.default_rng(1).permutation(300)
    model = DDOLClassifier(n_agents=4, random_state=0)
    repeated = clone(model).fit(made(X3.repeat(counts, axis=0)), Y3.repeat(counts))
    same(clone(model).fit(made(X3[order]), Y3[order], sample_weight=counts[order]), repeated)


@pytest.mark.parametrize("made", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("found", ["before", "by the loss"])
def test_rows_that_are_not_finite_leave_the_model_as_it_was(made, found, monkeypatch):
    if found == "by the loss":
        monkeypatch.setattr("ddol.estimators.linear._MANY", 0)
    spoiled = X.copy()
    spoiled[-1, 3] = np.nan
    model = DDOLClassifier(n_agents=4, topology="ring", random_state=0)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.partial_fit(made(spoiled), Y, classes=[0, 1])
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.partial_fit(X[:151], Y[:151], classes=[0, 1])
    before = model.trace_
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.partial_fit(made(spoiled), Y)
    np.testing.assert_array_equal(model.trace_.weights, before.weights)
    assert model.trace_.examples == 151
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.fit(made(spoiled), Y)


@pytest.mark.parametrize("made", [np.asarray, sp.csr_matrix])
def test_a_model_whose_answers_are_late_goes_on_after_it_was_kept(made):
    whole = DDOLClassifier(delay=3, n_agents=2, random_state=0)
    whole.partial_fit(made(X), Y, classes=[0, 1])
    first = clone(whole).partial_fit(made(X[:101]), Y[:101], classes=[0, 1])
    same(pickle.loads(pickle.dumps(first)).partial_fit(made(X[101:]), Y[101:]), whole)


def test_answers_are_asked_for_within_the_budget():
    model = DDOLClassifier(query=0.2, passes=1, random_state=0).fit(X, Y)
    assert 0 < model.trace_.labels <= 0.2 * len(X) + 1 and model.score(X, Y) > 0.7


@pytest.mark.parametrize(
    "rules",
    [{"talk": "drift", "compress": "8bit"}, {"talk_to": 1, "delay": 2}, {"teach": 1, "period": 4}],
    ids=str,
)
def test_agents_choose_what_they_send_however_the_stream_is_cut(rules):
    model = DDOLClassifier(n_agents=4, topology="ring", random_state=0, **rules)
    whole, parts = clone(model).partial_fit(X, Y, classes=[0, 1]), clone(model)
    for rows in np.array_split(np.arange(len(X)), 7):
        parts = pickle.loads(pickle.dumps(parts)).partial_fit(X[rows], Y[rows], classes=[0, 1])
    same(whole, parts)
    assert whole.trace_.traffic == parts.trace_.traffic
    played = ddol.run(
        ddol.adaptive(),
        (np.insert(X, 0, 1.0, axis=1), Y),
        ddol.ring(4),
        seed=whole._agents.seed,
        **rules,
    )
    assert played.traffic == whole.trace_.traffic
    np.testing.assert_array_equal(played.weights.mean(axis=0)[:, 1:], whole.coef_)


def test_limits_of_talking_change_nothing():
    plain = DDOLClassifier(n_agents=3, topology="ring", delay=1, random_state=0)
    all_neighbours = clone(plain).set_params(talk="drift:0", talk_to=2, teach=0)
    same(plain.fit(X[:-1], Y[:-1]), all_neighbours.fit(X[:-1], Y[:-1]))
    assert DDOLClassifier(n_agents=3, talk="never").fit(X, Y).trace_.messages == 0


def test_rules_of_talking_are_looked_at_in_fit():
    for rules in ({"talk": "often"}, {"talk_to": 0}, {"compress": "zip"}, {"teach": -1}):
        with pytest.raises(ValueError, match=next(iter(rules))):
            DDOLClassifier(**rules).fit(X, Y)


def test_dense_sparse_and_single_precision_agree():
    model = DDOLClassifier(n_agents=3, random_state=0).fit(X, Y)
    for container in (sp.csr_matrix, sp.csr_array, sp.csc_array, sp.coo_array):
        sparse = clone(model).fit(container(X), Y)
        np.testing.assert_allclose(sparse.coef_, model.coef_, rtol=1e-9)
        np.testing.assert_array_equal(sparse.predict(container(X)), model.predict(X))
    single = clone(model).fit(X.astype(np.float32), Y)
    same(single, clone(model).fit(X.astype(np.float32).astype(np.float64), Y))


def test_units_do_not_matter():
    units = 10.0 ** np.random.default_rng(0).uniform(-6, 6, 8)
    model = DDOLClassifier(n_agents=3, random_state=0)
    plain, scaled = clone(model).fit(X, Y), clone(model).fit(X * units, Y)
    np.testing.assert_allclose(scaled.coef_ * units, plain.coef_, rtol=1e-6)


def test_columns_and_attributes():
    two, three = DDOLClassifier().fit(X, Y), DDOLClassifier().fit(X3, Y3)
    assert (two.coef_.shape, two.intercept_.shape) == ((1, 8), (1,))
    assert (three.coef_.shape, three.intercept_.shape) == ((3, 8), (3,))
    assert three.classes_.tolist() == ["a", "b", "c"]
    assert two.decision_function(X).shape == (300,)
    assert three.decision_function(X3).shape == (300, 3)
    assert three.trace_.examples == 5 * 300


def test_a_score_of_zero_is_the_second_class():
    model = DDOLClassifier("dogd", fit_intercept=False).fit(X, Y)
    assert model.predict(np.zeros((1, 8))) == [1]


def test_chances_come_with_the_logistic_loss_only():
    assert not hasattr(DDOLClassifier("dogd"), "predict_proba")
    assert not hasattr(DDOLClassifier(loss="hinge").fit(X, Y), "predict_proba")
    for name in ("adaptive", "coin", "newton"):
        assert hasattr(DDOLClassifier(name), "predict_proba")
    assert hasattr(DDOLClassifier(ddol.dogd("logistic")), "predict_proba")
    chances = DDOLClassifier(loss="logistic").fit(X3, Y3).predict_proba(X3)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)


def test_intercepts_can_be_left_out():
    model = DDOLClassifier(fit_intercept=False).fit(X, Y)
    assert model.intercept_.tolist() == [0.0]


def test_a_user_gives_an_algorithm_of_their_own():
    own = ddol.dogd("logistic", l2=0.0, rate=0.5, average_iterates=True).on(ddol.ring(4), period=2)
    model = DDOLClassifier(own, random_state=0).fit(X, Y)
    assert model.trace_.algorithm == own


def test_experts_and_regression_losses_are_refused():
    with pytest.raises(ValueError, match="'dwm_i' with the loss 'zero_one' is not for a DDOLClass"):
        DDOLClassifier(ddol.dwm_i()).fit(X, Y)
    with pytest.raises(ValueError, match="'squared' is not for a DDOLClassifier"):
        DDOLClassifier(ddol.dogd("squared")).fit(X, Y)


def test_wrong_parameters_in_scikit_learns_words():
    with pytest.raises(ValueError, match="The 'algorithm' parameter of DDOLClassifier must be"):
        DDOLClassifier("adagrad").fit(X, Y)
    with pytest.raises(ValueError, match="The 'n_agents' parameter of DDOLClassifier must be"):
        DDOLClassifier(n_agents=0).fit(X, Y)


def test_class_weights_are_row_weights():
    weight = np.where(Y == 1, 3.0, 1.0)
    model = DDOLClassifier(n_agents=2, random_state=0)
    by_class = clone(model).set_params(class_weight={1: 3.0}).fit(X, Y)
    same(by_class, clone(model).fit(X, Y, sample_weight=weight))


def test_balanced_classes_weigh_the_same():
    rare = np.r_[np.flatnonzero(Y == 0), np.flatnonzero(Y == 1)[:15]]
    plain = DDOLClassifier(random_state=0).fit(X[rare], Y[rare])
    balanced = DDOLClassifier(class_weight="balanced", random_state=0).fit(X[rare], Y[rare])
    assert balanced.predict(X[Y == 1]).mean() > plain.predict(X[Y == 1]).mean()
    with pytest.raises(ValueError, match="not supported for partial_fit"):
        DDOLClassifier(class_weight="balanced").partial_fit(X, Y, classes=[0, 1])


def test_warm_start_goes_on():
    once = DDOLClassifier(passes=4, shuffle=False, warm_start=True).fit(X, Y)
    twice = DDOLClassifier(passes=2, shuffle=False, warm_start=True).fit(X, Y).fit(X, Y)
    same(once, twice)
    with pytest.raises(ValueError, match="expected \\[0, 1\\] as in the first fit"):
        twice.fit(X, Y + 1)


def test_partial_fit_goes_on_from_fit():
    model = DDOLClassifier(n_agents=3, random_state=0).fit(X, Y)
    rounds = model.trace_.rounds
    model.partial_fit(X[:30], Y[:30])
    assert model.trace_.rounds == rounds + 10


def test_unknown_labels_are_refused_in_partial_fit():
    model = DDOLClassifier().partial_fit(X, Y, classes=[0, 1])
    with pytest.raises(ValueError, match="found label 7, expected one of 0, 1"):
        model.partial_fit(X[:2], [0, 7])


def test_quantities_in_the_place_of_labels_are_refused_in_partial_fit():
    with pytest.raises(ValueError, match="Unknown label type"):
        DDOLClassifier().partial_fit(X, np.linspace(0.0, 1.0, len(X)), classes=[0.0, 1.0])


@pytest.mark.parametrize(
    "algorithm", ["adaptive", "coin", "newton", "dogd", "doeg", "dual_averaging"]
)
@pytest.mark.parametrize("made", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("found", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_refused_wherever_weights_are_zero(algorithm, made, found):
    silent = X.copy()
    silent[:, 2] = 0.0
    model = DDOLClassifier(algorithm, passes=1).fit(silent, Y)
    assert model.coef_[0, 2] == pytest.approx(0.0)
    for column in (2, 5):
        spoiled = silent.copy()
        spoiled[-1, column] = found
        with pytest.raises(ValueError, match="contains"):
            model.predict(made(spoiled))
        with pytest.raises(ValueError, match="contains"):
            model.decision_function(made(spoiled), agents=np.zeros(len(X), int))


def test_early_stopping_ends_before_all_passes_are_made():
    model = DDOLClassifier(passes=200, early_stopping=True, n_iter_no_change=2, random_state=0)
    assert 3 <= model.fit(X, Y).n_iter_ < 200
    with pytest.raises(ValueError, match="early_stopping should be False"):
        model.partial_fit(X, Y)


def test_verbose_says_how_passes_went(capsys):
    DDOLClassifier(passes=2, verbose=1).fit(X, Y)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["-- pass 1 of 2", "-- pass 2 of 2"]


def test_weights_out_of_range_are_an_error_that_says_what_to_do():
    with pytest.raises(ValueError, match="left the range of numbers; lower the rate, scale"):
        DDOLClassifier("dogd", loss="squared_hinge", l2=0.0).fit(X * 1e120, Y)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_features_without_squares_are_refused(kind):
    with pytest.raises(ValueError, match=r"expected numbers below 8e\+149"):
        DDOLClassifier().fit(kind(X * 1e160), Y)
    model = DDOLClassifier().fit(X, Y)
    with pytest.raises(ValueError, match=r"expected numbers below 8e\+149"):
        model.partial_fit(kind(-X * 1e160), Y)


def test_a_grid_of_processes():
    grid = GridSearchCV(
        make_pipeline(StandardScaler(), DDOLClassifier(random_state=0)),
        {"ddolclassifier__n_agents": [1, 4], "ddolclassifier__loss": ["hinge", "logistic"]},
        cv=3,
        n_jobs=2,
    ).fit(X, Y)
    assert grid.best_score_ > 0.75


def test_pickles_predict_and_go_on():
    model = DDOLClassifier(n_agents=4, topology="ring", random_state=0).fit(X3, Y3)
    thawed = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(thawed.predict(X3), model.predict(X3))
    same(thawed.partial_fit(X3[:9], Y3[:9]), model.partial_fit(X3[:9], Y3[:9]))


def test_threads_give_the_same_model():
    digits, answers = load_digits(return_X_y=True)
    model = DDOLClassifier(n_agents=4, passes=1, random_state=0)
    local = clone(model).fit(digits, answers)
    threads = clone(model).set_params(engine="threads", workers=2).fit(digits, answers)
    np.testing.assert_allclose(threads.coef_, local.coef_, rtol=1e-9, atol=1e-12)
    assert (threads.trace_.engine, threads.trace_.workers) == ("threads", 2)


@pytest.mark.parametrize("algorithm", ["adaptive", "coin", "newton", "dogd"])
@pytest.mark.parametrize("made", [np.asarray, sp.csr_matrix])
def test_a_prediction_is_what_the_learner_would_have_predicted(algorithm, made):
    model = DDOLClassifier(algorithm, n_agents=3, topology="ring", random_state=0)
    model.partial_fit(made(X[:150]), Y[:150], classes=[0, 1])
    far = X[150:] * np.where(np.arange(len(X) - 150) % 2, 1.0, 40.0)[:, None]
    rows = Rows.from_dense(np.hstack([np.ones((len(far), 1)), far]), np.zeros(len(far)))
    expected = model._agents.learner.scores(rows)[:, 0]
    np.testing.assert_allclose(model.decision_function(made(far)), expected, rtol=1e-9, atol=1e-9)


def test_scikit_learns_names():
    ours = DDOLClassifier(loss="log_loss", max_iter=2, random_state=0).fit(X, Y)
    same(ours, DDOLClassifier(loss="logistic", passes=2, random_state=0).fit(X, Y))
    assert ours.n_iter_ == 2
    huber = DDOLClassifier("dogd", loss="modified_huber", random_state=0).fit(X, Y)
    chances = huber.predict_proba(X)[:, 1]
    np.testing.assert_allclose(chances, (huber.decision_function(X).clip(-1, 1) + 1) / 2)
    z = np.linspace(-3, 3, 25)
    theirs = np.where(z < -1.0, -4.0 * z, np.maximum(0.0, 1.0 - z) ** 2)
    np.testing.assert_allclose(loss_named("modified_huber").values(z, 1.0), theirs)


@pytest.mark.parametrize("algorithm", ["adaptive", "dual_averaging"])
def test_l1_makes_weights_zero(algorithm):
    rng = np.random.default_rng(0)
    noisy = np.hstack([X, rng.standard_normal((len(X), 30))])
    plain = DDOLClassifier(algorithm, random_state=0).fit(noisy, Y)
    sparse = DDOLClassifier(algorithm, l1=0.1, random_state=0).fit(noisy, Y)
    assert np.count_nonzero(sparse.coef_) < np.count_nonzero(plain.coef_)


def test_a_topology_by_name_needs_a_number_of_agents():
    with pytest.raises(ValueError, match="topology='ring' does not say how many agents there are"):
        DDOLClassifier(topology="ring").fit(X, Y)
    assert (
        DDOLClassifier(topology="ring").fit(X, Y, agents=np.arange(len(Y)) % 5).trace_.agents == 5
    )


def test_verbose_two_tells_how_it_goes(capsys):
    DDOLClassifier(passes=1, verbose=2).fit(X, Y)
    lines = capsys.readouterr().out.splitlines()
    assert any("128 examples, mean loss" in line for line in lines)
    assert lines[-1].startswith("-- pass 1 of 1: mean loss so far")


def test_a_trace_is_shown_on_one_screen():
    shown = repr(DDOLClassifier(n_agents=40, topology="ring").fit(X, Y).trace_)
    assert len(shown.splitlines()) < 24 and max(map(len, shown.splitlines())) < 120
    assert "40 agents (ring" in shown
