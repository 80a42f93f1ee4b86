"""Object code on disk, so that a function is compiled once on a machine and then loaded in a millisecond.

One file holds one function: a checksum, its symbol, and the object code of LLVM. A file's name is the
digest of what the function says, of the compiler's version and of the processor. Files are written
beside and renamed; what is damaged is compiled anew. Code is loaded only from a folder that belongs to
the user and that nobody else can write to.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite
import llvmlite.binding as llvm

_CHECKSUM = 20
_MOST_FILES = 4000


class Loaded(NamedTuple):
    """A function in memory."""

    address: int
    library: Any
    """Owner of the memory."""


def folder() -> Path | None:
    """Where object code is kept: ``DDOL_CACHE_DIR``, or the user's cache; None if there is no such place."""
    found = os.environ.get("DDOL_CACHE_DIR")
    if found is None:
        found = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or "~/.cache"
        found = str(Path(found) / "ddol")
    return _own_folder(found)


@functools.cache
def _own_folder(path: str) -> Path | None:
    place = Path(path).expanduser() / "compiled"
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = place.stat()
    except (OSError, RuntimeError):  # RuntimeError: no home
        return None
    if os.name == "posix" and (facts.st_uid != os.getuid() or facts.st_mode & 0o022):
        return None
    return place if os.access(place, os.R_OK | os.X_OK) else None


@functools.cache
def circumstances() -> str:
    """All that decides on machine code beside the function: versions and the processor."""
    numba = importlib.util.find_spec("numba")
    version = b""
    for place in (numba.submodule_search_locations or []) if numba else []:
        with contextlib.suppress(OSError):  # reading the version must not import all of Numba
            version = (Path(place) / "_version.py").read_bytes()
    own = Path(__file__).with_name("compiler.py").read_bytes()
    return " ".join(
        (
            sys.implementation.cache_tag or sys.version,
            llvmlite.__version__,
            hashlib.blake2b(version + own, digest_size=16).hexdigest(),
            llvm.get_process_triple(),
            llvm.get_host_cpu_name(),
            llvm.get_host_cpu_features().flatten(),
        )
    )


def holds(name: str) -> bool:
    """Whether a function is in the store."""
    place = folder()
    return place is not None and (place / name).exists()


def fetch(name: str) -> Loaded | None:
    """Load a function; None if it is not there, or damaged."""
    place = folder()
    if place is None:
        return None
    try:
        data = (place / name).read_bytes()
    except OSError:
        return None
    checksum, rest = data[:_CHECKSUM], data[_CHECKSUM:]
    if hashlib.blake2b(rest, digest_size=_CHECKSUM).digest() != checksum:
        return None
    symbol, _, code = rest.partition(b"\n")
    return _load(name, symbol.decode(), code)


def put(name: str, symbol: str, code: bytes) -> None:
    """Keep a function; where that is impossible, it is compiled again next time."""
    place = folder()
    if place is None:
        return
    rest = symbol.encode() + b"\n" + code
    with contextlib.suppress(OSError):
        handle, beside = tempfile.mkstemp(dir=place, suffix=".part")
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.blake2b(rest, digest_size=_CHECKSUM).digest() + rest)
        Path(beside).replace(place / name)
        _forget_oldest(place)


def _forget_oldest(place: Path) -> None:
    """Bound the folder: edits and new versions leave files behind that nobody asks for."""
    files = list(place.iterdir())
    if len(files) <= _MOST_FILES:
        return
    files.sort(key=lambda file: file.stat().st_mtime)
    for file in files[: _MOST_FILES // 2]:
        file.unlink(missing_ok=True)


@functools.cache
def _linker() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.create_lljit_compiler(llvm.Target.from_default_triple().create_target_machine())


def _load(name: str, symbol: str, code: bytes) -> Loaded:
    """Link object code against this process, in a name space of its own."""
    library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    linked = library.export_symbol(symbol).link(_linker(), name)
    return Loaded(linked[symbol], linked)
