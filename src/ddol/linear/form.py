"""A model's scores as a sum of clipped features times weights, with all standardisation folded in.

A standardising update scores s = b + Σ u_d·clip((x_d − centre_d)/scale_d, ±r). A clip of a standardised
feature is a clip of the feature itself, to centre_d ± r·scale_d, so

    s = bias + Σ_parts Σ_d weight_d·clip(x_d, lower_d, upper_d)

with one part for all agents of a complete graph, and for other networks one for each agent, whose mean
predicts. Every other linear model has one part and no limits. A number is clipped to the range of the labels
that were seen, unless the model has `clip=False`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ddol.streams.coding.encoding import NUMBER, TEXT, Encoding
from ddol.streams.errors import DataError
from ddol.update.contract import Vector
from ddol.update.coordinates import UNKNOWN

_MOST_NUMBERS = 50_000_000
"""Weights of all parts together: formats of text take some twenty bytes for each."""


@dataclass(frozen=True)
class Feature:
    """A feature of a linear form: a column of numbers, or one of the values of a column of text."""

    name: str
    column: str | None = None
    value: str | None = None


@dataclass(frozen=True)
class LinearPart:
    """Weights of features that are clipped first.

    Parameters
    ----------
    weights : (outputs, D)
    lower, upper : (D,)
        Where values are clipped; infinite where they are not.
    """

    weights: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


@dataclass(frozen=True)
class LinearForm:
    """Scores of a model as a plain linear form; see the module's docstring.

    Parameters
    ----------
    bias : (outputs,)
    parts : tuple of LinearPart
    features : tuple of Feature
    encoding : Encoding
        Of the model: labels, columns, what is done with missing values.
    loss : str
    range : (float, float)
        What scores are clipped to.

    Examples
    --------
    >>> import ddol
    >>> X = np.random.default_rng(0).standard_normal((50, 2))
    >>> model = ddol.run(ddol.adaptive(), (X, X[:, 0] > 0)).model()
    >>> form = LinearForm.of(model)
    >>> bool(np.allclose(form.scores(9.0 * X)[:, 0], model.decision_function(9.0 * X), rtol=1e-9))
    True
    """

    bias: np.ndarray
    parts: tuple[LinearPart, ...]
    features: tuple[Feature, ...]
    encoding: Encoding
    loss: str
    range: tuple[float, float] = (-math.inf, math.inf)

    @classmethod
    def of(cls, model: Any, agent: str | int | None = None) -> LinearForm:
        """The linear form of a `ddol.Model`, or of one of its agents.

        Raises
        ------
        DataError
            The model is none: it weighs experts, hashes features, or mixes learners.
        """
        encoding = model.encoding
        _check_features(encoding)
        parts, bias = _parts_of(model, model.agent_number(agent))
        if encoding.intercept:
            bias = bias + sum(part.weights[:, 0] for part in parts)
            parts = [LinearPart(p.weights[:, 1:], p.lower[1:], p.upper[1:]) for p in parts]
        width = parts[0].weights.shape[1]
        if len(parts) * parts[0].weights.size > _MOST_NUMBERS:
            raise DataError(
                f"the model has {len(parts) * parts[0].weights.size:,} weights, expected at most "
                f"{_MOST_NUMBERS:,}; export one agent"
            )
        features = _features(encoding, width)
        own = _range_of(model, model.agent_number(agent))
        return cls(bias, tuple(parts), features, encoding, model.loss, own)

    @property
    def is_clipped(self) -> bool:
        """Whether any feature is clipped."""
        return any(np.isfinite(p.lower).any() or np.isfinite(p.upper).any() for p in self.parts)

    @property
    def weights(self) -> np.ndarray:
        """Weights (outputs, D) of features that are not clipped."""
        return np.sum([part.weights for part in self.parts], axis=0)

    @property
    def limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper limits (D,) within which no part clips."""
        lower = np.max([part.lower for part in self.parts], axis=0)
        return lower, np.min([part.upper for part in self.parts], axis=0)

    def scores(self, X: np.ndarray, clipped: bool = True) -> np.ndarray:
        """Scores (n, outputs) of features (n, D), with the clip or without."""
        total = np.tile(self.bias, (len(X), 1))
        for part in self.parts:
            total += (np.clip(X, part.lower, part.upper) if clipped else X) @ part.weights.T
        return np.clip(total, *self.range)

    def share_beyond(self, X: np.ndarray) -> float:
        """Share of rows of which a feature is clipped."""
        lower, upper = self.limits
        return float(np.mean(((lower > X) | (upper < X)).any(axis=1))) if len(X) else 0.0


def _check_features(encoding: Encoding) -> None:
    """Refuse features that no other program can make."""
    if encoding.stumps is not None:
        raise DataError(
            "a model that weighs experts has no linear form; export is for linear models"
        )
    if encoding.dates:
        raise DataError(
            f"the model makes features of the dates in column {encoding.dates[0]!r}, which other programs "
            "cannot; train on columns of your own for year, month, weekday and hour to export it"
        )
    if encoding.bits is not None:
        raise DataError(
            f"the model hashes its features to 2^{encoding.bits} places, whose names other programs "
            "do not know; train without --bits to export it"
        )


def _parts_of(model: Any, copy: int | None) -> tuple[list[LinearPart], np.ndarray]:
    """Parts of a score over all features, the intercept's column too, and the bias."""
    known = model.known
    if known is None or (known.is_linear and copy is None):
        return [_unlimited(model.weights)], np.zeros(len(model.weights))
    known = known.of_all if copy is None else known
    update: Any = known.algorithm.update
    if update.experts or known.algorithm.safe or update.randomized:
        what = "a mixture of learners" if known.algorithm.safe else "votes of experts"
        raise DataError(
            f"the model predicts by {what} ({known.algorithm.name.replace('_', '-')}), which has no "
            "linear form" + ("; export it without an agent" if known.algorithm.safe else "")
        )
    copies = range(len(known.theta)) if copy is None else [copy if len(known.theta) > 1 else 0]
    if known.is_linear:
        own = zip(known.theta[copies[0]], known.scalars[copies[0]], strict=True)
        weights = [update.weights(Vector(rows.copy(), scalars.copy())) for rows, scalars in own]
        return [_unlimited(np.array(weights))], np.zeros(len(weights))
    if update.coordinates is None:
        raise DataError(
            f"the model of {known.algorithm.name} has no linear form, as with --memory auto or --privacy; "
            "train without these to export it"
        )
    return _merged(known, list(copies))


def _range_of(model: Any, copy: int | None) -> tuple[float, float]:
    """The range that numbers are predicted in: of one copy, or the widest."""
    known = model.known
    if known is None or known.is_linear:
        return -math.inf, math.inf
    known = known.of_all if copy is None else known
    copies = known.scalars if copy is None or len(known.theta) == 1 else known.scalars[[copy]]
    ranges = np.array([known.algorithm.update.range_of(own[0]) for own in copies])
    return float(ranges[:, 0].min()), float(ranges[:, 1].max())


def _unlimited(weights: np.ndarray) -> LinearPart:
    infinite = np.full(weights.shape[1], np.inf)
    return LinearPart(weights, -infinite, infinite)


def _merged(known: Any, copies: list[int]) -> tuple[list[LinearPart], np.ndarray]:
    """Parts of standardising copies; those with the same limits are one."""
    outputs, width = known.theta.shape[1], known.theta.shape[-1]
    found: dict[bytes, LinearPart] = {}
    bias = np.zeros(outputs)
    for copy in copies:
        for k in range(outputs):
            weights, rest, lower, upper = _standardised(known, copy, k)
            key = lower.tobytes() + upper.tobytes()
            part = found.setdefault(key, LinearPart(np.zeros((outputs, width)), lower, upper))
            part.weights[k] += weights / len(copies)
            bias[k] += rest / len(copies)
    return list(found.values()), bias


def _standardised(
    known: Any, copy: int, output: int
) -> tuple[np.ndarray, float, np.ndarray, np.ndarray]:
    """Weights, bias and limits of one output of one copy."""
    update: Any = known.algorithm.update.without_range()
    vector = Vector(known.theta[copy, output].copy(), known.scalars[copy, output].copy())
    centre_row, inverse_row, reach_place = update.coordinates
    centre, inverse = vector.rows[centre_row].copy(), vector.rows[inverse_row].copy()
    reach, works = float(vector.scalars[reach_place]), (inverse > 0.0) & (inverse < UNKNOWN)
    at_centre = update.score(vector.copy(), centre)
    # Of a feature that never varies the update's weight is the intercept, which is in the score already.
    weights = np.where(works, update.weights(vector.copy()), 0.0)
    reached = np.divide(reach, inverse, out=np.full(len(inverse), np.inf), where=works)
    limits = centre - reached, centre + reached
    return weights, float(at_centre - weights @ centre), *limits


def _features(encoding: Encoding, width: int) -> tuple[Feature, ...]:
    names = [
        name
        for name, _ in encoding.feature_names(range(encoding.intercept, width + encoding.intercept))
    ]
    columns = {column.name: column.kind for column in encoding.columns or ()}
    found = []
    for name in names:
        column = _text_column(name, columns)
        if columns.get(name) == NUMBER or column is None:
            found.append(Feature(name))
        else:
            found.append(Feature(name, column, name[len(column) + 1 :]))
    return tuple(found)


def _text_column(name: str, columns: dict[str, str]) -> str | None:
    """The column of text that a feature is a value of."""
    texts = [c for c, kind in columns.items() if kind == TEXT and name.startswith(f"{c}=")]
    return max(texts, key=len, default=None)


def finite_or_none(values: np.ndarray) -> list[float | None]:
    """Numbers, and None in the place of infinite ones."""
    return [value if math.isfinite(value) else None for value in values.tolist()]
