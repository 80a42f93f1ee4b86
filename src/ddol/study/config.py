"""Sweeps as small TOML files.

data = "svmguide1"          # beside this file; several files or a pattern: an agent for each
label = "outcome"           # optional: of a table; also drop = ["id"], missing = "zero" or "mean"
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
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from ddol.streams.arrays import RowsStream
from ddol.streams.coding.discovery import Wishes, learn_encoding, peek
from ddol.streams.coding.encoder import Encoder
from ddol.streams.coding.stumps import fit_stumps
from ddol.streams.errors import DataError
from ddol.streams.formats import ReadOptions
from ddol.streams.open import expand, open_stream
from ddol.streams.over.filling import FilledStream
from ddol.streams.rows import Rows, concatenate
from ddol.streams.store.files import is_remote
from ddol.study.points import Axis
from ddol.study.study import AGAINST, SHOWN
from ddol.update.losses import REGRESSION, loss_named

MISSING = ("error", "zero", "mean")


@dataclass(frozen=True)
class SweepFile:
    """What a file asks for.

    Parameters
    ----------
    path : Path
        Of the file itself.
    sweep : dict
        Axes of `ddol.sweep`.
    data : str, or list of str
        Files or patterns; each of several files is an agent's.
    label : str, int or None
    drop : tuple of str
    missing : str
        As `ddol train` has them.
    experts : int or None
        Decision stumps P that see the features.
    show, against : str
        See `Study.chart`.
    compare : str or None
        An axis; by default the first that varies.
    """

    path: Path
    sweep: dict[str, Any]
    data: str | list[str]
    label: str | int | None = None
    drop: tuple[str, ...] = ()
    missing: str = "error"
    experts: int | None = None
    show: str = "mistakes"
    against: str = "examples"
    compare: str | None = None

    @property
    def files(self) -> list[str]:
        """Names of the files, found from the folder of this one."""
        given = [self.data] if isinstance(self.data, str) else self.data
        return expand([d if is_remote(d) else str(self.path.parent / d) for d in given])

    @property
    def axes(self) -> dict[str, Any]:
        """Axes of the sweep: with several files there are as many agents, or none other."""
        n = len(self.files)
        found = {"agents": n, **self.sweep} if n > 1 else self.sweep
        strange = [k for k in Axis.of("agents", found.get("agents", n)).values if n > 1 and k != n]
        if strange:
            raise DataError(
                f"agents: found {strange[0]} for {n} files, expected {n}, one for each; leave it out, or "
                "join the files"
            )
        return found

    def load(self) -> Any:
        """Features, or what the stumps make of them, and answers; a list of both for several files."""
        tables = read_rows(self.files, self._hints())
        if self.experts is not None:
            stumps = fit_stumps([RowsStream(rows) for rows in tables], self.experts)
            tables = [stumps.advice(rows) for rows in tables]
        pairs = [(_features(rows), rows.y) for rows in tables]
        return pairs if len(pairs) > 1 else pairs[0]

    def _hints(self) -> Wishes:
        return Wishes(
            label=self.label,
            drop=tuple(self.drop),
            missing=self.missing,
            classification=self._is_about_classes(),
        )

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
    _check_data(str(path), given)
    return SweepFile(place, **{**given, "sweep": axes})


def _check_data(path: str, given: dict[str, Any]) -> None:
    """Refuse what is no name of a file, of a column, or of what to do about missing values."""
    texts = {"data": given["data"], "drop": given.get("drop", [])}
    for name, value in texts.items():
        each = [value] if name == "data" and isinstance(value, str) else value
        if not isinstance(each, list) or not all(isinstance(item, str) for item in each):
            raise DataError(f"{path}: found {name} = {value!r}, expected a list of names")
    if given.get("missing", "error") not in MISSING:
        raise DataError(
            f"{path}: found missing = {given['missing']!r}, expected one of {', '.join(MISSING)}"
        )


def read_rows(paths: Sequence[str | Path], hints: Wishes) -> list[Rows]:
    """All rows of each file, dense where every number is there; labels as numbers, or as classes."""
    options = ReadOptions(label=hints.label, drop=hints.drop)
    streams = [open_stream(path, options) for path in paths]
    encoding = learn_encoding(streams, hints, [peek(stream, hints) for stream in streams])
    many = encoding.classes is not None and len(encoding.classes) > 2
    encoder = Encoder(replace(encoding, numbered=many))
    if encoding.missing == "mean":
        streams = [FilledStream(stream, encoding.numbers) for stream in streams]
    found = [concatenate([rows for rows, _ in encoder.stream(s).read()]) for s in streams]
    width = max(rows.n_features for rows in found)
    return [_dense_if_whole(rows.widen(width)) for rows in found]


def _dense_if_whole(rows: Rows) -> Rows:
    if not rows.dense and rows.n_features * len(rows) == len(rows.data):
        return Rows.from_dense(rows.data.reshape(len(rows), -1), rows.y)
    return rows


def _features(rows: Rows) -> Any:
    return rows.data.reshape(len(rows), -1) if rows.dense else rows.to_scipy()
