"""Errors of `adaptive` on kinds of data that have little in common, beside Vowpal Wabbit's.

``python -m benchmarks.kinds`` prints a Markdown table: one agent, logistic loss, one pass over a seeded
shuffle, no option, beside Vowpal Wabbit's default, ``--coin`` and ``--sgd``, and the best of these three on
features that are standardised online, where these are dense. Text is the documentation of packages that are
installed: which of two packages does a docstring belong to? Tables are scikit-learn's, and made.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn import datasets
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

import ddol
from benchmarks.accuracy import VW_OPTIONS, percent, table, vw_percent
from benchmarks.data import Arrays

PAIRS = (("numpy", "scipy"), ("sklearn", "scipy"), ("matplotlib", "sklearn"), ("river", "sklearn"))
SHORTEST, LONGEST = 60, 1_500
"""Characters of a docstring: shorter ones are left out, longer ones cut."""
MOST = 3_000
"""Documents of a kind."""


def docstrings(package: str) -> list[str]:
    """What the functions and classes of an installed package say of themselves; none where it is missing."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        return []
    texts = []
    for path in sorted(Path(found.submodule_search_locations[0]).rglob("*.py")):
        try:
            tree = ast.parse(path.read_text(encoding="utf8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        defined = (
            node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))
        )
        said = (ast.get_docstring(node) or "" for node in defined)
        texts += [text[:LONGEST] for text in said if len(text) >= SHORTEST]
    return texts


def text() -> Iterator[Arrays]:
    """Two packages each, as counts of words, as tf–idf, and as words and pairs of words that are there."""
    ways = {
        "counts": CountVectorizer(),
        "tf–idf": TfidfVectorizer(min_df=2, sublinear_tf=True),
        "words and pairs": CountVectorizer(binary=True, ngram_range=(1, 2), min_df=2),
    }
    for first, second in PAIRS:
        own, other = docstrings(first), docstrings(second)
        if not own or not other:
            continue
        labels = np.arange(len(own) + len(other)) < len(own)
        kept = np.random.default_rng(0).permutation(len(labels))[:MOST]
        documents = [*own, *other]
        for way, vectors in ways.items():
            X = vectors.fit_transform([documents[i] for i in kept]).astype(float)
            yield _kind(f"docstrings of {first} and {second}, {way}", X, labels[kept])


def tables() -> Iterator[Arrays]:
    """Small tables of scikit-learn; features that are dense, rare, noisy, of heavy tails, many of no use."""
    rng = np.random.default_rng(0)
    breast, digits, wine = (
        datasets.load_breast_cancer(),
        datasets.load_digits(),
        datasets.load_wine(),
    )
    yield _kind("breast cancer", breast.data, breast.target)
    yield _kind("digits, 8 or not", digits.data, digits.target == 8)
    yield _kind("wine, 1 or not", wine.data, wine.target == 1)
    for rows, columns, useful in ((10_000, 20, 5), (20_000, 100, 20), (1_000, 200, 10)):
        X, y = datasets.make_classification(
            rows, columns, n_informative=useful, flip_y=0.05, random_state=1
        )
        yield _kind(f"make_classification, {useful} of {columns}, {rows:,} rows", X, y)
    plain = rng.standard_normal((10_000, 20))
    yield _linear("normal features", plain, rng)
    yield _linear("normal features, a quarter of the labels wrong", plain, rng, wrong=0.25)
    yield _linear("log-normal features", np.exp(plain), rng)
    yield _linear("5 features of 500, 1,000 rows", rng.standard_normal((1_000, 500)), rng, useful=5)
    sparse = rng.exponential(size=(10_000, 50)) * (rng.random((10_000, 50)) < 0.1)
    yield _linear(
        "exponentials in a tenth of the rows, any unit",
        sparse * 10.0 ** rng.uniform(-3, 3, 50),
        rng,
    )
    yield _linear("ones in a tenth of the rows", (sparse > 0.0).astype(float), rng)


def _linear(
    name: str,
    X: np.ndarray,
    rng: np.random.Generator,
    useful: int | None = None,
    wrong: float = 0.0,
) -> Arrays:
    """Labels by a line through standardised features, the margin's noise a fifth of its deviation."""
    weights = rng.standard_normal(X.shape[1]) * (np.arange(X.shape[1]) < (useful or X.shape[1]))
    margin = (X / X.std(axis=0)) @ weights
    margin += 0.2 * margin.std() * rng.standard_normal(len(X)) - np.median(margin)
    return _kind(name, X, (margin > 0.0) != (rng.random(len(X)) < wrong))


def _kind(name: str, X: np.ndarray | sp.csr_matrix, labels: np.ndarray) -> Arrays:
    """Examples in the order of one seed; everybody has an intercept of his own."""
    order = np.random.default_rng(0).permutation(X.shape[0])
    return Arrays(name, X[order], np.where(labels, 1.0, -1.0)[order])


def standardised_online(X: np.ndarray) -> np.ndarray:
    """Every row by the means and the deviations of the rows before it."""
    before, apart = np.maximum(np.arange(len(X)), 1)[:, None], X - X[0]
    mean, square = ((np.cumsum(a, axis=0) - a) / before for a in (apart, apart * apart))
    variance = square - mean * mean
    known = variance > 1e-12 * (1.0 + square)
    return np.where(known, (apart - mean) / np.sqrt(np.where(known, variance, 1.0)), 0.0)


def _of_vw(data: Arrays) -> list[str]:
    return [vw_percent(data, way, "logistic") for way in VW_OPTIONS]


def rows() -> Iterator[list[str]]:
    """Rows: a kind, how large it is, and everybody's error; then means."""
    found = []
    for one in (*text(), *tables()):
        errors = [
            percent(ddol.adaptive(), one),
            *_of_vw(one),
        ]
        scaled = replace(one, X=standardised_online(one.X)) if one.dense else one
        scores = errors[1:] if scaled is one else _of_vw(scaled)
        errors.append(f"{min(map(float, scores)):.2f}")
        found.append([float(error) for error in errors])
        yield [
            one.name,
            f"{one.X.shape[0]:,} × {one.X.shape[1]:,}",
            *errors,
            f"{min(found[-1][1:4]):.2f}",
        ]
    means = np.mean([[*row, min(row[1:4])] for row in found], axis=0)
    yield ["mean", "", *(f"{mean:.2f}" for mean in means)]


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    peers = [f"VW {way}".strip() for way in VW_OPTIONS]
    table(
        ["kind", "rows × columns", "adaptive", *peers, "VW's best, standardised", "VW's best"],
        rows(),
    )


if __name__ == "__main__":
    main()
