"""The data that everybody gets: read or made once, and kept where ``make clean`` finds it."""

from __future__ import annotations

import bz2
import os
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ddol.streams.open import open_stream
from ddol.streams.rows import Rows, concatenate
from ddol.streams.synthetic import sparse

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "build" / "benchmarks"
"""Texts, caches and models of a run; nothing in it is needed afterwards."""

FILES = {
    "svmguide1": "svmguide1",
    "cod-rna": "cod-rna.bz2",
    "covtype": "covtype.libsvm.binary.scale.bz2",
}


class MissingDataError(Exception):
    """A data set of the paper is not on this machine."""


@dataclass(frozen=True)
class Arrays:
    """Examples in memory: C-contiguous float64, or CSR with int32 indices."""

    name: str
    X: Any
    y: np.ndarray

    @property
    def n_examples(self) -> int:
        return len(self.y)

    @property
    def n_values(self) -> int:
        """Numbers that one pass must read."""
        return self.X.nnz if sp.issparse(self.X) else self.X.size

    @property
    def classes(self) -> np.ndarray:
        return np.unique(self.y)

    @property
    def dense(self) -> bool:
        return not sp.issparse(self.X)


@dataclass(frozen=True)
class Text:
    """Examples in a file, as LIBSVM text and, with a bar after the label, as VW's."""

    name: str
    path: Path
    vw_path: Path
    n_examples: int
    n_values: int
    n_features: int


@dataclass(frozen=True)
class Advice:
    """What experts say (−1 or +1), a row per round, and what was true."""

    name: str
    said: np.ndarray
    y: np.ndarray

    @property
    def n_examples(self) -> int:
        return len(self.y)

    @property
    def n_values(self) -> int:
        return self.said.size


def source(name: str) -> Path:
    """Where a data set of the paper is: in the folder DDOL_DATA, or beside the project."""
    folder = Path(os.environ.get("DDOL_DATA", ROOT.parent / "shared" / "data"))
    path = folder / FILES[name]
    if not path.exists():
        raise MissingDataError(f"{path} is missing; put it there or set DDOL_DATA to its folder")
    return path


def text(name: str, examples: int | None = None, times: int = 1) -> Path:
    """A data set as plain text: its first examples, or all of it several times over."""
    KEPT.mkdir(parents=True, exist_ok=True)
    whole = KEPT / f"{name}.txt"
    if not whole.exists():
        path = source(name)
        content = path.read_bytes()
        _write(whole, bz2.decompress(content) if path.suffix == ".bz2" else content)
    path = whole
    if examples is not None:
        path = KEPT / f"{name}-{examples}.txt"
        if not path.exists():
            with whole.open("rb") as lines:
                _write(
                    path, b"".join(line for _, line in zip(range(examples), lines, strict=False))
                )
    if times == 1:
        return path
    repeated = path.with_name(f"{path.stem}-x{times}.txt")
    if not repeated.exists():
        _write(repeated, path.read_bytes(), times)
    return repeated


def shares(path: Path, n_agents: int, times: int = 1) -> list[Path]:
    """A text dealt to one file for each agent, each of them several times over."""
    found = [
        path.with_name(f"{path.stem}-x{times}-of-{n_agents}-{k:03}.txt") for k in range(n_agents)
    ]
    if not all(share.exists() for share in found):
        lines = path.read_bytes().splitlines(keepends=True)
        for k, share in enumerate(found):
            _write(share, b"".join(lines[k::n_agents]), times)
    return found


def _write(path: Path, content: bytes, times: int = 1) -> None:
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        for _ in range(times):
            file.write(content)
    part.replace(path)


def vw_text(path: Path) -> Path:
    """The same lines for Vowpal Wabbit: a bar after the label."""
    made = path.with_suffix(".vw")
    if not made.exists():
        part = path.with_suffix(".part")
        with path.open("rb") as lines, part.open("wb") as file:
            file.writelines(line.replace(b" ", b" | ", 1) for line in lines)
        part.replace(made)
    return made


@cache
def rows(name: str, examples: int | None = None) -> Rows:
    """All examples of a data set in an order drawn once, with a constant column in front.

    Everybody learns the intercept as the weight of that column, so nobody adds one of his own.
    """
    read = concatenate([rows for rows, _ in open_stream(str(text(name))).read()])
    order = np.random.default_rng(0).permutation(len(read))[:examples]
    taken = read.take(order).with_intercept()
    return replace(taken, y=np.where(taken.y > 0, 1.0, -1.0))


def arrays(name: str, examples: int | None = None, dense: bool = True) -> Arrays:
    """A data set as the array that peers like best."""
    found = rows(name, examples)
    X = _matrix(found)
    if dense:
        X = np.ascontiguousarray(X.toarray())
    return Arrays(name, X, found.y)


def standardised(name: str, examples: int | None = None) -> Arrays:
    """A dense data set whose columns have mean 0 and variance 1, but for the constant."""
    plain = arrays(name, examples)
    X = plain.X.copy()
    X[:, 1:] -= X[:, 1:].mean(axis=0)
    X[:, 1:] /= np.maximum(X[:, 1:].std(axis=0), 1e-12)
    return replace(plain, X=X)


def like_rcv1(examples: int, n_features: int = 50_000, draws: int = 95) -> Arrays:
    """Words of a power law, rows of length 1: about 70 of 50,000 columns in every row."""
    stream = sparse(examples, n_features, draws, noise=0.05, seed=1)
    made = concatenate([rows for rows, _ in stream.read()])
    counts = np.diff(made.indptr)
    X = _matrix(replace(made, data=np.repeat(1.0 / np.sqrt(counts), counts)))
    return Arrays("like rcv1", X, made.y)


def clusters(examples: int, n_features: int = 50, n_classes: int = 10) -> Arrays:
    """Gaussian clusters, one for each class, which overlap; a constant column in front."""
    rng = np.random.default_rng(2)
    centres = rng.standard_normal((n_classes, n_features))
    y = rng.integers(n_classes, size=examples)
    X = np.ones((examples, n_features + 1))
    X[:, 1:] = centres[y] + 2.0 * rng.standard_normal((examples, n_features))
    return Arrays("10 clusters", X, y.astype(np.float64))


def experts(examples: int, n_experts: int) -> Advice:
    """Experts that are right with chances from 0.4 to 0.6, independently."""
    rng = np.random.default_rng(3)
    y = np.where(rng.random(examples) < 0.5, 1.0, -1.0)
    right = rng.random((examples, n_experts)) < np.linspace(0.4, 0.6, n_experts)
    return Advice(f"{n_experts} experts", np.where(right, y[:, None], -y[:, None]), y)


def files(name: str, examples: int | None = None, times: int = 1) -> Text:
    """A data set as text on disk."""
    path = text(name, examples, times)
    once = concatenate([rows for rows, _ in open_stream(str(text(name, examples))).read()])
    return Text(
        name, path, vw_text(path), times * len(once), times * len(once.data), once.n_features
    )


def _matrix(found: Rows) -> sp.csr_matrix:
    """scikit-learn wants 32-bit indices, and so does everybody's cache."""
    parts = (found.data, found.indices.astype(np.int32), found.indptr.astype(np.int32))
    return sp.csr_matrix(parts, shape=(len(found), found.n_features))
