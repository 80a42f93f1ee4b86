"""The command line: its commands by name, each imported when it is run."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

import click

from ddol.cli.errors import Commands
from ddol.version import __version__

_OTHERS = (
    "predict",
    "evaluate",
    "inspect",
    "reproduce",
    "sweep",
    "frontier",
    "bound",
    "leaks",
    "privacy",
    "plan",
    "scale",
    "launch",
)
_HOMES = {
    "train": "ddol.cli.train_command",
    **dict.fromkeys(_OTHERS, "ddol.cli.commands"),
    "network": "ddol.cli.network",
    **dict.fromkeys(("serve", "relay", "replay"), "ddol.cli.serve"),
    "convert": "ddol.cli.export",
    "export": "ddol.cli.export",
}
"""Commands, the most used first, and the module of each."""


def _with_own_parts(ctx: click.Context, _: click.Parameter, names: tuple[str, ...]) -> None:
    """Import modules, also from the working directory, here and in processes that are started later."""
    if not names or ctx.resilient_parsing:
        return
    os.environ["DDOL_IMPORT"] = " ".join(names)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    for name in names:
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            raise click.BadParameter(f"{error}", ctx, _) from None


@click.group(
    cls=Commands,
    homes=_HOMES,
    servers=("serve", "relay"),
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.option(
    "--import",
    metavar="MODULE",
    multiple=True,
    envvar="DDOL_IMPORT",
    is_eager=True,
    expose_value=False,
    callback=_with_own_parts,
    help="Import a Python module first, which registers parts of your own. Environment: DDOL_IMPORT.",
)
@click.version_option(__version__, message="ddol %(version)s", help="Show the version.")
@click.pass_context
def app(ctx: click.Context) -> None:
    """Data-distributed online learning: N agents on a graph, one pass, bounded memory.

    To begin: ddol train, which has data built in. ddol COMMAND --help shows a command's options.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        ctx.exit(2)
