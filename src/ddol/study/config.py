"""Sweeps as small TOML files.

data = "svmguide1"          # beside this file; LIBSVM, CSV, Parquet, NumPy
experts = 4                 # optional: decision stumps instead of the features
show = "mistakes"           # and against = "rounds", compare = "algorithm"

[sweep]
algorithm = ["dwm-a", "dwm-i"]
agents = [1, 4]
alpha = 0.9
seed = 30                   # a number of seeds: 0, …, 29
"""

from __future__ import annotations

import tomllib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from ddol.streams.arrays import RowsStream
from ddol.streams.coding.discovery import Wishes, learn_encoding, peek
from ddol.streams.coding.encoder import Encoder
from ddol.streams.coding.stumps import fit_stumps
from ddol.streams.errors import DataError
from ddol.streams.open import open_stream
from ddol.streams.rows import Rows, concatenate
from ddol.study.points import Axis
from ddol.study.study import AGAINST, SHOWN
from ddol.update.losses import REGRESSION, loss_named
from ddol.values import dataclass


@dataclass(frozen=True)
class SweepFile:
    """What a file asks for.

    Parameters
    ----------
    path : Path
        Of the file itself.
    sweep : dict
        Axes of `ddol.sweep`.
    data : str
    experts : int or None
        Decision stumps P that see the features.
    show, against : str
        See `Study.chart`.
    compare : str or None
        An axis; by default the first that varies.
    """

    path: Path
    sweep: dict[str, Any]
    data: str
    experts: int | None = None
    show: str = "mistakes"
    against: str = "examples"
    compare: str | None = None

    def load(self) -> tuple[Any, Any]:
        """Features, or what the stumps make of them, and answers."""
        rows = read_rows(self.path.parent / self.data, self._is_about_classes())
        if self.experts is not None:
            rows = fit_stumps(RowsStream(rows), self.experts).advice(rows)
        X = rows.data.reshape(len(rows), -1) if rows.dense else rows.to_scipy()
        return X, rows.y

    def _is_about_classes(self) -> bool:
        """Whether labels may be text: numbers are learned if a single loss is about numbers."""
        losses = Axis.of("loss", self.sweep.get("loss", "hinge")).values.values()
        return all(loss_named(loss).task != REGRESSION for loss in losses)


def read_sweep(path: str | Path) -> SweepFile:
    """Read a file; what it does not understand is a `DataError` of one line."""
    place = Path(path)
    try:
        given = tomllib.loads(place.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: {reason}; expected a TOML file with a table [sweep]") from None
    known = {field.name for field in fields(SweepFile)} - {"path"}
    for name in ("sweep", "data"):
        if name not in given:
            raise DataError(f"{path}: found no `{name}`, expected {', '.join(sorted(known))}")
    strange = sorted(set(given) - known)
    if strange:
        raise DataError(
            f"{path}: found `{strange[0]}`, expected some of {', '.join(sorted(known))}"
        )
    for name, choices in (("show", SHOWN), ("against", AGAINST)):
        if given.get(name, choices[0]) not in choices:
            raise DataError(
                f"{path}: found {name} = {given[name]!r}, expected one of {', '.join(choices)}"
            )
    axes = dict(given["sweep"])
    if isinstance(axes.get("seed"), int):
        axes["seed"] = range(axes["seed"])
    return SweepFile(place, **{**given, "sweep": axes})


def read_rows(path: Path, classes: bool = False) -> Rows:
    """All rows of a file, dense where every number is there; labels as numbers, or as classes."""
    stream, wishes = open_stream(path), Wishes(classification=classes)
    encoding = learn_encoding([stream], wishes, [peek(stream, wishes)])
    many = encoding.classes is not None and len(encoding.classes) > 2
    encoder = Encoder(replace(encoding, numbered=many))
    rows = concatenate([block for block, _ in encoder.stream(stream).read()])
    if not rows.dense and rows.n_features * len(rows) == len(rows.data):
        return Rows.from_dense(rows.data.reshape(len(rows), -1), rows.y)
    return rows
