"""Options and their panels on the help page, and the options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import click

_OTHERS = "Options"

COUNT = click.IntRange(min=1)
COUNT_FROM_ZERO = click.IntRange(min=0)
NOT_NEGATIVE = click.FloatRange(min=0)

Decorator = Callable[[Any], Any]


class Option(click.Option):
    """An option in one of the panels of the help page.

    ``names`` is a function, as ``"module:name"``, of the names that it understands: they take the place of
    ``{names}`` in the help, and are found only when somebody reads it.
    """

    def __init__(
        self, *args: Any, panel: str = _OTHERS, names: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.panel, self.names = panel, names

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The name and what it says, with the names of the registry as it is now."""
        if self.names is None or self.help is None:
            return super().get_help_record(ctx)
        module, _, function = self.names.partition(":")
        found = getattr(import_module(module), function)()
        plain, self.help = self.help, self.help.format(names=", ".join(found))
        try:
            return super().get_help_record(ctx)
        finally:
            self.help = plain


class Command(click.Command):
    """A command whose help page shows the options in panels."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write every panel, in the order of the options."""
        panels: dict[str, list[tuple[str, str]]] = {}
        options = (param for param in self.get_params(ctx) if isinstance(param, click.Option))
        for each in options:
            if record := each.get_help_record(ctx):
                panels.setdefault(getattr(each, "panel", _OTHERS), []).append(record)
        for title, records in panels.items():
            with formatter.section(title):
                formatter.write_dl(records)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, letting an option that may have a number take the next word only if it is one."""
        may_have = {
            name: each.flag_value
            for each in self.get_params(ctx)
            if isinstance(each, click.Option)
            and type(each.flag_value) is int  # else none, or a sentinel
            for name in each.opts
        }
        words = list(args)
        for place, word in enumerate(words):
            following = words[place + 1] if place + 1 < len(words) else ""
            if word in may_have and not following.isdigit():
                words[place] = f"{word}={may_have[word]}"
        return super().parse_args(ctx, words)

    def get_short_help_str(self, limit: int = 45) -> str:
        """The first paragraph, which is never cut."""
        return (self.help or "").partition("\n\n")[0]


def option(panel: str, spec: str, text: str, name: str | None = None, **more: Any) -> Decorator:
    """An option in one of the panels of the help page.

    Parameters
    ----------
    panel : str
    spec : str
        Its names, and what stands for its value: ``"--agents N"``.
    text : str
        What the help page says of it.
    name : str, optional
        Of the parameter, where it does not follow from the option's.
    **more
        As in `click.option`.
    """
    words = spec.split()
    names = [word for word in words if word.startswith("-")] + ([] if name is None else [name])
    metavar = None if words[-1].startswith("-") else words[-1]
    return click.option(*names, cls=Option, panel=panel, metavar=metavar, help=text, **more)


flag = partial(option, _OTHERS)
learning, network, reading = (partial(option, name) for name in ("Algorithm", "Network", "Data"))
running, leaving = (partial(option, name) for name in ("Run", "What it leaves"))


def _remember_debug(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        ctx.find_root().meta["debug"] = True


debug = flag(
    "--debug",
    "Show the traceback of an error.",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_remember_debug,
)
format_ = reading(
    "--format NAME",
    "{names}; by default the file's ending decides.",
    names="ddol.cli.registries:formats",
)
label = reading(
    "--label NAME",
    "The label's column of a table, by its name, or by its number from 0 (-1 is the last).",
    show_default="label, y or target in any case, else the first column",
)
header = reading(
    "--header/--no-header",
    "The first line of CSV text has the names of the columns, or is an example.",
    default=None,
    show_default="names if no cell is a number or comes again below, or one stands above a number",
)
missing = reading(
    "--missing NAME",
    "A missing value (empty, NA, ?, null): error: stop there; zero: it is 0; mean: it is the "
    "column's mean so far.",
    default="error",
)
on_bad_line = reading(
    "--on-bad-line NAME", "stop: stop there; skip: leave it out and count it.", default="stop"
)
zero_based = reading("--zero-based", "LIBSVM indices begin at 0, not 1.", is_flag=True)
as_json = flag("--json", "As JSON.", is_flag=True)


def one_of(name: str, value: str | None, allowed: tuple[str, ...]) -> None:
    """Refuse a value that is not among those of an option."""
    if value is not None and value not in allowed:
        raise ValueError(f"{name}: found {value!r}, expected one of {', '.join(allowed)}")


def check_bad_line(value: str) -> None:
    """Refuse what ``--on-bad-line`` does not know."""
    one_of("--on-bad-line", value, ("stop", "skip"))
