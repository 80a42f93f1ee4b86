"""Files of earlier formats, read as what this version would have written.

A reader exists for every format of the major version: `READERS` lifts a file by one format at a time. Since
format 5 files name the fields of the states that they hold, so that a state finds its place in a layout
which has gained, lost or moved fields since.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ddol.storage import FORMAT
from ddol.streams.errors import DataError
from ddol.update.layout import Layout

Names = Mapping[str, Sequence[str]]
"""Names of the rows and of the scalars of a layout."""
Arrays = dict[str, np.ndarray]


def field_names(layout: Layout) -> dict[str, list[str]]:
    """Names of the fields of a layout, for the header of a file.

    Examples
    --------
    >>> field_names(Layout(rows=("w",), scalars=("seen",)))
    {'rows': ['w'], 'scalars': ['seen']}
    """
    return {
        "rows": [field.name for field in layout.row_fields],
        "scalars": [field.name for field in layout.scalar_fields],
    }


def lifted(kind: str, arrays: Arrays, header: dict[str, Any]) -> tuple[Arrays, dict[str, Any]]:
    """A file of an earlier format, as a file of this one.

    Parameters
    ----------
    kind : "model" or "checkpoint"
    arrays, header : as `ddol.storage.read_arrays` gives them
    """
    for number in range(int(header["format"]), FORMAT):
        if number in READERS:
            arrays, header = READERS[number](kind, arrays, header)
    return arrays, header


def in_place(
    layout: Layout, names: Names, theta: np.ndarray, scalars: np.ndarray, where: str | Path
) -> tuple[np.ndarray, np.ndarray]:
    """A state whose fields have these names, in the order of a layout; others are at their start.

    Parameters
    ----------
    layout : Layout
        Of the present update.
    names : dict
        Names of the fields that the file has; none where it has what the layout says.
    theta : (…, rows, D)
    scalars : (…, scalars)
    where : str or Path
        For messages.

    Examples
    --------
    >>> layout = Layout(rows=("noise", "w"))
    >>> in_place(layout, {"rows": ["w"], "scalars": []}, np.ones((1, 2)), np.empty(0), "m.ddol")[0]
    array([[0., 0.],
           [1., 1.]])
    """
    if not names or field_names(layout) == {name: list(own) for name, own in names.items()}:
        return theta, scalars
    sizes = (theta.shape[-2], scalars.shape[-1])
    if sizes != (len(names["rows"]), len(names["scalars"])):
        raise DataError(
            f"{where}: found {sizes[0]} rows and {sizes[1]} scalars, expected {len(names['rows'])} and "
            f"{len(names['scalars'])} as the file names them"
        )
    if not set(names["rows"]) & {field.name for field in layout.row_fields}:
        raise DataError(
            f"{where}: found a state of another algorithm, whose rows are {', '.join(names['rows'][:5])}"
        )
    rows = np.empty((*theta.shape[:-2], len(layout.row_fields), theta.shape[-1]))
    for k, field in enumerate(layout.row_fields):
        there = field.name in names["rows"]
        rows[..., k, :] = theta[..., names["rows"].index(field.name), :] if there else field.start
    numbers = np.empty((*scalars.shape[:-1], len(layout.scalar_fields)))
    for k, field in enumerate(layout.scalar_fields):
        there = field.name in names["scalars"]
        numbers[..., k] = scalars[..., names["scalars"].index(field.name)] if there else field.start
    return rows, numbers


# --- format 4: states without names ---------------------------------------------------------------

_ROWS = (
    "filled", "sum", "squares", "reference", "centre", "inverse", "limit", "next", "before", "size",
    "centred", "due", "mark", "absent",
)  # fmt: skip
_SCALARS = (
    "sampled", "seen", "heard", "answers", "variation", *(f"own {k}" for k in range(6)), "n_centred", "stale",
    "n_due", "weight", "time", "look", "reach", "samples", "clock", "sizes", "sized", "usual",
    *(f"note {k}" for k in range(3)),
)  # fmt: skip
_OWN_ROWS = {
    "adaptive": ("u", "root", "rate", "move"),
    "coin": ("theta", "sizes", "reward", "now"),
    "newton": ("u", "now", "solved"),
    "sketch": ("u", "power", "root", "free", "now", "known", "scaled", "move"),
}


def _names_of_four(preset: str, shape: tuple[int, int]) -> dict[str, list[str]]:
    """Names of the fields that format 4 had, of a state with so many rows and scalars."""
    rows, scalars = shape[0] - len(_ROWS), shape[1] - len(_SCALARS)
    if preset == "newton" and scalars > 0:
        preset = "sketch"
    if preset not in _OWN_ROWS:
        return {}
    parts = {"newton": ("factor", "matrix"), "sketch": ("basis", "sketch")}.get(preset, ())
    each = (rows - len(_OWN_ROWS[preset])) // 2
    more = [f"{part} {k}" for part in parts for k in range(each)]
    along = [f"along {k}" for k in range(scalars)]
    return {
        "rows": [*_ROWS, *_OWN_ROWS[preset], *more],
        "scalars": [*_SCALARS, *along],
    }


def _from_four(kind: str, arrays: Arrays, header: dict[str, Any]) -> tuple[Arrays, dict[str, Any]]:
    """Say which fields a state has."""
    recipe, run = header.get("recipe") or {}, header.get("run") or {}
    preset = recipe.get("made", {}).get("preset") or run.get("--algorithm") or ""
    parts = ("theta", "scalars") if kind == "model" else ("state.theta", "state.scalars")
    found = [arrays.get(name) for name in parts]
    names: dict[str, list[str]] = {}
    if all(array is not None and array.ndim > 2 for array in found):
        rows, scalars = found
        assert rows is not None and scalars is not None
        names = _names_of_four(str(preset).replace("-", "_"), (rows.shape[-2], scalars.shape[-1]))
    return arrays, {**header, "layout": names}


READERS: dict[int, Callable[[str, Arrays, dict[str, Any]], tuple[Arrays, dict[str, Any]]]] = {
    4: _from_four
}
"""What lifts a file of each earlier format to the next one."""
