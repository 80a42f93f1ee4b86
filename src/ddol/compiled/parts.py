"""Parts of the kernel: compiled, or loaded, the first time that their address is needed."""

from __future__ import annotations

import ctypes
import functools
import inspect
import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ddol.compiled import store
from ddol.compiled.digest import UnknownError, digest
from ddol.compiled.intrinsics import flat, floats, indices, integers, layout_of

if TYPE_CHECKING:
    import numpy as np

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
"""Nothing is compiled: for debugging, and for reading coverage."""

_waiting: list[tuple[Callable, bool]] = []
_one_at_a_time = threading.RLock()


class CompileError(TypeError):
    """A user's function does not fit the kernel: the message says which and what was expected."""


class Signature(NamedTuple):
    """Types of a C function: void, double, int64, or a pointer to double, int64 or uint32."""

    result: str
    arguments: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Signature:
        """Read a signature.

        Examples
        --------
        >>> Signature.of("double(int64, double*)")
        Signature(result='double', arguments=('int64', 'double*'))
        """
        result, _, rest = text.removesuffix(")").partition("(")
        return cls(result, tuple(rest.split(", ")) if rest else ())


def inner(function: Callable | None = None, *, inlined: bool = False) -> Any:
    """Let compiled functions call this one; ``inlined`` at each of its calls, or as LLVM sees fit."""
    if function is None:
        return functools.partial(inner, inlined=inlined)
    if not getattr(function, "is_inner", False):
        function.is_inner = True  # type: ignore[attr-defined]
        _waiting.append((function, inlined))
    return function


def check_arguments(function: Any, expected: str) -> None:
    """Refuse what cannot be called as ``expected`` says.

    Examples
    --------
    >>> check_arguments(lambda z, y: z - y, "value(z, y, p)")
    Traceback (most recent call last):
    ddol.compiled.parts.CompileError: `<lambda>(z, y)` takes 2 arguments, expected 3: value(z, y, p)
    """
    if not inspect.isfunction(function):
        raise CompileError(f"found {function!r}, expected a Python function {expected}")
    signature = inspect.signature(function)
    wanted, found = expected.count(",") + 1, len(signature.parameters)
    if found != wanted:
        shown = f"{function.__name__}{signature}"
        raise CompileError(f"`{shown}` takes {found} arguments, expected {wanted}: {expected}")


@functools.cache
def compile_part(function: Callable, signature: Signature, expected: str) -> int:
    """Compile ``function`` to a C function, and return its address.

    ``expected`` says how the kernel calls it, such as "value(z, y, p)", for messages.
    """
    check_arguments(function, expected)
    if INTERPRETED:
        return _callback(function, signature)
    with _one_at_a_time:
        return _address(function, signature, expected, part=True)


def scalar(function: Callable | None, expected: str) -> int:
    """Address of ``double f(double…, const double *parameters)``: losses and link functions.

    ``expected`` names the arguments, such as "value(z, y, p)".
    """
    if function is None:
        return 0
    numbers = ("double",) * expected.count(",")
    return compile_part(function, Signature("double", (*numbers, "double*")), expected)


class Entry:
    """A compiled function that Python calls, with numbers and addresses. Releases the GIL."""

    def __init__(self, function: Callable, signature: Signature) -> None:
        functools.update_wrapper(self, function)
        self.function, self.signature = function, signature

    @functools.cached_property
    def _call(self) -> Callable:
        if INTERPRETED:
            return self._interpreted
        with _one_at_a_time:
            address = _address(self.function, self.signature, self.function.__name__, part=False)
        kinds: dict[str, Any] = {
            "void": None,
            "double": ctypes.c_double,
            "struct*": ctypes.c_char_p,
        }
        result, *arguments = (
            kinds.get(kind, ctypes.c_int64)
            for kind in (self.signature.result, *self.signature.arguments)
        )
        return ctypes.CFUNCTYPE(result, *arguments)(address)

    def __call__(self, *arguments: Any) -> Any:
        """Call it."""
        return self._call(*arguments)

    def _interpreted(self, *arguments: Any) -> Any:
        pointers = {"double*": floats, "int64*": integers, "uint32*": indices}
        kinds = self.signature.arguments
        return self.function(
            *(pointers.get(kind, lambda a: a)(a) for kind, a in zip(kinds, arguments, strict=True))
        )

    @functools.cached_property
    def address(self) -> int:
        """Where the function is in memory."""
        if INTERPRETED:
            return _callback(self.function, self.signature)
        return ctypes.cast(self._call, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


def entry(signature: str) -> Callable[[Callable], Entry]:
    """Make a compiled function that Python can call; the types are those of `Signature`.

    Examples
    --------
    >>> @entry("double(int64, int64)")
    ... def total(address, n):
    ...     from_there, found = floats(address), 0.0
    ...     for k in range(n):
    ...         found += from_there[k]
    ...     return found
    >>> import numpy as np
    >>> from ddol.compiled import floats
    >>> numbers = np.ones(3)
    >>> total(numbers.ctypes.data, 3)
    3.0
    """
    return lambda function: Entry(function, Signature.of(signature))


def packed(values: tuple) -> bytes:
    """The fields of a NamedTuple one after the other, for `intrinsics.unpacked`."""
    return layout_of(type(values)).pack(*flat(values))


def address(array: np.ndarray) -> int:
    """Where the memory of an array is; 0 of an empty one."""
    return int(array.ctypes.data) if array.size else 0


def loaded_names() -> set[str]:
    """Names in the store of all code that this process has loaded."""
    return {name for name in _loaded if " " not in name}


def on_compiling(say: Callable[[str], object]) -> None:
    """Call a function, instead of writing on standard error, when ddol's own code has to be compiled."""
    _Waiting.say = say


class _Waiting:
    """The message to users while code is compiled, once in a process."""

    told = False
    say: Callable[[str], object] = staticmethod(lambda text: print(text, file=sys.stderr))

    @classmethod
    def tell(cls) -> None:
        if cls.told:
            return
        cls.told = True
        reason = store.cache().reason
        later = f"in memory only ({reason})" if reason else "later runs start at once"
        cls.say(f"ddol: compiling for this machine, which takes some seconds; {later}")

    @classmethod
    def regret(cls, reason: str) -> None:
        """Warn that compiled code could not be kept; the next run recompiles."""
        if cls.told and reason and not store.cache().reason:
            cls.say(f"ddol: compiled code cannot be kept ({reason}); the next run compiles again")
            cls.told = False


def _name(function: Callable, signature: Signature, part: bool) -> str:
    return digest(
        function, store.circumstances(), *signature.arguments, signature.result, str(part)
    )


_loaded: dict[str, Any] = {}
"""Code in memory by its digest, as functions that say the same are one; it is never taken back."""


def _address(function: Callable, signature: Signature, expected: str, part: bool) -> int:
    try:
        name = _name(function, signature, part)
    except UnknownError:
        code = _compiled(function, signature, expected, part)
        name = f"in this process only, number {len(_loaded)}"
        _loaded[name] = _linked(name, code)
    if name not in _loaded:
        _loaded[name] = store.fetch(name) or _kept(name, function, signature, expected, part)
    return int(_loaded[name].address)


def _kept(name: str, function: Callable, signature: Signature, expected: str, part: bool) -> Any:
    """Compile, and keep for other processes."""
    if not part:  # one of ours, which are long
        _Waiting.tell()
    with store.alone(name):
        kept = store.fetch(name)
        if kept is not None:
            return kept
        code = _compiled(function, signature, expected, part)
        if code.machine_code is not None:
            _Waiting.regret(store.put(name, code.symbol, code.machine_code))
    return _linked(name, code)


def _linked(name: str, code: Any) -> Any:
    """Load as later processes do, so that all of them run the same code."""
    if code.machine_code is None:
        return code
    return store.load(name, code.symbol, code.machine_code)


def _compiled(function: Callable, signature: Signature, expected: str, part: bool) -> Any:
    from ddol.compiled import compiler

    while _waiting:
        compiler.register(*_waiting.pop())
    try:
        return compiler.compile_function(function, *signature, part)
    except Exception as error:
        raise CompileError(
            f"`{function.__name__}` does not compile as {expected}: {compiler.reason(error)}; use "
            "numbers, loops and functions of `math`, and put numba.njit on functions that it calls"
        ) from None


def _callback(function: Callable, signature: Signature) -> int:
    """The function as it is, behind the address of a callback."""
    kinds: dict[str, Any] = {
        "void": None,
        "double": ctypes.c_double,
        "int64": ctypes.c_int64,
        "struct*": ctypes.c_void_p,
        "double*": ctypes.POINTER(ctypes.c_double),
        "int64*": ctypes.POINTER(ctypes.c_int64),
        "uint32*": ctypes.POINTER(ctypes.c_uint32),
    }
    arguments = [kinds[kind] for kind in signature.arguments]
    callback = ctypes.CFUNCTYPE(kinds[signature.result], *arguments)(function)
    address = ctypes.cast(callback, ctypes.c_void_p).value or 0
    _loaded[f"callback at {address}"] = callback
    return address
