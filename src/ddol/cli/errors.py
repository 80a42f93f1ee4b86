"""One place where errors become one line on standard error and an exit code."""

from __future__ import annotations

import os
import sys
import time
import traceback
from typing import Any

import typer
from typer.core import TyperGroup


class Commands(TyperGroup):
    """The commands of ddol, with their errors in one line; a traceback with ``--debug`` only."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, SystemExit, KeyboardInterrupt):
            raise
        except BrokenPipeError:
            # Whoever read our output has enough of it; what is still buffered goes nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except Exception as error:
            if hasattr(error, "format_message"):
                raise  # wrong usage: the parser prints it itself, with the usage line
            _let_the_first_speak()
            if ctx.meta.get("debug"):
                traceback.print_exc()
            print(f"{_prefix(error)}{_one_line(error)}", file=sys.stderr)
            raise typer.Exit(_exit_code(error)) from None


def _let_the_first_speak() -> None:
    """Ranks of an MPI job often fail alike; the first one's line is enough, and ends the others."""
    if os.environ.get("OMPI_COMM_WORLD_RANK", "0") != "0":
        time.sleep(0.5)


def _prefix(error: Exception) -> str:
    return "" if type(error).__name__ == "StoppedError" else "ddol: "


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    plain = isinstance(error, ValueError | OSError) or type(error).__module__.startswith("ddol")
    return text if text and plain else f"{type(error).__name__}: {text or 'no message'}"


def _exit_code(error: Exception) -> int:
    code = getattr(error, "exit_code", None)
    if isinstance(code, int):
        return code
    return 2 if isinstance(error, ValueError | FileNotFoundError) else 1
