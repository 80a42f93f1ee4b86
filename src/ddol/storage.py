"""Arrays and a JSON header in one safetensors file, written whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ddol.streams.errors import DataError

FORMAT = 1
"""Version of the layout; a reader refuses files of a later one."""

_HEADER = "ddol"
_KINDS = {"<f8": "F64", "<i8": "I64", "<u4": "U32", "|u1": "U8"}


@contextlib.contextmanager
def written_beside(path: str | Path) -> Iterator[Path]:
    """Give a name beside ``path`` to write to; it takes the place of ``path`` only when all is well.

    The file is on the disk before it is renamed, so that a crash leaves the old file or the new one,
    never half of one.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "out.txt")
    >>> with written_beside(path) as beside:
    ...     _ = beside.write_text("done")
    >>> path.read_text(), beside.exists()
    ('done', False)
    """
    target = Path(path)
    if target.exists() and not target.is_file():
        yield target  # a device or a pipe cannot be renamed over
        return
    beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        yield beside
        _flush_to_disk(beside)
        beside.replace(target)
        _flush_to_disk(target.parent)
    finally:
        beside.unlink(missing_ok=True)


def write_arrays(
    path: str | Path, kind: str, arrays: Mapping[str, np.ndarray], header: Mapping[str, Any]
) -> None:
    """Write arrays and a header of plain values; see `read_arrays`.

    Parameters
    ----------
    path : file name
    kind : "model" or "checkpoint"
    arrays : by name
    header : values that JSON can hold
    """
    whole = {"format": FORMAT, "kind": kind, **header}
    try:
        with written_beside(path) as beside, beside.open("wb") as file:
            _write(file, arrays, {_HEADER: json.dumps(whole)})
    except OSError as error:
        raise OSError(f"{path}: cannot write the {kind} ({_reason(error)})") from error


def _write(file: BinaryIO, arrays: Mapping[str, np.ndarray], metadata: dict[str, str]) -> None:
    """The safetensors layout: length of the header, header, arrays.

    The package's own writer makes a temporary file of its own, which a kill would leave behind.
    """
    header: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name, array in arrays.items():
        places = [end, end := end + array.nbytes]
        kind = _KINDS[array.dtype.str]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": places}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # so that arrays begin at a multiple of 8
    file.write(len(text).to_bytes(8, "little") + text)
    for array in arrays.values():
        file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def read_arrays(path: str | Path, kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read what `write_arrays` wrote.

    Sizes are checked against the size of the file before memory is taken, and nothing in the file is
    executed. Whatever is wrong with it is a `DataError` of one line.
    """
    from safetensors import SafetensorError, safe_open

    place = Path(path)
    if not place.is_file():
        found = "a directory" if place.is_dir() else "no such file"
        raise DataError(f"{path}: {found}, expected a {kind} that ddol wrote; check the name")
    try:
        with safe_open(place, framework="numpy") as file:
            header = _checked_header(place, kind, file.metadata())
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, TypeError) as error:
        raise DataError(
            f"{path}: not a whole {kind} file ({_reason(error)}), expected one that ddol wrote; "
            "it is damaged or something else, write it again"
        ) from None
    return arrays, header


def _checked_header(path: Path, kind: str, metadata: Mapping[str, str] | None) -> dict[str, Any]:
    with damaged(path, kind):
        header = json.loads((metadata or {})[_HEADER])
        found, written = int(header["format"]), str(header["kind"])
    if found > FORMAT:
        raise DataError(
            f"{path}: found format {found} of ddol {header.get('version', '?')}, expected at most "
            f"format {FORMAT}; upgrade ddol to read it"
        )
    if written != kind:
        raise DataError(f"{path}: found a {written}, expected a {kind}; name another file")
    return header


@contextlib.contextmanager
def damaged(path: str | Path, kind: str) -> Iterator[None]:
    """Turn what a header of the wrong shape causes into one `DataError`."""
    try:
        yield
    except DataError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise DataError(
            f"{path}: found a header that is not that of a {kind} ({type(error).__name__}: "
            f"{error}), expected one that ddol wrote; write the {kind} again"
        ) from None


def check_shapes(
    path: str | Path, arrays: Mapping[str, np.ndarray], expected: Mapping[str, tuple[int, ...]]
) -> None:
    """Refuse arrays that are missing or have another shape than the header says."""
    for name, shape in expected.items():
        found = arrays[name].shape if name in arrays else "nothing"
        if found != shape:
            raise DataError(
                f"{path}: found {found} for the array {name}, expected the shape {shape}; "
                "the file is damaged, write it again"
            )


def check_writable(path: str | Path) -> None:
    """Refuse an output that cannot be written, before any work is done for it.

    Examples
    --------
    >>> check_writable("/no/such/folder/model")
    Traceback (most recent call last):
    ddol.streams.errors.DataError: /no/such/folder/model: there is no folder /no/such/folder; ...
    """
    target = Path(path)
    folder = target.parent
    if target.is_dir():
        raise DataError(f"{path}: found a directory, expected a file name; add one")
    if not folder.is_dir():
        raise DataError(f"{path}: there is no folder {folder}; create it or write elsewhere")
    if target.exists() and not target.is_file():
        return
    probe = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({_reason(error)}); write elsewhere") from None
    if target.exists() and not os.access(target, os.W_OK):
        raise DataError(
            f"{path}: no permission to write over it; change its mode or write elsewhere"
        )


def write_text(path: str | Path, text: str) -> None:
    """Write a text file whole or not at all."""
    try:
        with written_beside(path) as beside:
            beside.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OSError(f"{path}: cannot be written ({_reason(error)})") from error


def _flush_to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:
        if path.is_file():  # some file systems cannot flush a folder
            raise
    finally:
        os.close(handle)


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split())


Warn = Callable[[str], None]
"""Called with one line about something that the user should know."""
