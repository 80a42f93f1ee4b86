"""Which column of a table is the label, which the weight, and which are features."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ddol.streams.errors import DataError

LABEL_NAMES = ("label", "y", "target")


@dataclass(frozen=True)
class Columns:
    """The parts of a table, by column number.

    Parameters
    ----------
    names
        Names of all columns.
    label
        Number of the label's column.
    weight
        Number of the weight's column, or None.
    dropped
        Numbers of columns to leave out.
    """

    names: tuple[str, ...]
    label: int
    weight: int | None = None
    dropped: tuple[int, ...] = ()

    @property
    def features(self) -> list[int]:
        """Numbers of the other columns, in order."""
        taken = (self.label, self.weight, *self.dropped)
        return [number for number in range(len(self.names)) if number not in taken]


def choose_columns(
    names: Sequence[str],
    label: str | int | None = None,
    weight: str | int | None = None,
    where: str = "table",
    drop: Sequence[str] = (),
) -> Columns:
    """Find the label and the weight among named columns.

    Parameters
    ----------
    names
        Names of all columns.
    label
        Name, or number from 0 (from the end when negative). By default the column named
        ``label``, ``y`` or ``target`` in any case, otherwise the first that is not dropped.
    weight
        Name or number; by default there is none.
    where
        What messages call the table.
    drop
        Names of columns to leave out.

    Examples
    --------
    >>> choose_columns(["height", "Label", "age"]).label
    1
    >>> choose_columns(["height", "age"], label=-1).features
    [0]
    """
    if label is None:
        lower = [name.lower() if name not in drop else None for name in names]
        first = next((k for k, name in enumerate(lower) if name is not None), 0)
        label = next((lower.index(name) for name in LABEL_NAMES if name in lower), first)
    chosen = Columns(
        tuple(names),
        _number(names, label, "label", where),
        None if weight is None else _number(names, weight, "weight", where),
        tuple(k for k, name in enumerate(names) if name in drop),
    )
    if not chosen.features:
        raise DataError(
            f"{where}: found {len(names)} column(s), expected a label and at least one feature; "
            "check the delimiter"
        )
    return chosen


def _number(names: Sequence[str], column: str | int, role: str, where: str) -> int:
    if isinstance(column, str) and column in names:
        return list(names).index(column)
    if isinstance(column, str) and column.lstrip("-").isdigit():
        column = int(column)
    if isinstance(column, int) and -len(names) <= column < len(names):
        return column % len(names)
    raise DataError(
        f"{where}: found no {role} column {column!r}, expected {one_of(names, str(column))} or a number "
        f"from 0 to {len(names) - 1}; name another column"
    )


def one_of(names: Iterable[str], meant: str) -> str:
    """Some names for a message, those first that are like the one that was meant.

    Examples
    --------
    >>> one_of("abcdefghij", "k"), one_of(["age", "town"], "towm")
    ('one of a, b, c, d, e, f, g, h, …', "'town'")
    """
    import difflib  # for a message only

    known = list(names)
    near = difflib.get_close_matches(meant, known, 1)
    return (
        repr(near[0]) if near else f"one of {', '.join(known[:8])}{', …' if len(known) > 8 else ''}"
    )
