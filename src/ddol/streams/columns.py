"""Which column of a table is the label, which the weight, and which are features."""

from __future__ import annotations

from collections.abc import Sequence
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
    """

    names: tuple[str, ...]
    label: int
    weight: int | None = None

    @property
    def features(self) -> list[int]:
        """Numbers of the other columns, in order."""
        taken = (self.label, self.weight)
        return [number for number in range(len(self.names)) if number not in taken]


def choose_columns(
    names: Sequence[str],
    label: str | int | None = None,
    weight: str | int | None = None,
    where: str = "table",
) -> Columns:
    """Find the label and the weight among named columns.

    Parameters
    ----------
    names
        Names of all columns.
    label
        Name, or number from 0 (from the end when negative). By default the column named
        ``label``, ``y`` or ``target`` in any case, otherwise the first.
    weight
        Name or number; by default there is none.
    where
        What messages call the table.

    Examples
    --------
    >>> choose_columns(["height", "Label", "age"]).label
    1
    >>> choose_columns(["height", "age"], label=-1).features
    [0]
    """
    if label is None:
        lower = [name.lower() for name in names]
        label = next((lower.index(name) for name in LABEL_NAMES if name in lower), 0)
    chosen = Columns(
        tuple(names),
        _number(names, label, "label", where),
        None if weight is None else _number(names, weight, "weight", where),
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
    shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    raise DataError(
        f"{where}: found no {role} column {column!r}, expected one of {shown} or a number from 0 "
        f"to {len(names) - 1}; name another column"
    )
