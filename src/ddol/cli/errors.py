"""Turn errors into one line on standard error and an exit code."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection, Mapping
from importlib import import_module
from typing import Any

import click

from ddol.job.stopping import Signals, StoppedError
from ddol.logs import tell
from ddol.parameters import NotAParameterError


class Commands(click.Group):
    """The commands of ddol, with their errors in one line; a traceback with ``--debug`` only.

    Parameters
    ----------
    homes : dict
        The module of every command: only that of the chosen command is imported.
    servers : names
        Commands that run until a signal ends them: one before they have begun is an end in order.
    """

    def __init__(
        self, *args: Any, homes: Mapping[str, str], servers: Collection[str] = (), **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.homes, self.servers = homes, servers

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands, the most used first."""
        return list(self.homes)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name."""
        home = self.homes.get(cmd_name)
        return None if home is None else getattr(import_module(home), cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; a signal ends it at once, unless it handles signals itself."""
        try:
            with Signals(at_once=True):
                return super().invoke(ctx)
        except (click.exceptions.Exit, click.Abort, click.ClickException):
            raise  # an end, or wrong usage, which click prints itself with the usage line
        except BrokenPipeError:
            # The reader of our output has closed it: what is still buffered is dropped.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.exceptions.Exit(0) from None
        except (Exception, StoppedError) as error:
            if isinstance(error.__cause__, StoppedError):  # it came while compiled code was at work
                error = error.__cause__
            if isinstance(error, StoppedError) and ctx.invoked_subcommand in self.servers:
                raise click.exceptions.Exit(0) from None
            _let_the_first_speak()
            if ctx.meta.get("debug"):
                import traceback

                traceback.print_exc()
            tell(_one_line(error), "error", _prefix(error))
            raise click.exceptions.Exit(_exit_code(error)) from None
        finally:
            if "ddol.cli.logs" in sys.modules:
                sys.modules["ddol.cli.logs"].forget()


def _let_the_first_speak() -> None:
    """Ranks of an MPI job often fail alike; the first one's line is enough, and ends the others."""
    if os.environ.get("OMPI_COMM_WORLD_RANK", "0") != "0":
        time.sleep(0.5)


def _prefix(error: BaseException) -> str:
    return "" if isinstance(error, StoppedError) else "ddol: "


def printable(text: str) -> str:
    r"""Text without what would steer a terminal: files and their names may hold anything.

    Examples
    --------
    >>> printable("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def spelled(name: str) -> str:
    """A parameter as the command line writes it."""
    return f"--{name.replace('_', '-')}"


_LONGEST = 4000
"""Characters of a line; names of columns and labels in a file may be longer."""


def _one_line(error: BaseException) -> str:
    message = error.message(spelled) if isinstance(error, NotAParameterError) else str(error)
    text = printable(" ".join(message.split()))
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    plain = isinstance(error, ValueError | OSError) or type(error).__module__.startswith("ddol")
    return text if text and plain else f"{type(error).__name__}: {text or 'no message'}"


def _exit_code(error: BaseException) -> int:
    code = getattr(error, "exit_code", None)
    if isinstance(code, int):
        return code
    return 2 if isinstance(error, ValueError | FileNotFoundError) else 1
