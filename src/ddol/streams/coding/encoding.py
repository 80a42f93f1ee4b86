"""What columns, labels and sites are called, and how they become features and labels.

An `Encoding` is learned once from the data (`ddol.streams.coding.discovery`), kept in the model and in the
checkpoint, and applied by an `Encoder` to whatever comes after. So a table whose columns stand in another
order is the same table, and a label is the text or the number that it was.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ddol.streams.coding.labels import Label, answers, as_mapped, shown_labels, targets
from ddol.streams.errors import DataError
from ddol.streams.rows import Floats

if TYPE_CHECKING:
    from ddol.streams.coding.stumps import Stumps

NUMBER, TEXT, DATE = "number", "text", "date"
_MOST_BITS, _MOST_COLUMNS = 31, 1 << 32


@dataclass(frozen=True)
class Column:
    """A column of the data: its name, and whether it holds numbers, text or dates."""

    name: str
    kind: str = NUMBER


@dataclass(frozen=True)
class Encoding:
    """How raw blocks become rows: one value for columns, labels, sites, intercept, hashing, stumps.

    The features of a row are the intercept, if there is one, then the columns of numbers in their order,
    then what has a name (a text's ``column=value``, a part of a date, a sparse feature), in the order in
    which names were first seen; or, with `bits`, the intercept and 2^bits places that all names are
    hashed to.

    Parameters
    ----------
    columns
        Columns of a table, in order; empty where rows name their own features; None where columns have
        numbers only.
    n_features
        Columns by number; None where they may become more.
    label, weight
        Names of these columns; None where the format has a place for them, or there is none.
    dropped
        Columns that are left out on purpose.
    classes
        All labels, in rising order: numbers or text. None for regression.
    numbered
        Learn class numbers even where there are just two classes, and not −1 and +1.
    sites
        Names of the agents, where they have some.
    intercept
        Whether feature 0 is a constant 1.
    bits
        Logarithm of the number of hashed features; None for a feature each.
    missing
        ``error``: refuse a missing value; ``zero``: it is 0; ``mean``: it is its column's. A missing text is
        no feature, unless it is an error.
    means
        Mean of every column of numbers, for ``missing="mean"``.
    interactions
        Pairs of columns or namespaces whose products are features, too.
    optional
        Columns that some sites lack: they are missing values there.
    fills
        What stands for a number that a site has never had, for every column of numbers, with
        ``missing="mean"``.
    aliases
        Other spellings of labels, and the labels that they stand for.
    own_units
        Whether sites were found to differ, so that each keeps centres and scales of its own.
    names
        Names of features, as far as they are remembered.
    stumps
        Experts that look at the features; their advice takes the features' place.

    Examples
    --------
    >>> encoding = Encoding((Column("age"), Column("town", "text")), classes=("no", "yes"), intercept=True)
    >>> encoding.answers(["yes", "no"])
    array([ 1., -1.])
    >>> Encoding.from_plain(*encoding.to_plain()) == encoding
    True
    """

    columns: tuple[Column, ...] | None = None
    n_features: int | None = None
    label: str | None = None
    weight: str | None = None
    dropped: tuple[str, ...] = ()
    classes: tuple[Label, ...] | None = None
    numbered: bool = False
    sites: tuple[str, ...] = ()
    intercept: bool = False
    bits: int | None = None
    missing: str = "error"
    means: tuple[float, ...] = ()
    interactions: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    fills: tuple[float, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    own_units: bool = False
    names: tuple[str, ...] = field(default=(), repr=False)
    stumps: Stumps | None = None

    @property
    def fills_in(self) -> bool:
        """Whether values of columns may be missing."""
        return self.missing != "error" and bool(self.columns)

    @property
    def numbers(self) -> tuple[str, ...]:
        """Names of the columns of numbers, which come before all that is named."""
        return tuple(c.name for c in self.columns or () if c.kind == NUMBER)

    @property
    def dates(self) -> tuple[str, ...]:
        """Names of the columns of dates, each of which becomes several features."""
        return tuple(c.name for c in self.columns or () if c.kind == DATE)

    @property
    def others(self) -> tuple[str, ...]:
        """Columns of the table that are no features: label, weight, and what is left out."""
        known = (self.label, self.weight, *self.dropped)
        return tuple(dict.fromkeys(name for name in known if name is not None))

    @property
    def kinds(self) -> dict[str, str] | None:
        """Kind of every column by its name, for readers; None where columns have no names."""
        return {c.name: c.kind for c in self.columns} if self.columns else None

    @property
    def grows(self) -> bool:
        """Whether rows may bring features that have not been there before."""
        if self.bits is not None or self.stumps is not None:
            return False
        if self.columns is None:
            return self.n_features is None
        return not self.columns or any(c.kind != NUMBER for c in self.columns)

    @property
    def n_inputs(self) -> int | None:
        """Features of a row before the stumps, intercept aside; None where there may be more."""
        if self.bits is not None:
            return 1 << self.bits
        if self.columns is None:
            return self.n_features
        return len(self.numbers) + len(self.names)

    @property
    def width(self) -> int | None:
        """Features of a row as agents see it; None where it is not known yet."""
        if self.stumps is not None:
            return len(self.stumps)
        known = self.n_inputs
        return None if known is None else known + self.intercept

    @property
    def n_outputs(self) -> int:
        """Scores that a model gives: one for each class, or one for two classes or a number."""
        if self.classes is None or (len(self.classes) == 2 and not self.numbered):
            return 1
        return len(self.classes)

    def answers(self, y: Any, where: Callable[[int], str] = "row {}".format) -> Floats:
        """Numbers to learn from: −1 and +1, class numbers, or the targets themselves."""
        if self.classes is None:
            return targets(y, where)
        if self.aliases:
            y = as_mapped(y, dict(self.aliases))
        return answers(self.classes, y, self.numbered, where)

    def labels(self) -> NDArray[Any]:
        """Labels of the classes, whole numbers where all are."""
        if self.classes is None:
            raise ValueError("a regression has no classes")
        return shown_labels(self.classes)

    def feature_names(self, places: Sequence[int]) -> list[tuple[str, float]]:
        """What features are, and the sign with which each is met; columns by number count from 1.

        The sign is that of the hash, and 1 where nothing is hashed: times a weight, it is the weight of
        what has the name.

        Examples
        --------
        >>> Encoding((Column("age"),), intercept=True).feature_names([1, 0])
        [('age', 1.0), ('intercept', 1.0)]
        """
        if self.stumps is not None:
            inputs = self._input_names(self.stumps.features[list(places)].tolist())
            return [
                (
                    f"{base} {'>' if self.stumps.signs[p] > 0 else '≤'} {self.stumps.thresholds[p]:g}",
                    1.0,
                )
                for p, (base, _) in zip(places, inputs, strict=True)
            ]
        found = self._input_names([place - self.intercept for place in places])
        return [("intercept", 1.0) if self.intercept and place == 0 else name
                for place, name in zip(places, found, strict=True)]  # fmt: skip

    def _input_names(self, places: Sequence[int]) -> list[tuple[str, float]]:
        """Names and signs of features before stumps and intercept."""
        if self.bits is not None:
            return self._hashed_names(places)
        if self.columns is None:
            return [(f"column {place + 1}", 1.0) for place in places]
        known = (*self.numbers, *self.names)
        return [(known[place], 1.0) for place in places]

    def _hashed_names(self, places: Sequence[int]) -> list[tuple[str, float]]:
        from ddol.streams.coding.hashing import slots
        from ddol.streams.coding.names import with_products

        assert self.bits is not None
        known, keys = with_products((*self.numbers, *self.names), self.interactions)
        columns, signs = slots(keys, self.bits)
        found = []
        for place in places:
            there = np.flatnonzero(columns == place).tolist()
            sign = float(signs[there[0]]) if there else 1.0
            shown = [f"{'' if signs[k] == sign else '−'}{known[k]}" for k in there[:3]]
            more = ["…"] if len(there) > 3 else []
            found.append((" or ".join(shown + more) or f"hashed column {place}", sign))
        return found

    def to_plain(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Values that JSON can hold, and arrays: for a model's file or a checkpoint."""
        plain = asdict(self) | {"stumps": None, "names": len(self.names)}
        arrays = {} if self.stumps is None else dict(vars(self.stumps))
        if self.names:
            # A line for each: a line break inside a name is written as \\n.
            lines = (name.replace("\\", "\\\\").replace("\n", "\\n") for name in self.names)
            text = "\n".join(lines).encode()
            arrays["names"] = np.frombuffer(text, np.uint8)
        return plain, arrays

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Encoding:
        """The encoding that `to_plain` described."""
        # Models that were written before these were kept have none of them.
        since: dict[str, Any] = {"dropped": (), "optional": (), "fills": (), "aliases": ()}
        since["own_units"] = False
        known = {f.name: (since | dict(plain))[f.name] for f in fields(cls)}
        columns, classes = known["columns"], known["classes"]
        known["columns"] = None if columns is None else tuple(Column(**c) for c in columns)
        known["classes"] = None if classes is None else tuple(classes)
        for name in ("dropped", "sites", "means", "interactions", "optional", "fills"):
            known[name] = tuple(known[name])
        known["aliases"] = tuple((str(one), str(other)) for one, other in known["aliases"])
        known["names"] = ()
        if plain["names"]:
            lines = arrays["names"].tobytes().decode().split("\n")
            known["names"] = tuple(
                re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], line) for line in lines
            )
        if len(known["names"]) != plain["names"]:
            raise DataError(f"encoding: found {len(known['names'])} names, not {plain['names']}")
        from ddol.streams.coding.stumps import Stumps

        parts = {name: arrays[name] for name in Stumps.__dataclass_fields__ if name in arrays}
        known["stumps"] = Stumps(**parts) if parts else None
        found = cls(**known)
        check_encoding(found)
        return found


# --- an encoding that came from a file: what it says is used as it stands -------------------------


def check_encoding(encoding: Encoding) -> None:
    """Refuse fields of a wrong type or range, and stumps on columns that do not exist."""
    for name, (right, expected) in _rules().items():
        value = getattr(encoding, name)
        if not right(value):
            raise DataError(f"encoding: found {_short(value)} for `{name}`, expected {expected}")
    columns = [column.name for column in encoding.columns or ()]
    if len(set(columns)) < len(columns):
        raise DataError("encoding: found a column twice, expected names that differ")
    if encoding.stumps is not None:
        _check_stumps(encoding)


def _rules() -> dict[str, tuple[Callable[[Any], bool], str]]:
    text_or_none = lambda v: v is None or isinstance(v, str)  # noqa: E731
    texts = lambda v: all(isinstance(each, str) for each in v)  # noqa: E731
    flag = lambda v: isinstance(v, bool)  # noqa: E731
    return {
        "columns": (_are_columns, "names, each of a number, a text or a date"),
        "n_features": (lambda v: v is None or _whole(v, 0, _MOST_COLUMNS), "a number of columns"),
        "label": (text_or_none, "a name"),
        "weight": (text_or_none, "a name"),
        "dropped": (texts, "names"),
        "classes": (lambda v: v is None or _are_classes(v), "labels in rising order"),
        "numbered": (flag, "true or false"),
        "sites": (texts, "names"),
        "intercept": (flag, "true or false"),
        "bits": (lambda v: v is None or _whole(v, 1, _MOST_BITS), f"1 to {_MOST_BITS}"),
        "missing": (lambda v: v in ("error", "zero", "mean"), "error, zero or mean"),
        "means": (lambda v: all(isinstance(m, int | float) for m in v), "numbers"),
        "interactions": (texts, "names"),
        "optional": (texts, "names"),
        "fills": (lambda v: all(isinstance(m, int | float) for m in v), "numbers"),
        "own_units": (flag, "true or false"),
        "names": (texts, "names"),
    }


def _are_columns(columns: Any) -> bool:
    each = columns or ()
    return all(isinstance(c.name, str) and c.kind in (NUMBER, TEXT, DATE) for c in each)


def _are_classes(classes: Any) -> bool:
    texts = all(isinstance(c, str) for c in classes)
    numbers = all(isinstance(c, int | float) and math.isfinite(c) for c in classes)
    rising = all(a < b for a, b in pairwise(classes)) if texts or numbers else False
    return len(classes) >= 1 and rising


def _check_stumps(encoding: Encoding) -> None:
    stumps, known = encoding.stumps, encoding.n_inputs
    assert stumps is not None
    kinds = {"features": np.int64, "thresholds": np.float64, "signs": np.float64}
    for name, kind in kinds.items():
        array = getattr(stumps, name)
        if array.dtype != kind or array.shape != (len(stumps),) or not len(stumps):
            raise DataError(
                f"encoding: found {array.dtype} {array.shape} for `{name}` of the experts, expected "
                f"{kind.__name__} ({len(stumps)},)"
            )
    most = math.inf if known is None else known + encoding.intercept
    if stumps.features.min() < 0 or stumps.features.max() >= most:
        raise DataError(f"encoding: found experts on columns outside of 0 to {most - 1}")
    if not np.all(np.abs(stumps.signs) == 1.0) or np.isnan(stumps.thresholds).any():
        raise DataError("encoding: found experts without a sign or a threshold")


def _whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}…"
