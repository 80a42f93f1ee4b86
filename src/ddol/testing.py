"""Contract checks, for the parts of this package and for a user's own.

Each raises `AssertionError` with the combination that fails, and returns nothing otherwise.
"""

from __future__ import annotations

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.session import run
from ddol.streams.arrays import array_stream


def examples_for(
    algorithm: Algorithm, n: int, n_features: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Random examples (X, y) that an algorithm can learn from: advice of experts, classes or numbers."""
    update = algorithm.update
    if update.experts:
        n_classes = getattr(update, "n_classes", 2)
        labels = np.array([-1.0, 1.0]) if n_classes == 2 else np.arange(float(n_classes))
        return rng.choice(labels, (n, n_features)), rng.choice(labels, n)
    X = rng.standard_normal((n, n_features)) * (rng.random((n, n_features)) < 0.7)
    if not algorithm.classification:
        return X, rng.standard_normal(n)
    if algorithm.outputs > 1:
        return X, rng.integers(0, algorithm.outputs, n).astype(float)
    return X, rng.choice([-1.0, 1.0], n)


def check_engine(
    algorithm: Algorithm,
    engine: str,
    workers: int | None = None,
    *,
    sparse: bool = False,
    n_examples: int = 300,
    n_features: int = 7,
    seed: int = 0,
) -> None:
    """Check that an engine plays as the local one does.

    Mistakes of every agent must be the same, losses and weights within 1e-9 of the largest.

    Parameters
    ----------
    algorithm : Algorithm
        On its network.
    engine : str
        The name of the engine; for "mpi" every rank must call this.
    workers : int, optional
        Of the threads engine.
    sparse : bool
        Give the examples as CSR rows.
    n_examples, n_features, seed : int
        Size and seed of the random examples.

    Examples
    --------
    >>> import ddol
    >>> check_engine(ddol.dogd().on(ddol.ring(5), period=2), "threads", workers=2)
    """
    rng = np.random.default_rng(seed)
    X, y = examples_for(algorithm, n_examples, n_features, rng)
    if sparse:
        from scipy.sparse import csr_matrix

        X = csr_matrix(X)
    streams = [array_stream(X, y)]
    expected = run(algorithm, streams, seed=seed)
    found = run(algorithm, streams, engine=engine, workers=workers, seed=seed)
    what = (
        f"{engine} with {found.workers} workers: {algorithm.name} on {found.topology} of "
        f"{algorithm.n_agents}, batch {algorithm.batch}, period {algorithm.period}, delay "
        f"{algorithm.delay}, average {algorithm.average}, {'sparse' if sparse else 'dense'} rows"
    )
    assert found.rounds == expected.rounds, f"{what}: {found.rounds} rounds, not {expected.rounds}"
    for name in ("mistakes", "expected_mistakes", "loss", "weights"):
        one, other = getattr(found, name), getattr(expected, name)
        assert one.shape == other.shape, f"{what}: {name} {one.shape}, not {other.shape}"
        gap = np.abs(one - other).max() / max(np.abs(other).max(), 1.0)
        most = 0.0 if name == "mistakes" else 1e-9
        assert gap <= most, f"{what}: {name} differ by {gap:.2g}"
    curves = (found.curves.mistakes, expected.curves.mistakes)
    assert np.array_equal(*curves), f"{what}: the curves of mistakes differ"
