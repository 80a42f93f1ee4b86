"""What a function says, as a number: its byte code and everything that it names.

Two functions with the same digest compile to the same code, wherever they stand; an edit of a function,
of a constant or of another function that it calls gives another digest.
"""

from __future__ import annotations

import hashlib
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

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
    found = hashlib.blake2b(digest_size=20)
    seen: dict[int, int] = {}
    for piece in (*more, *_function(function, seen)):
        data = piece if isinstance(piece, bytes) else piece.encode()
        found.update(b"%d:" % len(data))
        found.update(data)
    return found.hexdigest()


def _pieces(value: Any, seen: dict[int, int]) -> Iterator[str | bytes]:
    """What a value is made of, in an order that is always the same."""
    if isinstance(value, _PLAIN):
        yield f"{type(value).__name__} {value!r}"
    elif isinstance(value, tuple | list | frozenset):
        items = sorted(value, key=repr) if isinstance(value, frozenset) else value
        yield f"{type(value).__name__} of {len(items)}"
        for item in items:
            yield from _pieces(item, seen)
    elif isinstance(value, np.ndarray | np.generic):
        yield f"{value.dtype.str} {value.shape}"
        yield value.tobytes()
    elif isinstance(value, type):
        yield f"type {value.__module__}.{value.__qualname__} {vars(value).get('__annotations__')}"
        if hasattr(value, "_fields"):
            # A NamedTuple may hold others, whose fields are places in memory too.
            for _, kind in places_of(value).values():
                yield from _pieces(kind, seen)
    elif hasattr(value, "py_func"):  # a user's function under numba.njit
        yield from _function(value.py_func, seen)
    elif getattr(value, "is_inner", False):
        yield from _function(value, seen)
    elif callable(value) or isinstance(value, types.ModuleType):
        # Not called by compiled code, or the same wherever it has this name.
        yield f"{type(value).__name__} {getattr(value, '__name__', '')}"
    else:
        raise UnknownError(repr(value))


def _function(function: types.FunctionType, seen: dict[int, int]) -> Iterator[str | bytes]:
    if id(function) in seen:
        yield f"function {seen[id(function)]}"
        return
    seen[id(function)] = len(seen)
    yield from _pieces(function.__defaults__, seen)
    for cell in function.__closure__ or ():
        yield from _pieces(cell.cell_contents, seen)
    yield from _code(function.__code__, function.__globals__, seen)


def _code(
    code: types.CodeType, names: dict[str, Any], seen: dict[int, int]
) -> Iterator[str | bytes]:
    yield code.co_code
    yield " ".join((*code.co_names, "|", *code.co_varnames, "|", *code.co_freevars))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code(constant, names, seen)
        else:
            yield from _pieces(constant, seen)
    for name in code.co_names:
        if name not in names:
            continue  # an attribute, or a builtin
        yield from _pieces(names[name], seen)
        if isinstance(names[name], types.ModuleType):
            yield from _attributes(names[name], code.co_names, seen)


def _attributes(
    module: types.ModuleType, names: tuple[str, ...], seen: dict[int, int]
) -> Iterator[str | bytes]:
    """What a function may take from a module."""
    if module.__name__.partition(".")[0] in _LIBRARIES:
        return
    for name in names:
        if hasattr(module, name):
            yield from _pieces(getattr(module, name), seen)
