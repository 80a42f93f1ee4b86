"""Frozen dataclasses that take little time to define.

The standard library compiles up to six methods of every class from text. A command defines many classes
before it begins, and that took as long as all else that it imported of ddol. Here one method is compiled,
``__init__``, and all classes share the others, which say the same. What users derive classes of their own
from (updates and mirrors) is a dataclass of the standard library, as theirs are: both kinds do not mix.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: Any = None, /, **options: Any) -> Any:
        """`dataclasses.dataclass`, for less where it is called with ``frozen=True``.

        Examples
        --------
        >>> @dataclass(frozen=True)
        ... class Point:
        ...     x: float
        ...     y: float = 0.0
        >>> Point(1.0), Point(1.0) == Point(1.0, 0.0), hash(Point(1.0)) == hash(Point(2.0))
        (Point(x=1.0, y=0.0), True, False)
        >>> Point(1.0).x = 2.0
        Traceback (most recent call last):
        dataclasses.FrozenInstanceError: cannot assign to field 'x'
        """
        if cls is not None or not options.get("frozen"):
            return dataclasses.dataclass(cls, **options)
        slots = bool(
            options.get("slots")
        )  # where instances are made often: they keep the quicker way
        shared = {} if slots else {"__setattr__": _set_once, "__delattr__": _keep}
        shared |= {"__eq__": _equal, "__hash__": _hash} if options.get("eq", True) else {}
        shared |= {"__repr__": _shown} if options.get("repr", True) else {}
        compiled = options | {"frozen": slots, "eq": False, "repr": False}

        def made(kind: type) -> type:
            # Where there is an __eq__, Python has noted that there is no __hash__.
            own = {name for name, given in vars(kind).items() if given is not None}
            for name in shared.keys() - own:
                setattr(kind, name, shared[name])
            return dataclasses.dataclass(**compiled)(kind)

        return made


def _set_once(self: Any, name: str, given: Any) -> None:
    """Set a field while the instance is made; afterwards all of them are there."""
    held = self.__dict__
    if name in held or name not in self.__dataclass_fields__:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    held[name] = given


def _keep(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _compared(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, f.name) for f in dataclasses.fields(self) if f.compare)


def _equal(self: Any, other: Any) -> Any:
    return _compared(self) == _compared(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_compared(self))


def _shown(self: Any) -> str:
    shown = (f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"
