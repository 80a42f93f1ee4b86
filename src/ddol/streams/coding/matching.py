"""Tables matched with an encoding by the names of their columns."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from ddol.streams.coding.encoding import NUMBER, Encoding
from ddol.streams.coding.labels import listed
from ddol.streams.errors import DataError
from ddol.streams.raw import Table, Text, unnamed

Where: TypeAlias = Callable[[int], str]
"""Says where a row of a block stands, for messages."""


def matched(table: Table, encoding: Encoding, where: Where, tell: Callable[[str], None]) -> Table:
    """The table with its columns under the names of the encoding, or an error that names one.

    Columns without names are all that were learned from, or the features alone: others cannot be
    identified.

    Parameters
    ----------
    table
        Its columns may stand in any order, if they have names.
    encoding
        With columns.
    where
        Says where a row stands, for messages.
    tell
        Called with a line about columns that the encoding does not know.

    Examples
    --------
    >>> import numpy as np
    >>> from ddol.streams.coding.encoding import Column
    >>> table = Table({"b": np.ones(1), "a": np.zeros(1), "c": np.ones(1)})
    >>> _ = matched(table, Encoding((Column("a"),), label="b"), "row {}".format, print)
    column 'c' is not among the model's columns, and left out
    """
    wanted = [column.name for column in encoding.columns or ()]
    known = {*wanted, *encoding.others}
    if not table.named and len(table.columns) == len(wanted):
        if wanted[-1] not in unnamed(len(known)):
            tell("columns have no names here; they are taken in the order of the model's")
        return Table(dict(zip(wanted, table.columns.values(), strict=True)))
    if not table.named and len(table.columns) != len(known):
        raise DataError(
            f"{where(0)}: found {len(table.columns)} columns without names, expected the {len(known)} "
            f"that the model was trained on, or its {len(wanted)} features alone; give the file a line "
            "of names"
        )
    table = _with_optional(table, encoding)
    missing = [name for name in wanted if name not in table.columns]
    if missing:
        raise DataError(f"{where(0)}: {lost(missing[0], table, encoding.label)}")
    extra = [name for name in table.columns if name not in known]
    if extra and table.named:
        tell(f"{_columns(extra)} not among the model's columns, and left out")
    return table


def _with_optional(table: Table, encoding: Encoding) -> Table:
    """The table with columns that some sites lack: all their cells are missing."""
    kinds = encoding.kinds or {}
    absent = [name for name in encoding.optional if name in kinds and name not in table.columns]
    if not absent:
        return table
    n = len(table)
    none = {
        name: np.full(n, np.nan) if kinds[name] == NUMBER else Text(np.full(n, -1), ())
        for name in absent
    }
    return Table({**table.columns, **none}, table.named)


def lost(name: str, table: Table, label: str | None = None) -> str:
    """Message about a missing column."""
    there = list(table.columns)
    near = difflib.get_close_matches(name, [other for other in there if other != label], 1)
    hint = f"; is it {near[0]!r}?" if near else ""
    if not table.named:
        return (
            f"found {len(there)} columns without names, expected the model's, such as {name!r}; "
            "give the file a line of names"
        )
    return (
        f"found no column {name!r} among {listed(there, 8)}, expected the model's columns{hint or '; '}"
        + (" rename it" if near else "give them the names that the model was trained with")
    )


def _columns(names: Sequence[str]) -> str:
    few = ", ".join(map(repr, names[:5])) + (", …" if len(names) > 5 else "")
    return f"column {few} is" if len(names) == 1 else f"{len(names)} columns ({few}) are"
