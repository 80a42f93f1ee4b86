"""Options and their panels on the help page, and the options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import click

DATA, ALGORITHM, NETWORK, RUN, OUT = "Data", "Algorithm", "Network", "Run", "What it leaves"
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


def option(panel: str, *names: str, **more: Any) -> Decorator:
    """An option in one of the panels of the help page."""
    return click.option(*names, cls=Option, panel=panel, **more)


def _remember_debug(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        ctx.find_root().meta["debug"] = True


debug = click.option(
    "--debug",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_remember_debug,
    help="Show the traceback of an error.",
)
format_ = option(
    DATA,
    "--format",
    metavar="NAME",
    names="ddol.cli.registries:formats",
    help="{names}; by default the file's ending decides.",
)
label = option(
    DATA,
    "--label",
    metavar="NAME",
    show_default="label, y or target in any case, else the first column",
    help="The label's column of a table, by its name, or by its number from 0 (-1 is the last).",
)
missing = option(
    DATA,
    "--missing",
    metavar="NAME",
    default="error",
    help="A missing value (empty, NA, ?, null): error: stop there; zero: it is 0; mean: it is the "
    "column's mean so far.",
)
on_bad_line = option(
    DATA,
    "--on-bad-line",
    metavar="NAME",
    default="stop",
    help="stop: stop there; skip: leave it out and count it.",
)
zero_based = option(DATA, "--zero-based", is_flag=True, help="LIBSVM indices begin at 0, not 1.")
as_json = click.option("--json", is_flag=True, help="As JSON.")


def one_of(name: str, value: str | None, allowed: tuple[str, ...]) -> None:
    """Refuse a value that is not among those of an option."""
    if value is not None and value not in allowed:
        raise ValueError(f"{name}: found {value!r}, expected one of {', '.join(allowed)}")


def check_bad_line(value: str) -> None:
    """Refuse what ``--on-bad-line`` does not know."""
    one_of("--on-bad-line", value, ("stop", "skip"))
