"""Numba's part: Python functions to machine code.

Importing this module costs what Numba costs; processes that find all they need in the store do not.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numba
from numba import types
from numba.core.errors import NumbaError
from numba.extending import register_jitable

from ddol.compiled import lowering  # noqa: F401, teaches Numba the intrinsics

if TYPE_CHECKING:
    from ddol.compiled.object_code import ObjectCode

# Sums may be reordered so that dot products use vector registers; NaN and infinity keep their meaning.
REORDER = {"reassoc", "contract", "nsz"}

_TYPES = {
    "void": types.void,
    "double": types.float64,
    "int64": types.int64,
    "double*": types.CPointer(types.float64),
    "int64*": types.CPointer(types.int64),
    "uint32*": types.CPointer(types.uint32),
    "struct*": types.CPointer(types.uint8),
}


class _Numba:
    """Whether this version of Numba is as we know it."""

    as_expected = True


def compile_function(
    function: Callable, result: str, arguments: tuple[str, ...], part: bool
) -> ObjectCode | Callback:
    """Compile to a C function.

    The sums of a ``part`` may be reordered, and what its arguments point to does not overlap.

    Raises
    ------
    numba.core.errors.NumbaError
        What the function says has no compiled form.
    """
    options: dict[str, Any] = {"error_model": "numpy"} | ({"fastmath": REORDER} if part else {})
    kinds = _TYPES[result], tuple(_TYPES[kind] for kind in arguments)
    if _Numba.as_expected:
        try:
            from ddol.compiled.object_code import compile_object

            return compile_object(function, *kinds, options, part)
        except NumbaError:
            raise
        except Exception as error:  # whatever names and arguments are by now
            found = Callback(function, *kinds, options)
            _Numba.as_expected = False
            _tell(error)
            return found
    return Callback(function, *kinds, options)


class Callback:
    """A function compiled by Numba's public way: slower to call, and in this process only.

    It has the fields of `ObjectCode`.
    """

    symbol = ""
    machine_code = None

    def __init__(
        self, function: Callable, result: Any, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        self.owner = numba.cfunc(result(*arguments), **options)(function)
        self.address = int(self.owner.address)


def _tell(error: Exception) -> None:
    warnings.warn(
        f"Numba {numba.__version__} is not as expected ({type(error).__name__}: {error}): ddol "
        "compiles by numba.cfunc, more slowly and anew in each process; see its pyproject.toml for "
        "the versions that it is tested with",
        stacklevel=2,
    )


def register(function: Callable, inlined: bool) -> None:
    """Let compiled functions call this one."""
    options: dict[str, Any] = {
        "no_cpython_wrapper": True,
        "no_cfunc_wrapper": True,
        "error_model": "numpy",
    }
    register_jitable(**options, **({"forceinline": True} if inlined else {}))(function)


def reason(error: Exception) -> str:
    """The one line of a compiler's message that says what is wrong, and where."""
    text = str(error)
    said = [line.strip() for line in text.splitlines()]
    telling = [line for line in said if line and not line.startswith(("Failed in", "During:"))]
    found = telling[0].split(", defined at ")[0] if telling else type(error).__name__
    if found.endswith("signature:"):
        found = f"no compiled form of {telling[1].removeprefix('>>> ')}"
    place = re.search(r"line (\d+)", text)
    return f"{found[:200]} (line {place[1]})" if place else found[:200]
