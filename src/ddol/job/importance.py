"""How much each feature matters to a model: its weight, in units that can be compared."""

from __future__ import annotations

import numpy as np

from ddol.model import Model

_LEAST, _MOST = 1e-150, 1e150


def deviations(model: Model) -> np.ndarray | None:
    """Scale of each feature for each output (outputs, D); None if the algorithm does not know it.

    `adaptive`, `coin` and `newton` standardise features while they learn, and keep 1/scale of each (with
    ``safe``, the shared learner does). A feature that never varies (the constant one, too) has the scale 0.
    """
    if model.known is None:
        return None
    algorithm, theta = model.known.algorithm, model.known.theta
    rows = algorithm.update.layout(algorithm.average, 1).rows
    names = [getattr(row, "name", row) for row in rows]
    own = next((name for name in ("inverse", "shared inverse") if name in names), None)
    if own is None:
        return None
    inverse = theta[:, :, names.index(own), :]
    there = (inverse > _LEAST) & (inverse < _MOST)  # else it never varied, or was never met
    scales = np.where(there, 1.0 / np.where(there, inverse, 1.0), 0.0)
    return np.asarray(scales.sum(axis=0) / np.maximum(there.sum(axis=0), 1))


def importance(model: Model) -> np.ndarray:
    """Change of the score (outputs, D) when a feature grows by its standard deviation.

    Where deviations are not known, the change when it grows by one.

    Examples
    --------
    >>> import ddol
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 2)) * [1000.0, 0.001]
    >>> y = np.where(X[:, 0] / 1000 + X[:, 1] / 0.001 > 0, 1, -1)
    >>> found = importance(ddol.run(ddol.adaptive(), (X, y)).model())
    >>> bool(0.8 < found[0, 0] / found[0, 1] < 1.25)
    True
    """
    scales = deviations(model)
    return model.weights if scales is None else model.weights * scales


def ranked(model: Model) -> list[tuple[str, float]]:
    """Names of features and their importance for the output where it is largest, without the intercept."""
    found = importance(model)
    of = np.abs(found).argmax(axis=0)
    best = found[of, np.arange(found.shape[1])]
    first = int(model.encoding.intercept)
    places = [d for d in np.flatnonzero(best).tolist() if d >= first]
    places.sort(key=lambda d: -abs(best[d]))
    places = places[:100]
    names = model.encoding.feature_names(places)
    return [(name, sign * float(best[d])) for d, (name, sign) in zip(places, names, strict=True)]
