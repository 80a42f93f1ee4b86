"""Rows of one node: dictionaries, arrays and lines of Vowpal Wabbit become values and rising columns."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ddol.node.errors import NodeError, check_text
from ddol.streams.coding.encoding import DATE, NUMBER, TEXT
from ddol.streams.coding.hashing import name_keys, slots
from ddol.streams.coding.names import MOST_NAMES, MOST_REMEMBERED
from ddol.streams.rows import LARGEST

_MOST_LAYOUTS, _MOST_PLACES = 1 << 12, 1 << 20


class LiveRow(NamedTuple):
    """A row: all values where `columns` is None, else those of rising columns; column 0 is the constant 1."""

    values: np.ndarray
    columns: np.ndarray | None


class _RowLayout(NamedTuple):
    """Where values of some names go: in which order, with which signs, and where equal columns begin."""

    columns: np.ndarray
    order: np.ndarray
    signs: np.ndarray | None
    starts: np.ndarray | None


class Features:
    """Which column each feature of a node has: by number (arrays), by name, or hashed.

    The first example decides between arrays and names, unless `hash_bits` or `n_features` does.

    Parameters
    ----------
    hash_bits : int, optional
        Hash names to 2^bits columns; by default every new name gets the next column.
    n_features : int, optional
        Values of an array, where they are known beforehand.
    columns : sequence of str, optional
        All features by name, such as ``age`` or ``country=fr``; others are left out.

    Examples
    --------
    >>> features = Features()
    >>> row = features.row({"price": 3.5, "country": "fr"})
    >>> row.values.tolist(), row.columns.tolist(), features.names
    ([1.0, 3.5, 1.0], [0, 1, 2], ['price', 'country=fr'])
    """

    def __init__(
        self,
        hash_bits: int | None = None,
        n_features: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        self.bits, self.n_values = hash_bits, n_features
        self.named: bool | None = True if hash_bits is not None else None
        if n_features is not None:
            self.named = False
        self.names: list[str] = []
        self.kinds: dict[str, str] = {}
        self.with_kinds: list[str] = []
        """Names of columns whose kinds are known, in the order in which they came."""
        self.dates: list[str] = []
        """Columns of dates, which the model has that the node began with."""
        self._place: dict[Hashable, int] = {}
        """Column of every name, negative where its sign is; 0 for a name that has none."""
        self._known: set[str] = set()
        self._layouts: dict[tuple, _RowLayout] = {}
        self.fixed = False
        if columns is not None:
            self._fix(columns)

    def _fix(self, columns: Sequence[str]) -> None:
        """Take these columns, and no others from now on."""
        texts = not isinstance(columns, str) and all(isinstance(name, str) for name in columns)
        if not texts or not columns or self.bits is not None or self.n_values is not None:
            raise NodeError(
                f"`columns`: found {_short(columns)}, expected names of features, without `hash_bits` and "
                "`n_features`"
            )
        self.learn_names(columns)
        self.fixed = True

    @property
    def dense(self) -> bool:
        """Whether rows have all columns."""
        return self.named is False

    @property
    def width(self) -> int:
        """Columns of the state, with the constant: room for names doubles when it is full."""
        if self.dense:
            return 1 + (self.n_values or 0)
        if self.bits is not None:
            return 1 + (1 << self.bits)
        return 1 << max(5, len(self.names).bit_length())

    def row(self, x: Any) -> LiveRow:
        """One example as values and columns; names that are new get columns."""
        if isinstance(x, dict):
            return self._of_names(x)
        if isinstance(x, str):
            return self._of_names(features_of_line(x))
        if isinstance(x, Mapping):
            return self._of_names(dict(x))
        shape = getattr(x, "shape", None)
        if isinstance(shape, tuple) and len(shape) == 2:
            several = "a frame" if hasattr(x, "to_dict") else "an array"
            raise NodeError(
                f"found {several} of shape {shape}, expected one row of numbers, or features by name; "
                "predict_many and learn_many take several"
            )
        if hasattr(x, "to_dict"):  # a row of a frame
            return self._of_names(x.to_dict())
        return self._of_array(x)

    # --- arrays -------------------------------------------------------------------------------------

    def _of_array(self, x: Any) -> LiveRow:
        try:
            given = np.asarray(x, np.float64)
        except (TypeError, ValueError):
            raise NodeError(f"found {_short(x)}, expected numbers, or features by name") from None
        if given.ndim != 1 or not len(given):
            raise NodeError(f"found an array of shape {given.shape}, expected one row of numbers")
        if self.named or len(given) != (self.n_values or len(given)):
            expected = "features by name" if self.named else f"{self.n_values} numbers"
            raise NodeError(f"found an array of {len(given)} numbers, expected {expected}")
        values = np.empty(1 + len(given))
        values[0], values[1:] = 1.0, given
        if not math.hypot(*given.tolist()) < LARGEST:
            for place, value in enumerate(given.tolist(), 1):
                _plain_value(place, value)
            raise NodeError("the values of a row are too large together, expected smaller ones")
        if self.named is None:
            self.named, self.n_values = False, len(given)
        return LiveRow(values, None)

    # --- names --------------------------------------------------------------------------------------

    def _of_names(self, x: dict) -> LiveRow:
        if self.named is False:
            raise NodeError(f"found features by name, expected an array of {self.n_values} numbers")
        if self.dates:
            x = self._with_dates(x)
        texts = tuple([v for v in x.values() if type(v) is str])
        values = _numbers(x.values(), bool(texts))
        if values is None:  # text of NumPy, exact decimals, or an error
            x = {name: _plain_value(name, value) for name, value in x.items()}
            texts = tuple([v for v in x.values() if type(v) is str])
            values = _numbers(x.values(), bool(texts))
        if values is None:
            raise NodeError("the values of a row are too large together, expected smaller ones")
        key = (tuple(x), texts)
        known = self._layouts.get(key)
        if known is None:
            known = self._lay_out(x, key)
        values = values[known.order]
        if known.signs is not None:
            values *= known.signs
        if known.starts is not None:
            values = np.add.reduceat(values, known.starts)
        return LiveRow(values, known.columns)

    def _with_dates(self, x: dict) -> dict:
        from ddol.streams.coding.dates import split_example

        try:
            return split_example(x, self.dates)
        except ValueError as error:
            raise NodeError(str(error)) from None

    def _lay_out(self, x: dict, key: tuple) -> _RowLayout:
        """Columns of these names, rising, and in which order and with which signs their values go there."""
        self.named = True
        keys = [(n, v) if type(v) is str else n for n, v in x.items()] if key[1] else x
        found = [*map(self._place.get, keys)]
        if None in found:
            pairs = zip(x.items(), found, strict=True)
            self._give_places([item for item, known in pairs if known is None])
            found = [*map(self._place.get, keys)]
        given = np.array([0, *found], np.int64)
        places = np.abs(given)
        order = places.argsort(kind="stable")
        signs = starts = None
        if self.bits is not None:
            signs = np.where(given < 0, -1.0, 1.0)[order]
        elif 0 in found:  # there are too many names for some
            order = np.concatenate([[0], order[places[order] > 0]])
        columns = places[order].astype(np.uint32)
        fresh = columns[1:] != columns[:-1]
        if not fresh.all():  # names that fall together add up
            starts = np.flatnonzero(np.concatenate([[True], fresh]))
            columns = columns[starts]
        if len(self._layouts) >= _MOST_LAYOUTS:
            self._layouts.clear()
        laid = self._layouts[key] = _RowLayout(columns, order, signs, starts)
        return laid

    def _give_places(self, new: Sequence[tuple[Any, Any]]) -> None:
        names = [_shown(n, v) for n, v in new]
        for name in names:
            check_text(name, "feature")
        kinds = {str(n): TEXT if type(v) is str else NUMBER for n, v in new}
        if not kinds.items() <= self.kinds.items():
            self._learn_kinds(kinds)
        if self.bits is None:
            for (n, v), name in zip(new, names, strict=True):
                self._place[_key(n, v)] = self._column(name)
            return
        if len(self._place) > _MOST_PLACES:
            self._place.clear()
            self._layouts.clear()
        places, signs = slots(name_keys(names), self.bits)
        signed = ((places + 1) * signs.astype(np.int64)).tolist()
        for (n, v), place in zip(new, signed, strict=True):
            self._place[_key(n, v)] = place
        if len(self.names) < MOST_REMEMBERED:
            for name in names:
                self._remember(name)

    def _column(self, name: str) -> int:
        found = self._place.get(name)
        if found is not None and name in self._known:
            return found
        if self.fixed or len(self.names) >= MOST_NAMES:
            return 0
        self._remember(name)
        self._place[name] = len(self.names)
        return len(self.names)

    def _remember(self, name: str) -> None:
        if name not in self._known:
            self._known.add(name)
            self.names.append(name)

    def _learn_kinds(self, kinds: Mapping[str, str]) -> None:
        """Remember whether features are numbers or text; all are checked first."""
        if self.fixed:
            return  # kinds of what is left out are not told
        for name, kind in kinds.items():
            before = self.kinds.get(name, kind)
            if before != kind:
                raise NodeError(
                    f"feature {name!r}: found a {kind}, expected a {before} as in the examples before"
                )
        for name, kind in kinds.items():
            if name not in self.kinds and len(self.kinds) < MOST_REMEMBERED:
                self.kinds[name] = kind
                self.with_kinds.append(name)
                if kind == DATE:
                    self.dates.append(name)

    def check_row(self, row: LiveRow) -> None:
        """Refuse a row of a journal that cannot be one of this node: compiled loops trust columns."""
        values, columns = row
        dense = columns is None
        right = dense == self.dense and np.isfinite(values).all()
        if right and columns is None:
            right = len(values) == self.width
        elif right and columns is not None:
            right = len(columns) > 0 and int(columns.max()) < self.width
        if not right:
            raise NodeError("found a row of other columns than this node has")

    # --- what others bring --------------------------------------------------------------------------

    def learn_names(
        self, names: Iterable[str], kinds: Mapping[str, str] | None = None
    ) -> np.ndarray:
        """Columns of names that come from elsewhere, 0 where there are too many."""
        self._learn_kinds(kinds or {})
        self.named = True
        if self.bits is not None:
            for name in names:
                self._remember(name)
            return np.empty(0, np.int64)
        return np.array([self._column(name) for name in names], np.int64)


def _key(name: Any, value: Any) -> Hashable:
    return (name, value) if type(value) is str else name


def _shown(name: Any, value: Any) -> str:
    return f"{name}={value}" if type(value) is str else str(name)


def _numbers(given: Iterable[Any], texts: bool) -> np.ndarray | None:
    """The constant 1 and these values, text as 1; None where one is no number, or too large."""
    values = [1.0, *given]
    if texts:
        values = [1.0 if type(v) is str else v for v in values]
    try:
        if not math.hypot(*values) < LARGEST:
            return None
    except (TypeError, ValueError, OverflowError):
        return None
    return np.array(values, np.float64)


def _plain_value(name: Any, value: Any) -> str | float:
    """A value as text or a number; an error where it is neither, or too large."""
    if isinstance(value, str):
        return str(value)
    try:
        number = math.nan if isinstance(value, bytes | bytearray) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not abs(number) < LARGEST:
        raise NodeError(
            f"feature {name!r}: found {_short(value)}, expected a finite number below {LARGEST:.0g} or "
            "text; leave it out"
        )
    return number


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}…"


def features_of_line(line: str) -> dict[str, float]:
    """Features of a line of Vowpal Wabbit's text; what stands before the first bar is not looked at.

    Examples
    --------
    >>> features_of_line("1 |words red blue:2 |size:10 width:3")
    {'words^red': 1.0, 'words^blue': 2.0, 'size^width': 30.0}
    """
    _, bar, rest = line.partition("|")
    if not bar:
        raise NodeError(f"found {_short(line)}, expected a line 'label |space name:value …'")
    found: dict[str, float] = {}
    for space in rest.split("|"):
        words = space.split()
        prefix, weight = "", 1.0
        if words and not space[:1].isspace():
            prefix, weight = _number_behind(words.pop(0), line)
        for word in words:
            name, value = _number_behind(word, line)
            name = f"{prefix}^{name}" if prefix else name
            found[name] = found.get(name, 0.0) + weight * value
    return found


def _number_behind(word: str, line: str) -> tuple[str, float]:
    name, colon, number = word.partition(":")
    try:
        return name, float(number) if colon else 1.0
    except ValueError:
        raise NodeError(f"found {_short(word)} in {_short(line)}, expected name:number") from None


def rows_of(examples: Any) -> list[Any]:
    """The rows of a list, a frame or a matrix."""
    if hasattr(examples, "to_dicts"):
        return list(examples.to_dicts())
    if hasattr(examples, "to_dict"):
        return list(examples.to_dict("records"))
    return list(examples)
