"""Linear forms as objects of scikit-learn, and the other way round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ddol.linear.form import Feature, LinearForm, LinearPart
from ddol.streams.coding.encoding import NUMBER, TEXT, Column, Encoding
from ddol.streams.errors import DataError
from ddol.update.losses import REGRESSION, loss_named

_LOSSES = {
    "hinge": "hinge",
    "squared_hinge": "squared_hinge",
    "log_loss": "logistic",
    "modified_huber": "modified_huber",
    "perceptron": "perceptron",
}
"""Losses of SGDClassifier, and what they are called here."""

_LEAST = np.nextafter(0.0, 1.0)
_ALONE = "logistic_one_vs_all"
"""What the logistic loss is called here where several classes do not share their probabilities."""


def to_sklearn(form: LinearForm) -> Any:
    """A fitted Pipeline of scikit-learn and NumPy alone, which predicts as the model does.

    It takes arrays where the model's columns have numbers, frames where they have names, and dictionaries
    where rows name their own features.
    """
    from sklearn.pipeline import Pipeline

    steps = _features(form)
    if form.is_clipped:
        steps.append(("clip", _clips(form)))
    steps.append(("linear", _linear(form)))
    return Pipeline(steps)


def _features(form: LinearForm) -> list[tuple[str, Any]]:
    """What makes an array of the features, in their order."""
    encoding = form.encoding
    if encoding.columns is None:
        return []
    if not encoding.columns:
        return _dictionaries(form)
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import OneHotEncoder

    pd = _pandas()
    numbers = [c.name for c in encoding.columns if c.kind == NUMBER]
    texts = [c.name for c in encoding.columns if c.kind == TEXT]
    parts: list[tuple[str, Any, list[str]]] = (
        [("numbers", _filled(form), numbers)] if numbers else []
    )
    values = {name: [f.value for f in form.features if f.column == name] for name in texts}
    for name in texts:
        one_hot = OneHotEncoder(
            categories=[np.array(values[name] or [""], object)],
            handle_unknown="ignore",
            sparse_output=False,
        )
        parts.append((name, one_hot, [name]))
    # The transformer fits copies of its parts: the mean of this one row is what fills a missing number.
    example: dict[str, list[Any]] = {n: [x] for n, x in zip(numbers, _filling(form), strict=True)}
    example |= {name: [(known or [""])[0]] for name, known in values.items()}
    columns = ColumnTransformer(parts).fit(pd.DataFrame(example))
    return [("columns", columns), ("order", _order(form, numbers, values))]


def _dictionaries(form: LinearForm) -> list[tuple[str, Any]]:
    from sklearn.feature_extraction import DictVectorizer

    made = DictVectorizer(sparse=False, sort=False)
    made.fit([{feature.name: 1.0} for feature in form.features])
    return [("columns", made)]


def _filled(form: LinearForm) -> Any:
    """What is done with missing values; scikit-learn refuses them where the model does."""
    if form.encoding.missing == "error":
        return "passthrough"
    from sklearn.impute import SimpleImputer

    return SimpleImputer(strategy="mean", keep_empty_features=True)


def _filling(form: LinearForm) -> Sequence[float]:
    """What stands for a missing number, by column."""
    encoding = form.encoding
    known = encoding.missing == "mean" and encoding.means
    return encoding.means if known else (0.0,) * len(encoding.numbers)


def _order(form: LinearForm, numbers: list[str], values: dict[str, list[str | None]]) -> Any:
    """Bring columns of a ColumnTransformer into the order of the form's features."""
    from sklearn.preprocessing import FunctionTransformer

    given: list[tuple[str | None, str | None]] = [(None, name) for name in numbers]
    for name, known in values.items():
        given += [(name, value) for value in known or [""]]
    place = {pair: k for k, pair in enumerate(given)}
    wanted = [
        place[None, f.name] if f.column is None else place[f.column, f.value] for f in form.features
    ]
    return FunctionTransformer(np.take, kw_args={"indices": np.array(wanted, np.int64), "axis": 1})


def _clips(form: LinearForm) -> Any:
    from sklearn.pipeline import FeatureUnion
    from sklearn.preprocessing import FunctionTransformer

    return FeatureUnion(
        [
            (
                f"part {k}",
                FunctionTransformer(np.clip, kw_args={"a_min": p.lower, "a_max": p.upper}),
            )
            for k, p in enumerate(form.parts)
        ]
    )


def _linear(form: LinearForm) -> Any:
    from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier

    weights = np.hstack([part.weights for part in form.parts]) if form.is_clipped else form.weights
    if form.encoding.classes is None:
        found = LinearRegression()
        found.coef_, found.intercept_ = weights[0], float(form.bias[0])
        found.n_features_in_ = weights.shape[1]
        return _within(form, found)
    named = {ours: theirs for theirs, ours in _LOSSES.items()} | {_ALONE: "log_loss"}
    if form.loss not in named:
        raise DataError(
            f"scikit-learn has no linear classifier with the loss {form.loss}; use --to json"
        )
    if loss_named(form.loss).together is not None and len(weights) > 1:
        found = LogisticRegression()  # softmax; that of SGDClassifier is one against all
    else:
        found = SGDClassifier(loss=named[form.loss])
    # A score of 0 is the second class here, and the first one there: a bias of 0 becomes the least above it.
    found.coef_, found.intercept_ = weights, np.where(form.bias == 0.0, _LEAST, form.bias)
    found.classes_ = form.encoding.labels()
    found.n_features_in_ = weights.shape[1]
    return found


def _within(form: LinearForm, linear: Any) -> Any:
    """A fitted regressor whose predictions are clipped to the form's range, if it has one."""
    if np.isinf(form.range).all():
        return linear
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.preprocessing import FunctionTransformer

    low, high = form.range
    limits = {"a_min": low, "a_max": high}
    found = TransformedTargetRegressor(
        linear, func=np.asarray, inverse_func=np.clip, check_inverse=False
    )
    found.regressor_, found._training_dim = linear, 1
    found.transformer_ = FunctionTransformer(inverse_func=np.clip, inv_kw_args=limits)
    return found


def from_sklearn(estimator: Any, feature_names: Sequence[str] | None = None) -> LinearForm:
    """A linear form of a fitted linear model, or of a pipeline that scales and then is linear.

    Parameters
    ----------
    estimator : LogisticRegression, SGDClassifier, LinearSVC, Ridge, LinearRegression and the like
        With `coef_` and `intercept_`; or a Pipeline of StandardScaler, MinMaxScaler or
        MaxAbsScaler before one. Logistic losses of several classes that were learned one against all
        (SGDClassifier, liblinear) are ``logistic_one_vs_all`` here.
    feature_names : sequence of str, optional
        By default those that it was fitted with; without any, columns are known by their numbers.
    """
    scalers, linear = _taken_apart(estimator)
    if not hasattr(linear, "coef_"):
        raise DataError(
            f"found a {type(linear).__name__} without coef_, expected a fitted linear model of scikit-learn"
        )
    weights = np.atleast_2d(np.array(linear.coef_, float))
    bias = np.broadcast_to(
        np.array(getattr(linear, "intercept_", 0.0), float), (len(weights),)
    ).copy()
    for scaler in reversed(scalers):
        scale, shift = _folded(scaler, weights.shape[1])
        bias, weights = bias + weights @ shift, weights * scale
    names = (
        feature_names
        if feature_names is not None
        else getattr(estimator, "feature_names_in_", None)
    )
    if names is not None and len(names) != weights.shape[1]:
        raise DataError(f"found {len(names)} feature names for {weights.shape[1]} weights")
    loss, classes = _task(linear)
    columns = None if names is None else tuple(Column(str(name)) for name in names)
    encoding = Encoding(
        columns=columns,
        n_features=None if columns else weights.shape[1],
        classes=classes,
        intercept=True,
    )
    if len(weights) != encoding.n_outputs:
        raise DataError(f"found {len(weights)} outputs for {encoding.n_outputs}, expected as many")
    infinite = np.full(weights.shape[1], np.inf)
    features = tuple(
        Feature(name) for name, _ in encoding.feature_names(range(1, weights.shape[1] + 1))
    )
    return LinearForm(bias, (LinearPart(weights, -infinite, infinite),), features, encoding, loss)


def _taken_apart(estimator: Any) -> tuple[list[Any], Any]:
    steps = getattr(estimator, "steps", None)
    if steps is None:
        return [], estimator
    kept = [step for _, step in steps if step is not None and step != "passthrough"]
    return kept[:-1], kept[-1]


def _folded(scaler: Any, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Factor and shift by which a scaler changes features: x·factor + shift."""
    kind, ones, zeros = type(scaler).__name__, np.ones(width), np.zeros(width)
    if kind == "StandardScaler":
        scale = 1.0 / scaler.scale_ if scaler.scale_ is not None else ones
        return scale, -scaler.mean_ * scale if scaler.with_mean else zeros
    if kind == "MinMaxScaler" and not scaler.clip:
        return scaler.scale_, scaler.min_
    if kind == "MaxAbsScaler":
        return 1.0 / scaler.scale_, zeros
    raise DataError(
        f"found the step {kind} before the linear model, expected StandardScaler, MinMaxScaler without a "
        "clip or MaxAbsScaler; give the linear model alone"
    )


def _task(linear: Any) -> tuple[str, tuple[Any, ...] | None]:
    """Name of the loss, and the classes."""
    classes = getattr(linear, "classes_", None)
    kind = type(linear).__name__
    if classes is None:
        loss = getattr(linear, "loss", "squared")
        known = {"huber": "huber", "epsilon_insensitive": "epsilon_insensitive"}
        return known.get(loss, "squared"), None
    if kind == "SGDClassifier":
        loss = _LOSSES.get(linear.loss, "hinge")
    elif kind.startswith("LogisticRegression"):
        loss = "logistic"
    else:
        loss = {"squared_hinge": "squared_hinge", "hinge": "hinge"}.get(
            getattr(linear, "loss", ""), "hinge"
        )
    assert loss_named(loss).task != REGRESSION
    alone = kind == "SGDClassifier" or getattr(linear, "solver", None) == "liblinear"
    if alone and loss == "logistic" and len(classes) > 2:
        loss = _ALONE
    text = not np.issubdtype(np.asarray(classes).dtype, np.number)
    return loss, tuple(str(c) if text else float(c) for c in classes)


def _pandas() -> Any:
    try:
        import pandas as pd
    except ImportError:
        raise ImportError(
            "a pipeline for tables with named columns needs pandas; install it with: pip install pandas"
        ) from None
    return pd
