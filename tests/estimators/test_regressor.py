import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, make_regression
from sklearn.linear_model import SGDRegressor
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ddol import DDOLRegressor
from ddol.estimators.placing import losses_for
from ddol.update.losses import quantile

X, Y = make_regression(400, 6, noise=5.0, random_state=0)


@pytest.mark.parametrize("loss", losses_for("regression"))
@pytest.mark.parametrize("n_agents", [1, 4])
def test_every_loss_learns(loss, n_agents):
    model = DDOLRegressor(loss=loss, n_agents=n_agents, passes=20, random_state=0).fit(X, Y)
    assert model.score(X, Y) > 0.9


def test_quantiles_lie_where_they_should():
    noise = np.random.default_rng(0).standard_normal(4000)
    rows = np.zeros((4000, 1))
    low, high = (
        DDOLRegressor(loss=quantile(q), passes=10, average_iterates=True, random_state=0)
        .fit(rows, noise)
        .intercept_[0]
        for q in (0.1, 0.9)
    )
    assert np.mean(noise < low) == pytest.approx(0.1, abs=0.04)
    assert np.mean(noise < high) == pytest.approx(0.9, abs=0.04)


def test_the_unit_of_the_answers_does_not_matter():
    model = DDOLRegressor(n_agents=2, random_state=0)
    metres, inches = clone(model).fit(X, Y), clone(model).fit(X, Y / 0.0254)
    np.testing.assert_allclose(inches.predict(X) * 0.0254, metres.predict(X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_diabetes_as_well_as_with_a_scaler_before_and_wherever_the_answers_are(offset):
    rows, answers = load_diabetes(return_X_y=True)
    parts = KFold(5, shuffle=True, random_state=0)
    theirs = make_pipeline(StandardScaler(), SGDRegressor(random_state=0))
    anchor = cross_val_score(theirs, rows, answers, cv=parts).mean()
    ours = cross_val_score(DDOLRegressor(random_state=0), rows, answers + offset, cv=parts).mean()
    assert ours > anchor - 0.01


def test_shapes_are_those_of_scikit_learn():
    model = DDOLRegressor(n_agents=2).fit(X, Y)
    assert (model.coef_.shape, model.intercept_.shape) == ((6,), (1,))
    assert not hasattr(model, "predict_proba")


def test_blocks_and_one_call_agree():
    whole = DDOLRegressor(n_agents=3, passes=1, shuffle=False).fit(X, Y)
    parts = DDOLRegressor(n_agents=3)
    for lo in range(0, 400, 37):
        parts.partial_fit(X[lo : lo + 37], Y[lo : lo + 37])
    np.testing.assert_array_equal(parts.coef_, whole.coef_)


def test_losses_of_classes_are_refused():
    with pytest.raises(ValueError, match="The 'loss' parameter of DDOLRegressor must be"):
        DDOLRegressor(loss="hinge").fit(X, Y)


def test_early_stopping_looks_at_the_explained_variance():
    model = DDOLRegressor(passes=100, early_stopping=True, n_iter_no_change=2, random_state=0)
    assert model.fit(X, Y).n_iter_ < 100
