"""The paper's three data sets: found in a folder or the cache, or downloaded and checked."""

from __future__ import annotations

import hashlib
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from ddol.storage import written_beside
from ddol.streams.errors import DataError
from ddol.streams.open import open_stream
from ddol.streams.rows import Rows, concatenate

SITE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
VARIANTS = ("file order", "shuffled", "raw", "scaled")
"""Order and scale: all but the first are shuffled; ``scaled`` takes every feature to [0, 1]."""

_CHUNK = 1 << 20
_TIMEOUT = 60.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class DataSet:
    """A file of the LIBSVM site, and what the paper's Table 1 says about it.

    Parameters
    ----------
    file : str
    sha256 : str
    rows, features : int
    stored : float
        Share of values that are not 0.
    majority : float
        Share of the larger class.
    """

    file: str
    sha256: str
    rows: int
    features: int
    stored: float
    majority: float

    @property
    def url(self) -> str:
        """Where it is downloaded from."""
        return SITE + self.file


@dataclass(frozen=True)
class DataFacts:
    """What a data set is like: rows, features, and shares of stored values and of the larger class."""

    rows: int
    features: int
    stored: float
    majority: float


DATASETS = {
    "svmguide1": DataSet(
        "svmguide1",
        "2b9ab55b6236f62cee6b7739b52f9e7cb033771f39b9c22c1f1790d80ef14d7f",
        3_089,
        4,
        1.0,
        0.647,
    ),
    "cod-rna": DataSet(
        "cod-rna.bz2",
        "c63c703350c990abd8adec627109de27867dbcedbc5a0f1fd9eac394fa1872f3",
        59_535,
        8,
        1.0,
        0.667,
    ),
    "covtype": DataSet(
        "covtype.libsvm.binary.scale.bz2",
        "281e6b36e7ab4caf69a1bb4ce57b712f959e2bbc9c7a645cfefd314fbf60cf69",
        522_910,
        54,
        0.22,
        0.512,
    ),
}


def cache_folder() -> Path:
    """Where downloads are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "ddol")


def find(name: str, folder: str | None, say: Say) -> Path:
    """The file of a data set: in the folder, in DDOL_DATA, in the cache, or downloaded.

    Parameters
    ----------
    name : str
        Of `DATASETS`.
    folder : str or None
        To look in first.
    say : function
        Called with lines about downloads and about files that are not the paper's.
    """
    data = DATASETS[name]
    plain = data.file.removesuffix(".bz2")
    for place in filter(None, (folder, os.environ.get("DDOL_DATA"))):
        for file in dict.fromkeys((data.file, plain)):
            path = Path(place, file)
            if path.is_file():
                if file == data.file and _sha256(path) != data.sha256:
                    say(f"warning: {path} is not the file of the paper (its sha256 differs)")
                return path
    cached = cache_folder() / data.file
    if cached.is_file() and _sha256(cached) == data.sha256:
        return cached
    _download(data, cached, say)
    return cached


def _download(data: DataSet, target: Path, say: Say) -> None:
    say(f"downloading {data.url} to {target.parent}")
    advice = "put it into a folder and say --data FOLDER, or set DDOL_DATA"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with written_beside(target) as beside:
            with urllib.request.urlopen(data.url, timeout=_TIMEOUT) as page, beside.open("wb") as f:
                while piece := page.read(_CHUNK):
                    f.write(piece)
            found = _sha256(beside)
            if found != data.sha256:
                raise DataError(
                    f"{data.url}: found a file with sha256 {found[:12]}…, expected "
                    f"{data.sha256[:12]}…; get the paper's {data.file} elsewhere and {advice}"
                )
    except (OSError, urllib.error.URLError) as error:
        reason = getattr(error, "reason", None) or error
        raise DataError(
            f"{data.file} is in no folder that was named and cannot be downloaded from {data.url} "
            f"({reason}); {advice}"
        ) from None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@lru_cache(maxsize=1)
def load(path: Path) -> Rows:
    """All rows of a file, labels −1 and +1."""
    rows = concatenate([rows for rows, _ in open_stream(path).read()])
    positive = rows.y == rows.y.max()
    y = np.where(positive, 1.0, -1.0)
    if rows.n_features * len(rows) == len(rows.data):
        return Rows.from_dense(rows.data.reshape(len(rows), -1), y)
    return Rows.from_csr(rows.to_scipy(), y)


def facts_of(rows: Rows) -> DataFacts:
    """Sizes, density and balance of the rows."""
    stored = np.count_nonzero(rows.data) / (len(rows) * rows.n_features)
    positive = float(np.mean(rows.y > 0))
    return DataFacts(len(rows), rows.n_features, stored, max(positive, 1 - positive))


def arranged(rows: Rows, variant: str, seed: int, count: int | None) -> Rows:
    """Rows in the order and scale of a variant, the first ``count`` of them.

    Examples
    --------
    >>> rows = Rows.from_dense([[0.0], [5.0], [10.0]], [1, -1, 1])
    >>> sorted(arranged(rows, "scaled", 0, None).data.tolist())
    [0.0, 0.5, 1.0]
    """
    if variant == "scaled":
        rows = scaled(rows)
    if variant == "file order":
        return rows.slice(0, count or len(rows))
    order = np.random.default_rng(seed).permutation(len(rows))
    return rows.take(order[: count or len(rows)])


def scaled(rows: Rows) -> Rows:
    """Every feature taken to [0, 1]."""
    X = rows.to_scipy().toarray()
    low, high = X.min(axis=0), X.max(axis=0)
    return Rows.from_dense((X - low) / np.where(high > low, high - low, 1.0), rows.y)
