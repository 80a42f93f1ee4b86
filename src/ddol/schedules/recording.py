"""Recordings of runs in files: a NumPy ``.npz`` with the arrays of `Events`.

A file is read without trusting it: no objects, no sizes that the file does not have, and every field
within its range. The archive's comment has a checksum of the arrays and, where it is known, what tells the
data of the run from others and where gradients were taken; a file written by another program need
not have these.
"""

from __future__ import annotations

import hashlib
import lzma
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np

from ddol.schedules.events import FIELDS, GRADIENT, Events
from ddol.storage import at_hand, naming, written_beside
from ddol.streams.errors import DataError
from ddol.streams.store.room import check_room
from ddol.update.contract import ARRIVAL, KEPT

_CHECKSUM = b"ddol "
_GRADIENT, _AGENTS, _LIARS = "gradient=", "agents=", "liars="
_MOST_PRESSED = 1100
"""No archive gives more bytes than this for one of its own."""

_NO_ARCHIVE = (
    zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError,
    NotImplementedError, RuntimeError, UnicodeError, OverflowError,
)  # fmt: skip
"""Errors of Python's reader for a damaged archive."""


def save_events(path: str | Path, events: Events, data: str = "") -> None:
    """Write a list of events, whole or not at all.

    Parameters
    ----------
    path : path
    events : Events
    data : str, optional
        One word that other data do not have, ``agents=N``, and ``liars=…``; see `recorded_data`.

    Examples
    --------
    >>> import tempfile
    >>> from ddol.schedules.events import predict
    >>> path = Path(tempfile.mkdtemp(), "run.npz")
    >>> save_events(path, Events.of([predict(0, 3)]))
    >>> load_events(path)[0].row
    3
    """
    arrays = {name: getattr(events, name) for name in FIELDS}
    with (
        naming(path),
        written_beside(path) as beside,
        beside.open("wb") as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        words = [*data.split(), *([_GRADIENT + events.gradient] if events.gradient else [])]
        archive.comment = b" ".join([_CHECKSUM + _checksum(arrays), *(w.encode() for w in words)])
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _checksum(arrays: Mapping[str, np.ndarray]) -> bytes:
    found = hashlib.blake2b(digest_size=20)
    for name in FIELDS:
        found.update(f"{name} {len(arrays[name])} ".encode())
        found.update(np.ascontiguousarray(arrays[name]).data)
    return found.hexdigest().encode()


def load_events(path: str | Path) -> Events:
    """Read a list of events, or say in one line what is wrong with the file."""
    with at_hand(path) as place, Path(place).open("rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                headers = {name: _header(path, archive, name) for name in FIELDS}
                _check_headers(path, headers)
                sizes = [size for _, _, size in headers.values()]
                check_room(str(path), sum(sizes), "record a shorter run")
                arrays = {name: _array(path, archive, name) for name in FIELDS}
                comment = archive.comment
        except DataError:
            raise
        except (*_NO_ARCHIVE, OSError, ValueError) as error:
            raise DataError(
                f"{path}: not a recording, a whole .npz file is expected ({_line(error)})"
            ) from None
    if comment.startswith(_CHECKSUM) and comment.split()[1:2] != [_checksum(arrays)]:
        raise DataError(
            f"{path}: found a recording that has changed since it was written (its checksum differs); "
            "it is damaged, record the run again"
        )
    events = Events(**arrays, gradient=_said(comment, _GRADIENT))
    if events.gradient not in ("", KEPT, ARRIVAL):
        raise DataError(
            f"{path}: found gradients taken {events.gradient!r}, expected {KEPT} or {ARRIVAL}"
        )
    _check_ranges(path, events)
    return events


def recorded_data(path: str | Path) -> tuple[str, str]:
    """The mark of the data of a recording, and its agents; empty where there are none, or no recording.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "run.npz")
    >>> save_events(path, Events.of([]), "a1b2 agents=3")
    >>> recorded_data(path), len(load_events(path))
    (('a1b2', '3'), 0)
    """
    try:
        with at_hand(path) as place, zipfile.ZipFile(place) as archive:
            comment = archive.comment
    except (*_NO_ARCHIVE, OSError, ValueError):
        return "", ""
    words = comment.split()
    told = words[2:3] if words[:1] == [b"ddol"] else []
    mark = "".join(w.decode("ascii", "replace") for w in told if b"=" not in w)
    return mark, _said(comment, _AGENTS)


def recorded_liars(path: str | Path) -> str:
    """Which agents lied in a recording and how, such as ``0:flip``; empty where none did."""
    try:
        with at_hand(path) as place, zipfile.ZipFile(place) as archive:
            return _said(archive.comment, _LIARS)
    except (*_NO_ARCHIVE, OSError, ValueError):
        return ""


def _said(comment: bytes, what: str) -> str:
    """An entry of a recording's comment; empty where there is none."""
    words = comment.decode("ascii", "replace").split() if comment.startswith(_CHECKSUM) else []
    return "".join(word.removeprefix(what) for word in words if word.startswith(what))


def _header(
    path: str | Path, archive: zipfile.ZipFile, name: str
) -> tuple[tuple[int, ...], Any, int]:
    """Shape and type that an array says it has, and the bytes that it takes in the archive."""
    try:
        entry = archive.getinfo(f"{name}.npy")
    except KeyError:
        found = ", ".join(sorted(Path(n).stem for n in archive.namelist())[:8]) or "nothing"
        raise DataError(
            f"{path}: a recording has the arrays {', '.join(FIELDS)}; `{name}` is missing, found {found}"
        ) from None
    if entry.file_size > _MOST_PRESSED * entry.compress_size + 1000:
        raise DataError(f"{path}: `{name}` says it has {entry.file_size} bytes, the file has fewer")
    with archive.open(entry) as file:
        try:
            version = np.lib.format.read_magic(file)
            read = {(1, 0): np.lib.format.read_array_header_1_0}.get(
                version, np.lib.format.read_array_header_2_0
            )
            shape, _, kind = read(file)
        except (ValueError, SyntaxError, TypeError, TokenError) as error:
            raise DataError(f"{path}: `{name}` is not an array ({_line(error)})") from None
        return shape, kind, entry.file_size - file.tell()


def _check_headers(
    path: str | Path, headers: Mapping[str, tuple[tuple[int, ...], Any, int]]
) -> None:
    for name, (shape, kind, size) in headers.items():
        expected = FIELDS[name]
        if kind != expected or len(shape) != 1:
            raise DataError(
                f"{path}: `{name}` is {kind} with shape {shape}, expected {expected} with one axis"
            )
        if size != shape[0] * expected.itemsize:
            raise DataError(
                f"{path}: `{name}` says it has {shape[0]} numbers, the file has {size} bytes of it; "
                "it is cut or damaged"
            )
    lengths = {name: shape[0] for name, (shape, _, _) in headers.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} {n}" for name, n in lengths.items())
        raise DataError(f"{path}: the arrays of a recording are equally long, found {shown}")


def _array(path: str | Path, archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(f"{name}.npy") as file:
        try:
            return np.lib.format.read_array(file, allow_pickle=False)
        except (ValueError, SyntaxError, TypeError, TokenError) as error:
            raise DataError(f"{path}: `{name}` cannot be read ({_line(error)})") from None


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _check_ranges(path: str | Path, events: Events) -> None:
    rules = {
        "kind": ((events.kind < 0) | (events.kind > GRADIENT), f"0 to {GRADIENT}"),
        "agent": (events.agent < 0, "an agent, from 0"),
        "peer": (events.peer < -1, "an agent, or -1 for none"),
        "row": (events.row < -1, "a row or a place, or -1 for none"),
        "time": (~(np.isfinite(events.time) & (events.time >= 0)), "a finite time, from 0"),
    }
    for name, (wrong, expected) in rules.items():
        places = np.flatnonzero(wrong)
        if len(places):
            value = getattr(events, name)[places[0]]
            raise DataError(
                f"{path}: `{name}` of event {places[0]} is {value}, expected {expected}"
            )
