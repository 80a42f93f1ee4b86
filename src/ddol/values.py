"""Frozen dataclasses that take little time to define.

The standard library compiles up to six methods of every class from text. A command defines many classes
before it begins, and that took longer than all else that it imported of ddol. Here classes share methods that
say the same. Instances take two or three times as long to make, so those that are made for every example have
slots, and an ``__init__`` of the standard library's. What users derive classes of their own from (updates and
mirrors) is a dataclass of the standard library, as theirs are: both kinds do not mix.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

_MISSING = dataclasses.MISSING

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
        slots = bool(options.get("slots"))
        shared: dict[str, Any] = {} if slots else {"__setattr__": _fixed, "__delattr__": _kept}
        shared |= {"__eq__": _equal, "__hash__": _hash} if options.get("eq", True) else {}
        shared |= {"__repr__": _shown} if options.get("repr", True) else {}
        compiled = options | {"frozen": slots, "init": slots, "eq": False, "repr": False}

        def made(kind: type) -> type:
            # Where there is an __eq__, Python has noted that there is no __hash__.
            own = {name for name, given in vars(kind).items() if given is not None}
            for name in shared.keys() - own:
                setattr(kind, name, shared[name])
            done = dataclasses.dataclass(**compiled)(kind)
            if not slots:
                done.__init__, done.__signature__ = _init_of(done), _Signature()
            return done

        return made


def _init_of(kind: Any) -> Any:
    """What fills the dictionary of an instance, where no ``__setattr__`` is asked."""
    fields = dataclasses.fields(kind)
    usual = {f.name: f.default for f in fields}
    names = [f.name for f in fields if not f.kw_only]
    made = {f.name: f.default_factory for f in fields if f.default_factory is not _MISSING}
    needed = [name for name, value in usual.items() if value is _MISSING and name not in made]
    ends = hasattr(kind, "__post_init__")

    def __init__(self: Any, /, *args: Any, **given: Any) -> None:  # noqa: N807
        held = self.__dict__
        held.update(usual)
        held.update(zip(names, args, strict=False))
        held.update(given)
        for name in needed:
            if held[name] is _MISSING:
                raise TypeError(f"{kind.__qualname__}() is missing the argument {name!r}")
        for name, make in made.items():
            if held[name] is _MISSING:
                held[name] = make()
        if len(held) > len(usual) or len(args) > len(names) or (args and given):
            _check(kind, names, args, given)
        if ends:
            self.__post_init__()

    return __init__


def _check(kind: Any, names: list[str], args: tuple[Any, ...], given: dict[str, Any]) -> None:
    """Refuse arguments that a class does not have, and such as are given twice."""
    if len(args) > len(names):
        raise TypeError(f"{kind.__qualname__}() takes {len(names)} arguments, found {len(args)}")
    for name in given:
        if name in names[: len(args)]:
            raise TypeError(f"{kind.__qualname__}() got several values for the argument {name!r}")
        if name not in kind.__dataclass_fields__:
            raise TypeError(f"{kind.__qualname__}() got an unexpected argument {name!r}")


class _Signature:
    """What a class takes, for whoever reads its help."""

    def __get__(self, instance: Any, kind: Any) -> Any:
        from inspect import Parameter, Signature

        return Signature(
            [
                Parameter(
                    f.name,
                    Parameter.KEYWORD_ONLY if f.kw_only else Parameter.POSITIONAL_OR_KEYWORD,
                    default=_default_of(f, Parameter.empty),
                    annotation=f.type,
                )
                for f in sorted(dataclasses.fields(kind), key=lambda f: bool(f.kw_only))
            ]
        )


class _Factory:
    """Stands for a default that is made anew for each instance."""

    def __repr__(self) -> str:
        return "<factory>"


def _default_of(field: Any, none: Any) -> Any:
    if field.default_factory is not _MISSING:
        return _Factory()
    return none if field.default is _MISSING else field.default


def _fixed(self: Any, name: str, given: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _kept(self: Any, name: str) -> None:
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
