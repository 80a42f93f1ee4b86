"""Object code on disk, so that a function is compiled once and then loaded in a millisecond.

One file holds one function: a checksum, its symbol, and the object code of LLVM. A file's name is the
digest of what the function says, and of the processor's level. Code is looked for among what was
shipped with the package, then in the user's cache, where the compiler's version is part of the name.
Damaged files are compiled anew.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import itertools
import os
import sys
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from ddol.compiled.folder import Folder, UnsafeFolderError
from ddol.compiled.target import target

SHIPPED = Path(__file__).with_name("shipped")
"""Code of ddol's own functions, made when the package was built."""

_CHECKSUM = 20
_MOST_FILES = 4000


class Loaded(NamedTuple):
    """A function in memory: valid while its owner lives."""

    address: int
    owner: Any


class Cache(NamedTuple):
    """The user's cache, or why there is none."""

    folder: Folder | None
    reason: str = ""


def cache() -> Cache:
    """Where object code is kept: under ``DDOL_CACHE_DIR``, or in the user's cache."""
    given = os.environ.get("DDOL_CACHE_DIR")
    usual = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or "~/.cache"
    return _opened(given, usual)


@functools.cache
def _opened(given: str | None, usual: str) -> Cache:
    reason = ""
    for place in [given] if given else _places(usual):
        try:
            return Cache(Folder(Path(place).expanduser() / "compiled"))
        except UnsafeFolderError as error:
            return Cache(None, str(error))
        except (OSError, RuntimeError) as error:  # RuntimeError: no home
            reason = reason or f"{place}: {getattr(error, 'strerror', None) or error}"
    return Cache(None, reason)


def _places(usual: str) -> Iterator[str]:
    """The user's cache, and another one where there is no home that can be written to."""
    yield f"{usual}/ddol"
    import tempfile  # it takes a while

    owner = os.getuid() if hasattr(os, "getuid") else "user"
    yield str(Path(tempfile.gettempdir(), f"ddol-{owner}"))


@functools.cache
def circumstances() -> str:
    """All that a function's code depends on beside its digest: the processor's level, and this package."""
    room = Path(__file__).parent
    own = b"".join((room / f"{n}.py").read_bytes() for n in ("compiler", "object_code", "lowering"))
    tag = sys.implementation.cache_tag or sys.version
    return " ".join((tag, *target(), blake2b(own, digest_size=16).hexdigest()))


@functools.cache
def _compiler_version() -> bytes:
    """The versions of LLVM and Numba; reading them must not import all of Numba."""
    import llvmlite  # only where the cache is looked into

    numba = importlib.util.find_spec("numba")
    version = llvmlite.__version__.encode()
    for place in (numba.submodule_search_locations or []) if numba else []:
        with contextlib.suppress(OSError):
            version += (Path(place) / "_version.py").read_bytes()
    return version


def _cached_name(name: str) -> str:
    return blake2b(name.encode() + _compiler_version(), digest_size=20).hexdigest()


def holds(name: str) -> bool:
    """Whether a function is in the store."""
    folder = cache().folder
    kept = folder is not None and folder.holds(_cached_name(name))
    return kept or (SHIPPED / name).exists()


def fetch(name: str) -> Loaded | None:
    """Load a function; None if it is not there, or damaged."""
    return _loaded(name, _shipped(name)) or _loaded(name, _kept(name))


def _shipped(name: str) -> bytes | None:
    try:
        return (SHIPPED / name).read_bytes()
    except OSError:
        return None


def _kept(name: str) -> bytes | None:
    folder = cache().folder
    return None if folder is None else folder.read(_cached_name(name))


def _loaded(name: str, data: bytes | None) -> Loaded | None:
    if data is None:
        return None
    checksum, rest = data[:_CHECKSUM], data[_CHECKSUM:]
    if blake2b(rest, digest_size=_CHECKSUM).digest() != checksum:
        return None
    symbol, _, code = rest.partition(b"\n")
    try:
        return load(name, symbol.decode(), code)
    except RuntimeError:  # made where the C library has more functions
        return None


def alone(name: str) -> contextlib.AbstractContextManager[None]:
    """While this is entered, no other process compiles the function, as the ranks of a job would."""
    folder = cache().folder
    return contextlib.nullcontext() if folder is None else folder.alone(_cached_name(name))


def put(name: str, symbol: str, code: bytes) -> str:
    """Keep a function; returns why that is impossible, or nothing."""
    folder, reason = cache()
    if folder is None:
        return reason
    rest = symbol.encode() + b"\n" + code
    try:
        data = blake2b(rest, digest_size=_CHECKSUM).digest() + rest
        folder.write(_cached_name(name), data)
        _forget_oldest(folder)
    except OSError as error:
        return f"{folder.path}: {error.strerror}"
    return ""


def _forget_oldest(folder: Folder) -> None:
    """Bound the folder: edits and new versions leave files behind that are never used again."""
    names = folder.names()
    if len(names) > _MOST_FILES:
        for name in names[: _MOST_FILES // 2]:
            folder.remove(name)


def ship(name: str, folder: Path) -> bool:
    """Copy a function from the cache to a folder that is shipped; False where it is not there."""
    data = _kept(name)
    if data is not None:
        (folder / name).write_bytes(data)
    return data is not None


def load(name: str, symbol: str, code: bytes) -> Loaded:
    """Link object code against this process, in a name space of its own."""
    import llvmlite.binding as llvm

    library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    linked = library.export_symbol(symbol).link(_linker(), f"{name} {next(_turn)}")
    return Loaded(linked[symbol], linked)


_turn = itertools.count()


@functools.cache
def _linker() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.create_lljit_compiler(llvm.Target.from_default_triple().create_target_machine())
