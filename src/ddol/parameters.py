"""Parameters: each is declared once, beside the part that has it, and every interface offers it from there.

A function declares parameters by its signature and the ``Parameters`` section of its docstring; a text in an
annotation explains a parameter that several functions have (``Annotated[Positive, "Weight of the loss."]``):

    def ftrl(beta: Positive = 1.0, **places) -> Algorithm:
        \"\"\"Follow the regularised leader.

        Parameters
        ----------
        beta : float
            Smooths the learning rate of features that are new.
        \"\"\"

A frozen dataclass declares them by its fields, each with what `declared` says of it. Options of the command
line, parameters of the estimators, axes of a sweep and keys of a TOML file are made of what is found here.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Annotated, Any, Literal, TypeAlias

_DECLARED = "ddol.declared"
_PLAIN = (bool, int, float, str)
_NOTHING = (None, type(None), inspect.Parameter.empty)
_CALLED = {bool: "yes or no", int: "a whole number", float: "a number", str: "text"}


@dataclass(frozen=True)
class Bounds:
    """Which numbers a parameter may have.

    Examples
    --------
    >>> str(Bounds(above=0.0)), str(Bounds(least=0, most=0.5))
    ('above 0', 'from 0 to 0.5')
    """

    least: float | None = None
    above: float | None = None
    most: float | None = None

    def __contains__(self, number: Any) -> bool:
        return (
            (self.least is None or number >= self.least)
            and (self.above is None or number > self.above)
            and (self.most is None or number <= self.most)
        )

    def __str__(self) -> str:
        if self.least is not None and self.most is not None:
            return f"from {self.least:g} to {self.most:g}"
        named = (("of at least", self.least), ("above", self.above), ("of at most", self.most))
        return " and ".join(f"{word} {value:g}" for word, value in named if value is not None)


class Spelled(tuple[str, ...]):
    """Spellings of an option on the command line, in an annotation: the last one is used in messages.

    Examples
    --------
    >>> def bake(heat: Annotated[float, Spelled(("--fire", "--heat"))] = 180.0): ...
    >>> parameters_of(bake)["heat"].spellings, parameters_of(bake)["heat"].flag
    (('--fire', '--heat'), '--heat')
    """


Positive: TypeAlias = Annotated[float, Bounds(above=0)]
NotNegative: TypeAlias = Annotated[float, Bounds(least=0)]
Statistics: TypeAlias = Annotated[
    Literal["shared", "own"],
    Spelled(("--units", "--statistics")),
    "Standardise by statistics of all agents (shared) or of each (own). Files of sites: own if these differ.",
]
Count: TypeAlias = Annotated[int, Bounds(least=1)]
CountFromZero: TypeAlias = Annotated[int, Bounds(least=0)]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a part of ddol: a preset, a schedule, the reader of a format.

    Parameters
    ----------
    name : str
        As in Python; the command line writes it with dashes.
    kinds : tuple of types
        Plain types of its values: bool, int, float or str.
    default : optional
    help : str
        One or two sentences.
    group : str
        Heading of the help page that it stands under.
    bounds : Bounds, optional
    words : tuple of str
        Words that it may be, beside or instead of a number.
    names : function that returns names, optional
        Of the parts that it chooses from, as the registry has them at that time. Where `kinds` is empty,
        it must be one of them.
    others : tuple of types
        What it may be in Python only, such as a function.
    many : bool
        Whether it may be given several times.
    metavar : str, optional
        What stands for the value on the help page.
    shown : str, optional
        What the help page says of the default, where it is no value.
    spellings : tuple of str
        Of the option on the command line, where they do not follow from the name.
    bare : optional
        The value of an option that is given without one.
    key : str, optional
        Its name in its table of a TOML file, where that is another one.
    read : function of a text, optional
        Makes the value of a text where that is more than a number or a word.

    Examples
    --------
    >>> rate = Parameter("rate", (float,), 1.0, bounds=Bounds(above=0.0))
    >>> rate.checked(0.5), rate.flag, rate.parsed("2")
    (0.5, '--rate', 2.0)
    >>> rate.checked(-1.0)
    Traceback (most recent call last):
    ValueError: rate: found -1.0, expected a number above 0
    """

    name: str
    kinds: tuple[type, ...] = (str,)
    default: Any = None
    help: str = ""
    group: str = ""
    bounds: Bounds | None = None
    words: tuple[str, ...] = ()
    names: Callable[[], Iterable[str]] | None = None
    others: tuple[Any, ...] = ()
    many: bool = False
    metavar: str | None = None
    shown: str | None = None
    spellings: tuple[str, ...] = ()
    bare: Any = None
    key: str | None = None
    read: Callable[[str], Any] | None = None

    @property
    def flag(self) -> str:
        """Its option on the command line."""
        return self.spellings[-1] if self.spellings else f"--{self.name.replace('_', '-')}"

    @property
    def is_flag(self) -> bool:
        """Whether it is a yes or no, and nothing else."""
        return self.kinds == (bool,)

    @property
    def expected(self) -> str:
        """What it may be, for messages and help."""
        if not self.kinds:
            return f"one of {', '.join(self._allowed())}"
        kinds = [kind for kind in self.kinds if not (kind is int and float in self.kinds)]
        texts = " or ".join(_CALLED[kind] for kind in kinds) or "another value"
        bounded = f"{texts} {self.bounds}" if self.bounds is not None else texts
        return " or ".join([bounded, *map(repr, self.words)])

    def parsed(self, text: str, called: str | None = None) -> Any:
        """Parse a text as a value.

        Examples
        --------
        >>> Parameter("memory", (float,), words=("auto",)).parsed("auto")
        'auto'
        """
        if self.many:
            return replace(self, many=False).parsed(text, called)
        if text in self._allowed():
            return text
        if self.read is not None:
            return self.read(text)
        for kind in sorted(self.kinds, key=_PLAIN.index):
            value = _read(kind, text)
            if value is not None:
                return self.checked(value, called)
        raise self._wrong(text, called)

    def checked(self, value: Any, called: str | None = None) -> Any:
        """The value, if it may have it; None is "not given", and passes."""
        if value is None or (isinstance(value, str) and value in self._allowed()):
            return value
        if isinstance(value, list | tuple) and self.many:
            return tuple(self._item(each) for each in value)
        if isinstance(value, list | tuple) and self.read is not None:
            return tuple(value)
        if isinstance(value, str) and (self.many or self.read is not None):
            return (self._item(value),) if self.many else self._item(value)
        if not isinstance(value, Real | str):
            if self.others:
                return value  # an object, which the part itself looks at
            raise self._wrong(value, called)
        if self.kinds == (str,) and isinstance(value, Real) and not isinstance(value, bool):
            value = str(value)  # as the command line gives it
        if not any(_is(kind, value) for kind in self.kinds) and not (
            self.others and not self.kinds
        ):
            raise self._wrong(value, called)
        if isinstance(value, Real) and not isinstance(value, bool):
            outside = self.bounds is not None and value not in self.bounds
            if math.isnan(value) or outside:
                raise self._wrong(value, called)
        return value

    def _item(self, value: Any) -> Any:
        return self.read(value) if self.read is not None and isinstance(value, str) else value

    def _allowed(self) -> Iterable[str]:
        """Words that it may be; with no kind besides, those of a registry."""
        return self.words if self.kinds or self.names is None else tuple(self.names())

    def _wrong(self, value: Any, called: str | None) -> ValueError:
        return ValueError(f"{called or self.name}: found {value!r}, expected {self.expected}")


def _read(kind: type, text: str) -> Any:
    if kind is bool:
        return {"true": True, "yes": True, "false": False, "no": False}.get(text.lower())
    try:
        return kind(text)
    except ValueError:
        return None


def _is(kind: type, value: Any) -> bool:
    if kind is bool or isinstance(value, bool):
        return isinstance(value, bool) and kind is bool
    if kind is int:
        return isinstance(value, Integral)
    return isinstance(value, Real if kind is float else str)


def declared(default: Any, text: str, **more: Any) -> Any:
    """A field of a dataclass that is a parameter.

    Parameters
    ----------
    default
    text : str
        What the help page says.
    **more
        Other fields of `Parameter`.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Oven:
    ...     heat: Positive = declared(180.0, "Degrees.", group="Kitchen")
    >>> parameters_of(Oven)["heat"].expected
    'a number above 0'
    """
    return field(default=default, metadata={_DECLARED: {"help": text, **more}})


def parameters_of(part: Callable[..., Any], group: str = "") -> dict[str, Parameter]:
    """Parameters of a function, by its signature and docstring; or of a dataclass, by its declared fields.

    Parameters
    ----------
    part : function or dataclass
    group : str
        Heading of the help page for those that name none.

    Examples
    --------
    >>> def bake(heat: float = 180.0, *, fan: bool = False):
    ...     '''Bake.
    ...
    ...     Parameters
    ...     ----------
    ...     heat : float
    ...         Degrees, not
    ...         too many.
    ...     '''
    >>> [(p.name, p.kinds, p.default, p.help) for p in parameters_of(bake).values()]
    [('heat', (<class 'float'>,), 180.0, 'Degrees, not too many.'), ('fan', (<class 'bool'>,), False, '')]
    """
    if dataclasses.is_dataclass(part):
        return _of_fields(part, group)
    texts = _documented(inspect.unwrap(part).__doc__) | _documented(part.__doc__)
    found = {}
    for each in _signature(part).parameters.values():
        if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL):
            default = None if each.default is each.empty else each.default
            made = Parameter(each.name, **_typed(each.annotation, default), default=default)
            found[each.name] = replace(made, help=texts.get(each.name, made.help), group=group)
    return found


def _of_fields(part: Any, group: str) -> dict[str, Parameter]:
    hints = typing.get_type_hints(part, include_extras=True)
    found = {}
    for each in dataclasses.fields(part):
        if _DECLARED in each.metadata:
            more = {"group": group, **each.metadata[_DECLARED]}
            typed = _typed(hints[each.name], each.default)
            found[each.name] = Parameter(each.name, default=each.default, **{**typed, **more})
    return found


def _signature(part: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(part, eval_str=True)
    except Exception:  # a name in an annotation that only type checkers know
        return inspect.signature(part)


def _typed(annotation: Any, default: Any) -> dict[str, Any]:
    """Contents of an annotation: plain types, words, bounds, and types for Python only."""
    found: dict[str, Any] = {
        "kinds": [],
        "words": [],
        "others": [],
        "spellings": [],
        "bounds": None,
        "help": "",
    }
    _collect(annotation, found)
    if not found["kinds"] and not found["words"]:
        kinds = [kind for kind in _PLAIN if type(default) is kind]
        found["kinds"] = kinds or ([] if found["others"] else [float, str])
    if bool in found["kinds"]:
        found["kinds"] = [bool]
    return {k: tuple(v) if isinstance(v, list) else v for k, v in found.items()}


def _collect(annotation: Any, found: dict[str, Any]) -> None:
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        kind, *more = typing.get_args(annotation)
        _collect(kind, found)
        for each in more:
            if isinstance(each, Bounds):
                found["bounds"] = each
            elif isinstance(each, Spelled):
                found["spellings"] += each
            elif isinstance(each, str):
                found["help"] = each
    elif origin in (typing.Union, types.UnionType):
        for each in typing.get_args(annotation):
            _collect(each, found)
    elif origin is Literal:
        found["words"] += [word for word in typing.get_args(annotation) if isinstance(word, str)]
    elif origin is tuple:
        _collect(typing.get_args(annotation)[0], found)
    elif annotation in _PLAIN:
        found["kinds"].append(annotation)
    elif annotation not in _NOTHING and not isinstance(annotation, str):
        found["others"].append(annotation)


def _documented(text: str | None) -> dict[str, str]:
    """Explanation of each name in the ``Parameters`` section of a docstring."""
    lines = inspect.cleandoc(text or "").split("\n")
    begins = [
        k
        for k, line in enumerate(lines[:-1])
        if line == "Parameters" and set(lines[k + 1].strip()) == {"-"}
    ]
    found: dict[str, list[str]] = {}
    names: list[str] = []
    for line in lines[begins[0] + 2 :] if begins else ():
        if line and not line[0].isspace():
            if set(line) == {"-"}:
                break  # the next section: its title was taken for a name
            names = [name.strip(" *") for name in line.partition(":")[0].split(",")]
        elif line.strip():
            for name in names:
                found.setdefault(name, []).append(line.strip())
    return {name: " ".join(texts) for name, texts in found.items()}


def documented(part: Callable[..., Any]) -> str:
    """The docstring of a function, its ``Parameters`` section made of what it declares.

    Examples
    --------
    >>> def bake(heat: Annotated[float, "Degrees."] = 180.0):
    ...     '''Bake.'''
    >>> print(documented(bake))
    Bake.
    <BLANKLINE>
    Parameters
    ----------
    heat : a number
        Degrees.
    """
    first, *others = [text for text in _sections(part.__doc__) if not _is_parameters(text)]
    lines = ["Parameters", "----------", *_entries(parameters_of(part).values())]
    return "\n\n".join([first, "\n".join(lines), *others])


def documented_further(text: str | None, more: Iterable[Parameter]) -> str:
    """A docstring whose ``Parameters`` section also explains these, where it does not do so itself.

    Examples
    --------
    >>> text = "Bake.\\n\\nParameters\\n----------\\nfan : bool\\n    Fast.\\n\\nNotes\\n-----\\nHot."
    >>> heat, fan = Parameter("heat", (float,), help="Degrees."), Parameter("fan", (bool,))
    >>> print(documented_further(text, [heat, fan]))
    Bake.
    <BLANKLINE>
    Parameters
    ----------
    fan : bool
        Fast.
    heat : a number, default=None
        Degrees.
    <BLANKLINE>
    Notes
    -----
    Hot.
    """
    there = _documented(text)
    lines = _entries((each for each in more if each.name not in there), ", default=None")
    found = ["\n".join([s, *lines]) if _is_parameters(s) else s for s in _sections(text)]
    return "\n\n".join(found)


def _sections(text: str | None) -> list[str]:
    return re.split(r"\n\n(?=\w+\n-+\n)", inspect.cleandoc(text or ""))


def _is_parameters(section: str) -> bool:
    return section.startswith("Parameters\n")


def _entries(parameters: Iterable[Parameter], more: str = "") -> list[str]:
    """Lines of a ``Parameters`` section, with something behind each type."""
    lines = []
    for each in parameters:
        names = [getattr(kind, "__name__", str(kind)) for kind in each.others if kind is not Any]
        lines.append(f"{each.name} : {' or '.join([each.expected, *names])}{more}")
        text = re.sub(r"--([a-z][a-z-]+)", lambda flag: flag[1].replace("-", "_"), each.help)
        lines += textwrap.wrap(text, 100, initial_indent="    ", subsequent_indent="    ")
    return lines


class NotAParameterError(ValueError):
    """A parameter that does not apply, with what would.

    Parameters
    ----------
    name : str
        The parameter.
    whose : str
        What it was meant for, such as ``algorithm 'coin'``.
    known : names of what would apply
    """

    def __init__(self, name: str, whose: str, known: Iterable[str]) -> None:
        self.name, self.whose, self.known = name, whose, tuple(known)
        super().__init__(self.message(str))

    def message(self, spelled: Callable[[str], str]) -> str:
        """The message, with names as an interface spells them."""
        known = ", ".join(map(spelled, self.known)) or "none"
        return (
            f"{spelled(self.name)} does not go with {self.whose}, which has {known}; leave it out"
        )


def check_given(
    given: Mapping[str, Any], known: Mapping[str, Parameter], whose: str
) -> dict[str, Any]:
    """Those of the given values that are not None, each looked at.

    Raises
    ------
    NotAParameterError
        For a value that nothing is known of.

    Examples
    --------
    >>> check_given({"p": 2.0, "l1": None}, {"p": Parameter("p", (float,))}, "p-norm")
    {'p': 2.0}
    >>> check_given({"beta": 2.0}, {"p": Parameter("p", (float,))}, "p-norm")
    Traceback (most recent call last):
    ddol.parameters.NotAParameterError: beta does not go with p-norm, which has p; leave it out
    """
    found = {name: value for name, value in given.items() if value is not None}
    for name in found:
        if name not in known:
            raise NotAParameterError(name, whose, known)
    return {name: known[name].checked(value) for name, value in found.items()}


def joined(declarations: Iterable[Mapping[str, Parameter]]) -> dict[str, Parameter]:
    """Parameters of several parts by name; where parts share one, what it may be at any of them.

    Examples
    --------
    >>> one, other = Parameter("rate", (float,), 1.0), Parameter("rate", (), 0.5, words=("auto",))
    >>> both = joined([{"rate": one}, {"rate": other}])["rate"]
    >>> both.kinds, both.words, both.default
    ((<class 'float'>,), ('auto',), None)
    """
    found: dict[str, Parameter] = {}
    for part in declarations:
        for name, each in part.items():
            found[name] = _either(found[name], each) if name in found else each
    return found


def _either(one: Parameter, other: Parameter) -> Parameter:
    same = one.default == other.default
    return replace(
        one,
        kinds=tuple(dict.fromkeys((*one.kinds, *other.kinds))),
        words=tuple(dict.fromkeys((*one.words, *other.words))),
        others=tuple(dict.fromkeys((*one.others, *other.others))),
        bounds=one.bounds if one.bounds == other.bounds else None,
        default=one.default if same else None,
        shown=one.shown if same else "the algorithm's",
        help=one.help or other.help,
    )
