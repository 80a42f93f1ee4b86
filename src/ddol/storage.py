"""Arrays and a JSON header in one safetensors file, written whole or not at all, with a checksum."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path, PurePath
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ddol.streams.errors import DataError
from ddol.streams.store.files import is_remote

FORMAT = 5
"""Version of the layout, and of what an update keeps in it."""
OLDEST = 4
"""Earliest format that is read; see `ddol.earlier`."""

_MOST_SAID = 200
"""Characters of a file that a message repeats."""

_HEADER, _CHECKSUM, _NO_CHECKSUM = "ddol", "checksum", 40 * "0"
_KINDS = {
    "<f8": "F64", "<i8": "I64", "<i4": "I32", "<u4": "U32", "|i1": "I8", "|u1": "U8", "|b1": "BOOL",
}  # fmt: skip


def on_disk(path: str | Path) -> Path | None:
    """Path of a name on disk; None for an address in a store.

    Examples
    --------
    >>> on_disk("file:///tmp/a"), on_disk("s3://bucket/a")
    (PosixPath('/tmp/a'), None)
    """
    text = str(path)
    if text.startswith("file://"):
        return Path(text.removeprefix("file://"))
    return None if is_remote(text) else Path(path)


@contextlib.contextmanager
def at_hand(path: str | Path) -> Iterator[Path]:
    """A file as it is on the disk, or a copy of what is at an address, for as long as it is needed."""
    place = on_disk(path)
    if place is not None:
        yield place
        return
    from ddol.streams.store.remote import fetch_remote

    with _copy_of(path) as copy:
        fetch_remote(str(path), copy)
        yield copy


@contextlib.contextmanager
def _copy_of(path: str | Path) -> Iterator[Path]:
    import tempfile  # only for what is elsewhere

    with tempfile.TemporaryDirectory(prefix="ddol-") as folder:
        yield Path(folder, PurePath(path).name)


@contextlib.contextmanager
def written_beside(path: str | Path) -> Iterator[Path]:
    """Give a name beside ``path`` to write to; it takes the place of ``path`` only when all is well.

    The file is on the disk before it is renamed, so that a crash leaves the old file or the new one,
    never half of one. What goes to an address is written to a temporary file first, and copied whole.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "out.txt")
    >>> with written_beside(path) as beside:
    ...     _ = beside.write_text("done")
    >>> path.read_text(), beside.exists()
    ('done', False)
    """
    place = on_disk(path)
    if place is None:
        from ddol.streams.store.remote import put_remote

        with _copy_of(path) as copy:
            yield copy
            put_remote(str(path), copy)
        return
    target = Path(os.path.realpath(place))  # a link stays, and what it names is written
    if target.exists() and not target.is_file():
        yield target  # a device or a pipe cannot be renamed over
        return
    beside = _beside(target)
    try:
        yield beside
        _flush_to_disk(beside)
        beside.replace(target)
        _flush_to_disk(target.parent)
    finally:
        beside.unlink(missing_ok=True)


def _beside(target: Path) -> Path:
    """A name that is unique, even across hosts that share the folder."""
    return target.with_name(f".{target.name}.{os.urandom(8).hex()}.tmp")


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
    text = json.dumps({"format": FORMAT, "kind": kind, **header})
    try:
        with written_beside(path) as beside, beside.open("wb") as file:
            _write(file, arrays, text)
    except OSError as error:
        raise OSError(f"{path}: cannot write the {kind} ({_reason(error)})") from error


def _write(file: BinaryIO, arrays: Mapping[str, np.ndarray], text: str) -> None:
    """The safetensors layout: length of the header, header, arrays.

    The package's own writer makes a temporary file of its own, which a kill would leave behind. The checksum
    takes as long as writing, and is computed meanwhile: the header, which has it, is written last.
    """
    found: list[str] = []
    sums = threading.Thread(target=lambda: found.append(_checksum(text, arrays)), daemon=True)
    sums.start()
    if not file.seekable():  # a pipe
        sums.join()
    file.write(_head(arrays, text, found[0] if found else _NO_CHECKSUM))
    for array in arrays.values():
        file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    if file.seekable():
        sums.join()
        file.seek(0)
        file.write(_head(arrays, text, found[0]))


def _head(arrays: Mapping[str, np.ndarray], text: str, checksum: str) -> bytes:
    """All that comes before the arrays, as long for any checksum."""
    header: dict[str, Any] = {"__metadata__": {_HEADER: text, _CHECKSUM: checksum}}
    end = 0
    for name, array in arrays.items():
        places = [end, end := end + array.nbytes]
        kind = _KINDS[array.dtype.str]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": places}
    written = json.dumps(header).encode()
    written += b" " * (-len(written) % 8)  # so that arrays begin at a multiple of 8
    return len(written).to_bytes(8, "little") + written


def _checksum(header: str, arrays: Mapping[str, np.ndarray]) -> str:
    """Checksum of a file's header, and of the name, type, shape and numbers of every array."""
    found = blake2b(header.encode(), digest_size=20)
    for name in sorted(arrays):
        array = arrays[name]
        found.update(f"\0{name}\0{array.dtype.str}{array.shape}\0".encode())
        found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def read_arrays(path: str | Path, kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read what `write_arrays` wrote.

    Sizes are checked against the size of the file before memory is taken, nothing in the file is
    executed, and no byte that counts may have changed since it was written. Whatever is wrong is a
    `DataError` of one line. The file's contents are not trusted by that: see `check_arrays`.
    """
    from safetensors import SafetensorError, safe_open

    here = on_disk(path)
    if here is not None and not here.is_file():
        found = "a directory" if here.is_dir() else "no such file"
        raise DataError(f"{path}: {found}, expected a {kind} that ddol wrote; check the name")
    try:
        with at_hand(path) as place, safe_open(place, framework="numpy") as file:
            metadata = file.metadata() or {}
            header = _checked_header(path, kind, metadata)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, TypeError) as error:
        raise DataError(
            f"{path}: not a whole {kind} file ({_reason(error)}), expected one that ddol wrote; "
            "it is damaged or something else, write it again"
        ) from None
    if _checksum(metadata[_HEADER], arrays) != metadata.get(_CHECKSUM):
        raise DataError(
            f"{path}: found a {kind} that has changed since it was written (its checksum differs), "
            "expected it as ddol wrote it; the file is damaged, write it again"
        )
    return arrays, header


def kind_of(path: str | Path) -> str:
    """Kind of a file by its header, such as "model"; empty if it has none.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "w")
    >>> write_arrays(path, "model", {}, {})
    >>> kind_of(path)
    'model'
    """
    from safetensors import SafetensorError, safe_open

    try:
        with at_hand(path) as place, safe_open(place, framework="numpy") as file:
            return str(json.loads((file.metadata() or {})[_HEADER])["kind"])
    except (SafetensorError, OSError, *_NO_HEADER):
        return ""


def _checked_header(path: str | Path, kind: str, metadata: Mapping[str, str]) -> dict[str, Any]:
    with damaged(path, kind):
        header = json.loads(metadata[_HEADER])
        found, written = int(header["format"]), str(header["kind"])
    if not OLDEST <= found <= FORMAT:
        advice = "upgrade ddol to read it" if found > FORMAT else "write it again with this version"
        raise DataError(
            f"{path}: found format {found} of ddol {header.get('version', '?')}, expected format "
            f"{OLDEST} to {FORMAT}; {advice}"
        )
    if written != kind:
        raise DataError(f"{path}: found a {written}, expected a {kind}; name another file")
    return header


_NO_HEADER = (
    KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError, MemoryError,
)  # fmt: skip
"""Errors that values of the wrong kind raise when read: infinite counts, deeply nested lists."""


@contextlib.contextmanager
def damaged(path: str | Path, kind: str) -> Iterator[None]:
    """Turn what a header of the wrong shape causes into one `DataError`."""
    try:
        yield
    except DataError as error:
        if str(error).startswith(str(path)):
            raise
        raise DataError(f"{path}: {error}; the file is damaged, write it again") from None
    except _NO_HEADER as error:
        raise DataError(
            f"{path}: found a header that is not that of a {kind} ({type(error).__name__}: "
            f"{shortened(_reason(error))}), expected one that ddol wrote; write the {kind} again"
        ) from None


class Expected(NamedTuple):
    """What an array must be.

    ``kind`` is the type of its numbers, and None in ``shape`` stands for any length.
    """

    kind: str
    shape: tuple[int | None, ...]

    def fits(self, array: np.ndarray) -> bool:
        """Whether an array is so.

        Examples
        --------
        >>> Expected("float64", (None, 2)).fits(np.zeros((7, 2)))
        True
        """
        same = len(array.shape) == len(self.shape) and all(
            wanted in (None, found) for wanted, found in zip(self.shape, array.shape, strict=True)
        )
        return same and array.dtype == np.dtype(self.kind)


def check_arrays(
    where: str | Path, arrays: Mapping[str, np.ndarray], expected: Mapping[str, Expected]
) -> None:
    """Refuse arrays that are missing, too many, or of another type or shape than expected.

    Examples
    --------
    >>> check_arrays("m.ddol", {"w": np.zeros(3)}, {"w": Expected("float64", (2,))})
    Traceback (most recent call last):
    ddol.streams.errors.DataError: m.ddol: found float64 (3,) for `w`, expected float64 (2,); ...
    """
    for name in sorted({*arrays, *expected}):
        array, wanted = arrays.get(name), expected.get(name)
        if array is None or wanted is None or not wanted.fits(array):
            found = "nothing" if array is None else f"{array.dtype} {array.shape}"
            shown = "nothing" if wanted is None else f"{wanted.kind} {_dimensions(wanted.shape)}"
            raise DataError(
                f"{where}: found {found} for `{name}`, expected {shown}; the file is damaged or "
                "something else, write it again"
            )


def _dimensions(shape: tuple[int | None, ...]) -> str:
    return str(tuple("any" if n is None else n for n in shape)).replace("'any'", "any")


def check_writable(path: str | Path) -> None:
    """Refuse an output that cannot be written, before any work is done for it.

    Examples
    --------
    >>> check_writable("/no/such/folder/model")
    Traceback (most recent call last):
    ddol.streams.errors.DataError: /no/such/folder/model: there is no folder /no/such/folder; ...
    """
    place = on_disk(path)
    if place is None:
        _check_store(str(path))
        return
    target = Path(os.path.realpath(place))
    folder = target.parent
    if target.is_dir():
        raise DataError(f"{path}: found a directory, expected a file name; add one")
    if not folder.is_dir():
        raise DataError(f"{path}: there is no folder {folder}; create it or write elsewhere")
    if target.exists() and not target.is_file():
        return
    probe = _beside(target)
    try:
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({_reason(error)}); write elsewhere") from None
    if target.exists() and not os.access(target, os.W_OK):
        raise DataError(
            f"{path}: no permission to write over it; change its mode or write elsewhere"
        )


def _check_store(path: str) -> None:
    """Check by writing that a store may be written to."""
    from ddol.streams.store.remote import put_text, remove_remote

    probe = f"{path}.{os.urandom(8).hex()}.tmp"
    try:
        put_text(probe, "")
        remove_remote(probe)
    except DataError as error:
        raise DataError(str(error).replace(probe, path)) from error


def write_text(path: str | Path, text: str) -> None:
    """Write a text file whole or not at all; bytes of file names that are not UTF-8 as ``\\udce9``."""
    with naming(path), written_beside(path) as beside:
        beside.write_text(text, encoding="utf-8", errors="backslashreplace")


@contextlib.contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Name the file that cannot be written while this is entered; the system does not.

    Examples
    --------
    >>> with naming("a.txt"):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    OSError: a.txt: cannot be written (No space left on device)
    """
    try:
        yield
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


def shortened(text: str) -> str:
    """What a message repeats of a file's own words.

    Examples
    --------
    >>> len(shortened(10**6 * "a"))
    201
    """
    return text if len(text) <= _MOST_SAID else f"{text[:_MOST_SAID]}…"


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split())


Warn = Callable[[str], None]
"""Called with one line about something that the user should know."""
