"""``ddol serve``, ``ddol relay`` and ``ddol replay``: live nodes."""

from __future__ import annotations

import click

from ddol.cli.flags import Command, debug, flag


@click.command(cls=Command)
@click.argument("config", metavar="NODE.toml")
@flag(
    "--initial MODEL", "Begin with a model of ddol train, where the node has learned nothing yet."
)
@flag("--stdin", "Read JSON lines from standard input, too.", is_flag=True)
@debug
def serve(config: str, initial: str | None, stdin: bool) -> None:
    """Serve predictions and learn from labels, until SIGTERM: then all is written down.

    NODE.toml: what to serve, where, and with whom to share what is learned; see docs/node.md.
    """
    from ddol.cli.blas import without_blas_threads

    without_blas_threads()
    from ddol.node.config import load_config, with_initial
    from ddol.node.serve import begin_logs
    from ddol.node.serve import serve as run

    found = load_config(config)
    begin_logs(found.logs)
    run(found if initial is None else with_initial(found, initial), stdin=stdin)
