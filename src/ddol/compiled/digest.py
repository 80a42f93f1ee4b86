"""Digest of a function: of its byte code and everything that it names.

Two functions with the same digest compile to the same code, wherever they stand; an edit of a function,
of a constant or of another function that it calls gives another digest.
"""

from __future__ import annotations

import enum
import sys
import types
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import numpy as np

from ddol.compiled.intrinsics import places_of

_PLAIN = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis))
_LIBRARIES = {"math", "cmath", "numpy", "builtins", "operator", "numba"}
"""Their functions are known by their names: how they are compiled depends on Numba's version only."""
_INTRINSICS = "ddol.compiled.intrinsics"
"""Known by their names as well: what they mean is in the digest of this room's own files."""


class UnknownError(Exception):
    """Something whose meaning cannot be told from what it is made of."""


def digest(function: Any, *more: str) -> str:
    """Digest of a function, and of what else decides on its code.

    Raises
    ------
    UnknownError
        The function names an object that is neither a function nor made of numbers. Its code can be used
        in this process, but must not be kept.

    Examples
    --------
    >>> one, other = (lambda x: x + 1), (lambda x: x + 2)
    >>> digest(one) == digest(lambda x: x + 1), digest(one) == digest(other)
    (True, False)
    """
    pieces: list[str | bytes] = list(more)
    _add_function(function, pieces, {})
    data = [piece if isinstance(piece, bytes) else piece.encode() for piece in pieces]
    whole = b"".join(b"%d:%b" % (len(piece), piece) for piece in data)
    return blake2b(whole, digest_size=20).hexdigest()


# Pieces are added to one list: a command takes digests of all that it calls before it begins.


def _add(value: Any, pieces: list[str | bytes], seen: dict[int, int]) -> None:
    """Add what a value is made of, in an order that is always the same."""
    if isinstance(value, _PLAIN):
        pieces.append(f"{type(value).__name__} {value!r}")
    elif isinstance(value, tuple | list | frozenset):
        items = sorted(value, key=repr) if isinstance(value, frozenset) else value
        pieces.append(f"{type(value).__name__} of {len(items)}")
        for item in items:
            _add(item, pieces, seen)
    elif isinstance(value, np.ndarray | np.generic):
        pieces += f"{value.dtype.str} {value.shape}", value.tobytes()
    elif isinstance(value, type):
        _add_class(value, pieces, seen)
    elif isinstance(value, types.ModuleType):
        pieces.append(f"module {value.__name__}")
    elif callable(value):
        _add_called(value, pieces, seen)
    else:
        raise UnknownError(repr(value))


def _add_class(value: type, pieces: list[str | bytes], seen: dict[int, int]) -> None:
    if hasattr(value, "class_type"):
        raise UnknownError(f"the class {value.__qualname__}, which is compiled by numba.jitclass")
    annotations = vars(value).get("__annotations__")
    pieces.append(f"type {value.__module__}.{value.__qualname__} {annotations}")
    if hasattr(value, "_fields"):
        # A NamedTuple may hold others, whose fields are places in memory too.
        for _, kind in places_of(value).values():
            _add(kind, pieces, seen)
    if issubclass(value, enum.Enum):
        for member in value:
            pieces.append(member.name)
            _add(member.value, pieces, seen)


def _add_called(value: Any, pieces: list[str | bytes], seen: dict[int, int]) -> None:
    """Add all that a call of a function or another callable comes to."""
    if getattr(value, "is_inner", False) or _is_plain(value):
        # The same piece for both: an algorithm may declare a function `inner` later in this process.
        _add_function(value, pieces, seen)
        return
    # numba.njit, and the dispatcher behind numba.vectorize.
    dispatcher = value if hasattr(value, "py_func") else getattr(value, "_dispatcher", None)
    function = getattr(dispatcher, "py_func", None) or getattr(value, "__wrapped__", value)
    options = getattr(dispatcher, "targetoptions", None) or {}
    pieces.append(" ".join(f"{name}={_sorted(options[name])}" for name in sorted(options)))
    module = getattr(function, "__module__", None) or ""
    if module.partition(".")[0] in _LIBRARIES or module == _INTRINSICS:
        pieces.append(f"{module}.{getattr(function, '__qualname__', '')}")
    elif isinstance(function, types.FunctionType):
        _add_function(function, pieces, seen)
    elif isinstance(function, types.BuiltinFunctionType | np.ufunc):
        pieces.append(f"{module}.{function.__name__}")
    else:
        raise UnknownError(repr(value))
    if module != _INTRINSICS:
        for compiled in _overloads(value):
            _add_function(compiled, pieces, seen)


def _is_plain(value: Any) -> bool:
    """Whether this is a function of ddol's own, as it was written."""
    module = getattr(value, "__module__", None) or ""
    own = module.startswith("ddol.") and module != _INTRINSICS
    return own and isinstance(value, types.FunctionType) and not hasattr(value, "__wrapped__")


def _sorted(option: Any) -> str:
    """An option of a decorator as text that is the same in every process."""
    return str(sorted(option) if isinstance(option, set | frozenset) else option)


def _overloads(value: Any) -> Iterator[types.FunctionType]:
    """Functions that numba.extending.overload and register_jitable put in the place of a function.

    Numba's own need no place in a digest, and neither do those of this room.
    """
    known = sys.modules.get("numba.core.typing.templates")
    if known is None:  # so none was registered
        return
    try:
        for named, kind in known.builtin_registry.globals:
            if named is value:
                for template in getattr(kind, "templates", ()):
                    found = getattr(template, "_overload_func", None)
                    if found is not None and not _is_ours(found):
                        yield found
    except (AttributeError, TypeError, ValueError) as error:  # another version of Numba
        raise UnknownError(f"the overloads of {value!r} ({error})") from None


def _is_ours(function: types.FunctionType) -> bool:
    module = function.__module__ or ""
    # What register_jitable makes is Numba's, around another function.
    return module.startswith("ddol.compiled.") or (
        module.startswith("numba.") and function.__closure__ is None
    )


def _add_function(
    function: types.FunctionType, pieces: list[str | bytes], seen: dict[int, int]
) -> None:
    if id(function) in seen:
        pieces.append(f"function {seen[id(function)]}")
        return
    seen[id(function)] = len(seen)
    _add(function.__defaults__, pieces, seen)
    for cell in function.__closure__ or ():
        _add(cell.cell_contents, pieces, seen)
    _add_code(function.__code__, function.__globals__, pieces, seen)


def _add_code(
    code: types.CodeType, names: dict[str, Any], pieces: list[str | bytes], seen: dict[int, int]
) -> None:
    pieces.append(code.co_code)
    pieces.append(" ".join((*code.co_names, "|", *code.co_varnames, "|", *code.co_freevars)))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _add_code(constant, names, pieces, seen)
        else:
            _add(constant, pieces, seen)
    for name in code.co_names:
        if name not in names:
            continue  # an attribute, or a builtin
        _add(names[name], pieces, seen)
        if isinstance(names[name], types.ModuleType):
            _add_attributes(names[name], code.co_names, pieces, seen)


def _add_attributes(
    module: types.ModuleType,
    names: tuple[str, ...],
    pieces: list[str | bytes],
    seen: dict[int, int],
) -> None:
    """Add what a function may take from a module."""
    if module.__name__.partition(".")[0] in _LIBRARIES:
        return
    for name in names:
        if hasattr(module, name):
            found = getattr(module, name)
            _add(found, pieces, seen)
            if isinstance(found, types.ModuleType) and id(found) not in seen:
                seen[id(found)] = len(seen)
                _add_attributes(found, names, pieces, seen)
