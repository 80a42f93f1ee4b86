"""What a function says, as a number: its byte code and everything that it names.

Two functions with the same digest compile to the same code, wherever they stand; an edit of a function,
of a constant or of another function that it calls gives another digest.
"""

from __future__ import annotations

import types
from typing import Any

import numpy as np

from ddol.blake2 import blake2b
from ddol.compiled.intrinsics import places_of

_PLAIN = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis))
# Their functions are Numba's business, and change with Numba's version only.
_LIBRARIES = {"math", "cmath", "numpy", "builtins", "operator"}


class UnknownError(Exception):
    """Something whose meaning cannot be told from what it is made of."""


def digest(function: Any, *more: str) -> str:
    """Digest of a function, and of what else decides on its code.

    Raises
    ------
    UnknownError
        The function names an object that is neither a function nor made of numbers.

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
        annotations = vars(value).get("__annotations__")
        pieces.append(f"type {value.__module__}.{value.__qualname__} {annotations}")
        if hasattr(value, "_fields"):
            # A NamedTuple may hold others, whose fields are places in memory too.
            for _, kind in places_of(value).values():
                _add(kind, pieces, seen)
    elif hasattr(value, "py_func"):  # a user's function under numba.njit
        _add_function(value.py_func, pieces, seen)
    elif getattr(value, "is_inner", False):
        _add_function(value, pieces, seen)
    elif callable(value) or isinstance(value, types.ModuleType):
        # Not called by compiled code, or the same wherever it has this name.
        pieces.append(f"{type(value).__name__} {getattr(value, '__name__', '')}")
    else:
        raise UnknownError(repr(value))


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
            _add(getattr(module, name), pieces, seen)
