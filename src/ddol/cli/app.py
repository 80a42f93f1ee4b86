"""The command line: its commands by name, each imported when it is run."""

from __future__ import annotations

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


@click.group(
    cls=Commands,
    homes=_HOMES,
    servers=("serve", "relay"),
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
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
