"""Data frames of pandas, polars, Dask and Ray."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.ray_streams import or_skipped, small_cluster

from ddol import DDOLClassifier, DDOLRegressor, WeightedMajorityClassifier

X, Y = load_breast_cancer(return_X_y=True)
NAMES = [f"f{k}" for k in range(X.shape[1])]
FRAMES = {"pandas": pd.DataFrame(X, columns=NAMES), "polars": pl.DataFrame(X, schema=NAMES)}


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_are_as_good_as_arrays(kind):
    frame = FRAMES[kind]
    answers = pd.Series(Y) if kind == "pandas" else pl.Series(Y)
    model = DDOLClassifier(n_agents=2, random_state=0)
    framed = model.fit(frame, answers)
    coef = framed.coef_.copy()
    np.testing.assert_array_equal(framed.feature_names_in_, NAMES)
    np.testing.assert_array_equal(framed.predict(frame), model.fit(X, Y).predict(X))
    np.testing.assert_array_equal(coef, model.coef_)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", FRAMES)
def test_names_go_through_a_pipeline_without_a_warning(kind):
    scaler = StandardScaler().set_output(transform=kind)
    stopping = {"early_stopping": True, "passes": 8}
    model = make_pipeline(scaler, DDOLClassifier(random_state=0, **stopping)).fit(FRAMES[kind], Y)
    assert model.score(FRAMES[kind], Y) > 0.9
    assert model[-1].feature_names_in_.tolist() == NAMES


@pytest.mark.parametrize("kind", FRAMES)
def test_wrong_columns_are_refused(kind):
    model = DDOLClassifier().fit(FRAMES[kind], Y)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(FRAMES[kind][NAMES[::-1]])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", FRAMES)
def test_experts_may_choose_columns_by_name(kind):
    experts = [
        make_pipeline(
            ColumnTransformer([("some", StandardScaler(), NAMES[lo : lo + 10])]),
            LogisticRegression(),
        )
        for lo in (0, 10, 20)
    ]
    model = WeightedMajorityClassifier(experts, n_agents=2, shuffle=True, random_state=0)
    assert model.fit(FRAMES[kind], Y).score(FRAMES[kind], Y) > 0.9
    assert model.feature_names_in_.tolist() == NAMES


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_advice_may_be_words_in_named_columns(frame):
    said = frame({"anna": ["yes", "no", "no", "yes"], "ben": ["yes"] * 4})
    model = WeightedMajorityClassifier("advice").fit(said, ["yes", "no", "no", "yes"])
    assert model.report().heaviest == ["anna"]
    assert model.predict(said).tolist() == ["yes", "no", "no", "yes"]


def spread_over(kind, frame):
    """The same frame, lazy or in partitions."""
    if kind == "dask":
        return pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=3)
    if kind == "ray":
        return pytest.importorskip("ray.data").from_pandas([frame[:200], frame[200:]])
    return {"pandas": lambda: frame, "lazy": pl.from_pandas(frame).lazy}[kind]()


@pytest.fixture(scope="module")
def cluster():
    pytest.importorskip("ray")
    with or_skipped(small_cluster()):
        yield


@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")
@pytest.mark.parametrize("kind", ["pandas", "lazy", "dask", "ray"])
def test_frames_that_are_elsewhere_are_brought_here(kind, request):
    if kind == "ray":
        request.getfixturevalue("cluster")
    whole = spread_over(kind, FRAMES["pandas"].assign(ill=Y))
    rows = spread_over(kind, FRAMES["pandas"])
    answers = pl.Series(Y) if kind == "lazy" else spread_over(kind, pd.DataFrame({"ill": Y}))
    answers = answers["ill"] if kind in ("pandas", "dask") else answers
    for one in (
        DDOLClassifier(n_agents=2, random_state=0),
        DDOLRegressor(n_agents=2, random_state=0),
    ):
        coef = one.fit(X, Y).coef_.copy()
        np.testing.assert_array_equal(one.fit(rows, answers).coef_, coef)
        assert one.feature_names_in_.tolist() == NAMES
        np.testing.assert_array_equal(one.fit(whole, "ill").coef_, coef)
        np.testing.assert_array_equal(one.predict(rows), one.predict(FRAMES["pandas"]))
        assert one.score(whole, "ill") == one.score(rows, answers) == one.score(FRAMES["pandas"], Y)
    voters = WeightedMajorityClassifier([LogisticRegression(max_iter=5000)], random_state=0)
    assert voters.fit(whole, "ill").score(rows, answers) > 0.9


@pytest.mark.parametrize("given", [X, FRAMES["polars"]], ids=["an array", "other columns"])
def test_a_column_of_answers_that_is_not_there_is_named(given):
    with pytest.raises(ValueError, match="found 'ill' as y and no such column in X"):
        DDOLClassifier().fit(given, "ill")


def voters(kind, n=300, seed=0):
    """A frame with text, truth values and a label of its own."""
    rng = np.random.default_rng(seed)
    age, town = rng.normal(50, 10, n), rng.choice(["Rome", "Bern", "Lyon"], n)
    owner = rng.random(n) < 0.5
    score = (age - 50) / 10 + 2.0 * (town == "Rome") - 1.0 * owner
    columns = {"age": age, "town": town, "owner": owner, "vote": np.where(score > 0, "J", "N")}
    columns["income"] = score + 0.1 * rng.standard_normal(n)
    return pd.DataFrame(columns) if kind == "pandas" else pl.DataFrame(columns)


def without(frame, *names):
    return frame[[name for name in frame.columns if name not in names]]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", FRAMES)
def test_columns_of_text_are_features(kind):
    frame = without(voters(kind), "income")
    model = DDOLClassifier(n_agents=2, random_state=0).fit(frame, "vote")
    assert model.score(frame, "vote") > 0.9
    assert model.n_features_in_ == 3 and list(model.feature_names_in_) == ["age", "town", "owner"]
    assert model.feature_names_[:2] == ["age", "owner"] and len(model.feature_names_) == 5
    assert model.coef_.shape == (1, 5)
    # A frame that still has the label is as good as one without it, in any order; new values are no features.
    assert np.array_equal(model.predict(frame), model.predict(without(frame, "vote")))
    mixed = frame[["town", "vote", "age", "owner"]]
    assert np.array_equal(model.predict(mixed), model.predict(frame))
    new = voters(kind, n=20, seed=1)
    assert set(model.predict(without(new, "income", "vote"))) == {"J", "N"}
    again = DDOLClassifier(n_agents=2, random_state=0).fit(without(frame, "vote"), frame["vote"])
    assert np.array_equal(again.coef_, model.coef_)
    numbers = DDOLRegressor(random_state=0).fit(without(voters(kind), "vote"), "income")
    assert numbers.score(voters(kind), "income") > 0.8
    with pytest.raises(ValueError, match="no column 'town'"):
        model.predict(without(frame, "town"))


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_of_numbers_may_still_have_its_label(kind):
    frame = voters(kind)
    numbers = frame[["age", "owner", "income", "vote"]]
    model = DDOLClassifier(random_state=0).fit(numbers, "vote")
    assert np.array_equal(model.predict(numbers), model.predict(without(numbers, "vote")))
    assert model.score(numbers, "vote") > 0.9


def test_each_row_is_scored_by_its_agent():
    rng = np.random.default_rng(0)
    X, sites = rng.standard_normal((400, 2)), rng.choice(["bern", "rome"], 400)
    y = np.where(X[:, 0] * np.where(sites == "bern", 1, -1) > 0, "yes", "no")
    model = DDOLClassifier(topology="ring", period=1000, passes=2, random_state=0)
    model.fit(X, y, agents=sites)
    assert model.score(X, y, agents=sites) > 0.9 > 0.7 > model.score(X, y)
    regressor = DDOLRegressor(topology="ring", period=1000, random_state=0)
    target = X[:, 0] * np.where(sites == "bern", 1, -1)
    regressor.fit(X, target, agents=sites)
    assert regressor.score(X, target, agents=sites) > 0.7 > regressor.score(X, target)


def test_text_of_later_rows_becomes_features(recwarn):
    frame = without(voters("pandas"), "income")
    frame = frame.sort_values("town")
    model = DDOLClassifier(n_agents=2, random_state=0)
    for lo in range(0, 300, 100):
        part = frame.iloc[lo : lo + 100]
        model.partial_fit(without(part, "vote"), part["vote"], classes=["J", "N"])
    assert len(model.feature_names_) == 5 and model.coef_.shape == (1, 5)
