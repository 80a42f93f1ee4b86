"""Options and their panels on the help page, and the options that several commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import click

from ddol.job.job import GROUPS, Job
from ddol.logs import LEVELS, tell
from ddol.parameters import Parameter, parameters_of

_OTHERS = "Options"

COUNT = click.IntRange(min=1)
COUNT_FROM_ZERO = click.IntRange(min=0)
NOT_NEGATIVE = click.FloatRange(min=0)

Decorator = Callable[[Any], Any]


class Option(click.Option):
    """An option in one of the panels of the help page.

    ``names`` is a function of the names that it understands, which the help page lists.
    """

    def __init__(
        self,
        *args: Any,
        panel: str = _OTHERS,
        names: Callable[[], Iterable[str]] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.panel, self.names = panel, names

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The name and what it says, with the names of the registry as it is now."""
        plain = self.help
        if self.names is not None:
            self.help = f"{plain} One of {', '.join(self.names())}."
        try:
            record = super().get_help_record(ctx)
        finally:
            self.help = plain
        if record is None or self.default is not False or not self.secondary_opts:
            return record
        # What is off by default needs no mention of how to switch it off.
        name, text = record
        return name.partition(" / ")[0], text.replace(
            f"[default: {self.secondary_opts[0][2:]}]", ""
        )


class Value(click.ParamType):
    """The values of a declared parameter."""

    def __init__(self, parameter: Parameter) -> None:
        self.parameter = parameter
        kinds = parameter.kinds
        self.name = "NAME" if kinds in ((), (str,)) else kinds[0].__name__

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value that a word stands for."""
        return (
            self.parameter.parsed(value, self.parameter.flag) if isinstance(value, str) else value
        )


def option_of(parameter: Parameter, **changes: Any) -> Option:
    """The option of a declared parameter.

    Parameters
    ----------
    parameter : Parameter
    **changes
        Fields of the parameter that this command has otherwise.

    Examples
    --------
    >>> option_of(Parameter("on_lost", default="wait")).opts
    ['--on-lost']
    """
    changed = replace(parameter, **changes)
    more: dict[str, Any] = {"show_default": changed.shown or changed.default is not None}
    spellings = list(changed.spellings or (changed.flag,))
    if changed.is_flag:
        spellings[-1] += f"/--no-{spellings[-1][2:]}"
    else:
        more |= {"type": Value(changed), "metavar": changed.metavar, "multiple": changed.many}
    if changed.bare is not None:
        more |= {"is_flag": False, "flag_value": changed.bare}
    return Option(
        [*spellings, changed.name],
        panel=changed.group or _OTHERS,
        names=changed.names,
        help=changed.help,
        default=changed.default,
        **more,
    )


def options_of(part: Any, *names: str, **changes: Mapping[str, Any]) -> Decorator:
    """Options of a dataclass of declared parameters: of all its fields, or of those that are named.

    Parameters
    ----------
    part : dataclass
    *names : str
        Fields; all if none is named.
    **changes : dict
        By the name of a field: what this command has otherwise.
    """
    known = parameters_of(part, GROUPS[part])

    def decorate(command: Any) -> Any:
        for name in reversed(names or tuple(known)):
            made = option_of(known[name], **changes.get(name, {}))
            _attach(command, made)
        return command

    return decorate


def _attach(command: Any, made: click.Parameter) -> None:
    """Remember a parameter of a function that becomes a command, as click's own decorators do."""
    if not hasattr(command, "__click_params__"):
        command.__click_params__ = []
    command.__click_params__.append(made)


def typed(ctx: click.Context) -> set[str]:
    """Names of the options given on the command line."""
    line = click.core.ParameterSource.COMMANDLINE
    return {name for name in ctx.params if ctx.get_parameter_source(name) == line}


def job_from(given: Mapping[str, Any], chosen: Collection[str]) -> Job:
    """The job that options describe; or that of a file among the data, overridden by the options.

    Parameters
    ----------
    given : dict
        All options of a job that the command has, and ``data``.
    chosen : names
        Of the options that the user gave.
    """
    files = [path for path in given["data"] if path.endswith(".toml")]
    if not files:
        return Job.of(**given)
    if len(files) > 1:
        raise ValueError(f"found {len(files)} jobs ({', '.join(files)}), expected one")
    overrides = {name: given[name] for name in chosen if name in given and name != "data"}
    others = tuple(path for path in given["data"] if path not in files)
    return Job.read(files[0]).but(**overrides, **({"data": others} if others else {}))


_ALL = "ddol.help_all"


def help_all() -> Option:
    """The option that shows all options."""

    def show(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
        if wanted and not ctx.resilient_parsing:
            ctx.meta[_ALL] = True
            click.echo(ctx.get_help())
            ctx.exit()

    text = "Show all options and exit."
    return Option(
        ["--help-all"], help=text, is_flag=True, is_eager=True, expose_value=False, callback=show
    )


class Command(click.Command):
    """A command whose help page shows the options in panels.

    Parameters
    ----------
    algorithms : bool
        Whether it has an option for every parameter of the presets, those of a user's own included.
    short : names of options, optional
        Those that ``--help`` shows, where ``--help-all`` shows all.
    renamed : dict, optional
        Options of the version before by their present names: they still work, and one line names the new one.
    """

    def __init__(
        self,
        *args: Any,
        algorithms: bool = False,
        short: Sequence[str] | None = None,
        renamed: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.algorithms, self.short, self.renamed = algorithms, short, dict(renamed or {})
        if short is not None:
            self.params.append(help_all())

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Its options; those of presets as they are registered now."""
        given = super().get_params(ctx)
        if not self.algorithms:
            return given
        from ddol.presets import preset_parameters

        has = {each.name for each in given}
        more = [each for name, each in preset_parameters().items() if name not in has]
        made: list[click.Parameter] = [
            option_of(each, default=None, shown=each.shown or _plain(each.default)) for each in more
        ]
        after = next(k for k, each in enumerate(given) if each.name == "algorithm") + 1
        return [*given[:after], *made, *given[after:]]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write every panel, in the order of the options."""
        panels: dict[str, list[tuple[str, str]]] = {}
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        if self.short is not None and not ctx.meta.get(_ALL):
            shown = [*self.short, "help_all", "debug"]
            options = [each for each in options if each.name in shown or "--help" in each.opts]
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
        words = [self._present_name(word) for word in args]
        for place, word in enumerate(words):
            following = words[place + 1] if place + 1 < len(words) else ""
            if word in may_have and not following.isdigit():
                words[place] = f"{word}={may_have[word]}"
        return super().parse_args(ctx, words)

    def _present_name(self, word: str) -> str:
        """The argument as it is; for a renamed option its present name, after a line that says so."""
        old, *value = word.split("=", 1)
        if old not in self.renamed:
            return word
        tell(f"{old} is now {self.renamed[old]}")
        return "=".join([self.renamed[old], *value])

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


def _remember_debug(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        ctx.find_root().meta["debug"] = True


def _configure_logs(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Configure once both options are known; lines are as ever where neither is given."""
    chosen = ctx.find_root().meta
    chosen[f"log {param.name}"] = value
    form, level = chosen.get("log log_format"), chosen.get("log log_level")
    if form is not None or level is not None:
        from ddol.cli.logs import configure

        configure(form, level)


def log_format() -> str | None:
    """The format of lines that the command line, or the environment, chose."""
    chosen: str | None = click.get_current_context().find_root().meta.get("log log_format")
    return chosen


_log_format = flag(
    "--log-format FORM",
    "Log to standard error as text, or as JSON without a table. Environment: DDOL_LOG_FORMAT.",
    type=click.Choice(("text", "json")),
    envvar="DDOL_LOG_FORMAT",
    expose_value=False,
    callback=_configure_logs,
)
_log_level = flag(
    "--log-level LEVEL",
    "Log messages of this level and above. Environment: DDOL_LOG_LEVEL.",
    type=click.Choice(LEVELS),
    envvar="DDOL_LOG_LEVEL",
    expose_value=False,
    callback=_configure_logs,
)
_traceback = flag(
    "--debug",
    "Show the traceback of an error.",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_remember_debug,
)


def debug(command: Any) -> Any:
    """Options of every command: logging, and tracebacks of errors."""
    return _log_format(_log_level(_traceback(command)))


as_json = flag("--json", "Print JSON.", is_flag=True)


def _plain(default: Any) -> str | None:
    """A default for the help page."""
    if isinstance(default, bool):
        return "yes" if default else "no"
    return (
        None if default is None else f"{default:g}" if isinstance(default, float) else str(default)
    )


def without_blas_threads() -> None:
    """Keep NumPy from starting BLAS threads, unless the environment asks for them.

    They spin for a while when they are started, beside the threads that read, learn and score, which share
    the cores among themselves: on two cores a small run took a third longer.
    """
    if "numpy" not in sys.modules:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
