"""What happened in a run, in a file: a NumPy ``.npz`` with the arrays of `Events`.

A file is read without trusting it: no objects, no sizes that the file does not have, and every field
within its range.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ddol.schedules.events import ADOPT, FIELDS, Events
from ddol.storage import at_hand, written_beside


def save_events(path: str | Path, events: Events) -> None:
    """Write a list of events, whole or not at all.

    Examples
    --------
    >>> import tempfile
    >>> from ddol.schedules.events import predict
    >>> path = Path(tempfile.mkdtemp(), "run.npz")
    >>> save_events(path, Events.of([predict(0, 3)]))
    >>> load_events(path)[0].row
    3
    """
    with written_beside(path) as beside, beside.open("wb") as file:
        np.savez_compressed(file, **{name: getattr(events, name) for name in FIELDS})


def load_events(path: str | Path) -> Events:
    """Read a list of events, or say in one line what is wrong with the file."""
    try:
        with at_hand(path) as place, zipfile.ZipFile(place) as archive:
            headers = {name: _header(path, archive, name) for name in FIELDS}
            _check_headers(path, headers)
            arrays = {name: _array(path, archive, name) for name in FIELDS}
    except (
        zipfile.BadZipFile,
        zipfile.LargeZipFile,
        EOFError,
        NotImplementedError,
        RuntimeError,
    ) as error:
        raise ValueError(f"{path}: not a recording, a .npz file is expected ({error})") from None
    events = Events(**arrays)
    _check_ranges(path, events)
    return events


def _header(
    path: str | Path, archive: zipfile.ZipFile, name: str
) -> tuple[tuple[int, ...], Any, int]:
    """Shape and type that an array says it has, and the bytes that it takes in the archive."""
    try:
        entry = archive.getinfo(f"{name}.npy")
    except KeyError:
        found = ", ".join(sorted(Path(n).stem for n in archive.namelist())[:8]) or "nothing"
        raise ValueError(
            f"{path}: a recording has the arrays {', '.join(FIELDS)}; `{name}` is missing, found {found}"
        ) from None
    with archive.open(entry) as file:
        try:
            version = np.lib.format.read_magic(file)
            read = {(1, 0): np.lib.format.read_array_header_1_0}.get(
                version, np.lib.format.read_array_header_2_0
            )
            shape, _, kind = read(file)
        except (ValueError, SyntaxError, TypeError) as error:
            raise ValueError(f"{path}: `{name}` is not an array ({error})") from None
        return shape, kind, entry.file_size - file.tell()


def _check_headers(
    path: str | Path, headers: Mapping[str, tuple[tuple[int, ...], Any, int]]
) -> None:
    for name, (shape, kind, size) in headers.items():
        expected = FIELDS[name]
        if kind != expected or len(shape) != 1:
            raise ValueError(
                f"{path}: `{name}` is {kind} with shape {shape}, expected {expected} with one axis"
            )
        if size != shape[0] * expected.itemsize:
            raise ValueError(
                f"{path}: `{name}` says it has {shape[0]} numbers, the file has {size} bytes of it; "
                "it is cut or damaged"
            )
    lengths = {name: shape[0] for name, (shape, _, _) in headers.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} {n}" for name, n in lengths.items())
        raise ValueError(f"{path}: the arrays of a recording are equally long, found {shown}")


def _array(path: str | Path, archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(f"{name}.npy") as file:
        try:
            return np.lib.format.read_array(file, allow_pickle=False)
        except (ValueError, zipfile.error) as error:
            raise ValueError(f"{path}: `{name}` cannot be read ({error})") from None


def _check_ranges(path: str | Path, events: Events) -> None:
    rules = {
        "kind": ((events.kind < 0) | (events.kind > ADOPT), f"0 to {ADOPT}"),
        "agent": (events.agent < 0, "an agent, from 0"),
        "peer": (events.peer < -1, "an agent, or -1 for none"),
        "row": (events.row < -1, "a row or a place, or -1 for none"),
        "time": (~(np.isfinite(events.time) & (events.time >= 0)), "a finite time, from 0"),
    }
    for name, (wrong, expected) in rules.items():
        places = np.flatnonzero(wrong)
        if len(places):
            value = getattr(events, name)[places[0]]
            raise ValueError(
                f"{path}: `{name}` of event {places[0]} is {value}, expected {expected}"
            )
