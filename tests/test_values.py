"""Frozen dataclasses that share methods, beside those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import re

import pytest

import ddol
from ddol.values import dataclass


def _made(decorator, **options):
    @decorator(frozen=True, **options)
    class Point:
        """A point."""

        x: float
        y: list[float] = dataclasses.field(default_factory=list, repr=False)
        note: str = dataclasses.field(default="", compare=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "x", float(self.x))

    return Point


@dataclass(frozen=True)
class Named:
    name: str
    size: int = 1


@dataclass(frozen=True)
class Own:
    size: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and self.size % 10 == other.size % 10

    def __hash__(self) -> int:
        return self.size % 10

    def __repr__(self) -> str:
        return "own"


@pytest.mark.parametrize("options", [{}, {"slots": True}, {"kw_only": True}, {"eq": False}])
def test_it_says_what_the_standard_library_says(options):
    ours, theirs = (_made(each, **options) for each in (dataclass, dataclasses.dataclass))
    pairs = [
        (kind(x=1), kind(x=1, note="other"), kind(x=2), kind(x=1, y=[2.0]))
        for kind in (ours, theirs)
    ]
    ours_seen, theirs_seen = (
        [repr(a).rpartition(".")[2], a == b, a == c, a == d, a != b, a == 1, dataclasses.astuple(d)]
        for a, b, c, d in pairs
    )
    assert ours_seen == theirs_seen
    assert dataclasses.replace(pairs[0][0], x=5).x == 5.0
    assert [f.name for f in dataclasses.fields(ours)] == ["x", "y", "note"]
    assert hasattr(pairs[0][0], "__dict__") == hasattr(pairs[1][0], "__dict__")


@pytest.mark.parametrize("slots", [False, True])
def test_nothing_changes_once_it_is_made(slots):
    point = _made(dataclass, slots=slots)(1)
    for name in ("x", "y", "note"):
        with pytest.raises(
            dataclasses.FrozenInstanceError, match=f"cannot assign to field '{name}'"
        ):
            setattr(point, name, 3)
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot delete field '{name}'"):
            delattr(point, name)
    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError)):
        point.another = 3
    assert point.x == 1.0


def test_hashes_go_with_equality():
    assert len({Named("a"), Named("a", 1), Named("a", 2)}) == 2
    assert hash(Named("a")) == hash(("a", 1))
    with pytest.raises(TypeError, match="unhashable"):
        hash(Named([]))


def test_what_a_class_says_itself_stays():
    assert repr(Own(3)) == "own" and Own(3) == Own(13) and hash(Own(13)) == 3


def test_it_is_copied_and_sent():
    named = Named("a", 2)
    assert copy.deepcopy(named) == named == pickle.loads(pickle.dumps(named))
    assert copy.copy(named) is not named


@pytest.mark.parametrize(
    ("args", "given", "message"),
    [
        ((), {}, "Named() is missing the argument 'name'"),
        (("a",), {"sized": 3}, "Named() got an unexpected argument 'sized'"),
        ((), {"name": "a", "sized": 3}, "Named() got an unexpected argument 'sized'"),
        ((), {"sized": 3}, "Named() is missing the argument 'name'"),
        (("a",), {"name": "b"}, "Named() got several values for the argument 'name'"),
        (("a", 1, 2), {}, "Named() takes 2 arguments, found 3"),
    ],
)
def test_wrong_arguments_are_refused(args, given, message):
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        Named(*args, **given)


def test_fields_keep_their_order_and_help_shows_them():
    assert list(vars(Named(size=2, name="a"))) == ["name", "size"]
    ours, theirs = (_made(each) for each in (dataclass, dataclasses.dataclass))
    shown = [
        [(p.name, p.kind) for p in inspect.signature(kind).parameters.values()]
        for kind in (ours, theirs)
    ]
    assert shown[0] == shown[1]
    assert str(inspect.signature(Named)) == "(name: 'str', size: 'int' = 1)"
    ours, theirs = (_made(each) for each in (dataclass, dataclasses.dataclass))
    assert str(inspect.signature(ours)) == str(inspect.signature(theirs)).removesuffix(" -> None")
    for name in ddol.__all__:
        if inspect.isclass(getattr(ddol, name)):
            assert inspect.signature(getattr(ddol, name))


def test_what_is_derived_has_all_fields():
    @dataclass(frozen=True)
    class Larger(Named):
        more: int = 0

    assert Larger("a", 2, 3) == Larger(name="a", size=2, more=3) != Named("a", 2)
