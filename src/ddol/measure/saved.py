"""Traces in files: values of ddol's own classes as plain JSON and arrays, and back.

Nothing in a file is executed: a name in it is looked up among ddol's own classes and functions only. So a
trace with a part of one's own cannot be saved; it can be pickled.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from importlib import import_module
from types import FunctionType
from typing import Any

import numpy as np

from ddol.storage import damaged, read_arrays, write_arrays
from ddol.trace import Trace
from ddol.version import __version__

_KIND = "trace"


def save_trace(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace; see `Trace.save`."""
    arrays: dict[str, np.ndarray] = {}
    header = {"trace": to_plain(trace, arrays), "version": __version__}
    write_arrays(str(path), _KIND, arrays, header)


def load_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a trace that `Trace.save` wrote; anything else is a `DataError` of one line."""
    arrays, header = read_arrays(str(path), _KIND)
    with damaged(str(path), _KIND):
        found = from_plain(header["trace"], arrays)
        if not isinstance(found, Trace):
            raise TypeError(f"a {type(found).__name__}")
    return found


def to_plain(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """A value as JSON can hold it; arrays are put aside under names.

    Examples
    --------
    >>> from ddol.update.rates import inverse_sqrt
    >>> to_plain(inverse_sqrt(2.0), {})
    {'a': 'ddol.update.rates:Power', 'with': {'scale': 2.0, 'exponent': 0.5}}
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        name = str(len(arrays))
        arrays[name] = value
        return {"array": name}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [to_plain(item, arrays) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[to_plain(k, arrays), to_plain(v, arrays)] for k, v in value.items()]}
    if isinstance(value, FunctionType | type):
        return {"named": _name(value)}
    if is_dataclass(value):
        inside = {f.name: to_plain(getattr(value, f.name), arrays) for f in fields(value) if f.init}
        return {"a": _name(type(value)), "with": inside}
    raise ValueError(f"a {type(value).__name__} cannot be saved with a trace; use pickle")


def from_plain(plain: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The value that `to_plain` was given."""
    if not isinstance(plain, dict):
        return plain
    if "a" in plain:
        inside = {name: from_plain(item, arrays) for name, item in plain["with"].items()}
        made_of = _found(plain["a"])
        if not (isinstance(made_of, type) and is_dataclass(made_of)):
            raise ValueError(
                f"found {plain['a']}, expected a part of ddol; the file is damaged, write it again"
            )  # a function would be called
        return made_of(**inside)
    ((kind, inside),) = plain.items()
    if kind == "array":
        return arrays[inside]
    if kind == "named":
        return _found(inside)
    if kind == "dict":
        return {from_plain(k, arrays): from_plain(v, arrays) for k, v in inside}
    return {"list": list, "tuple": tuple}[kind](from_plain(item, arrays) for item in inside)


def _name(thing: Any) -> str:
    name = f"{thing.__module__}:{thing.__qualname__}"
    if not thing.__module__.startswith("ddol.") or "<" in name:
        raise ValueError(
            f"{thing.__qualname__} of {thing.__module__} is not a part of ddol, so that the file could "
            "not be read without running it; pickle the trace instead"
        )
    return name


def _found(name: str) -> Any:
    module, _, inside = name.partition(":")
    found = None
    if module.startswith("ddol."):
        with suppress(ImportError):
            found = getattr(import_module(module), inside, None)
    if not isinstance(found, FunctionType | type) or found.__module__ != module:
        raise ValueError(
            f"found {name}, expected a part of ddol; the file is damaged, write it again"
        )
    return found
