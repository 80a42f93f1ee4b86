"""``ddol serve``, ``ddol relay`` and ``ddol replay``: live nodes."""

from __future__ import annotations

import json as json_

import click

from ddol.cli.flags import Command, as_json, debug, flag, log_format


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
    from ddol.cli.flags import without_blas_threads

    without_blas_threads()
    from ddol.node.config import load_config, with_initial
    from ddol.node.serve import begin_logs
    from ddol.node.serve import serve as run

    found = load_config(config)
    begin_logs(log_format() or found.logs)
    run(found if initial is None else with_initial(found, initial), stdin=stdin)


@click.command(cls=Command)
@flag("--listen ADDRESS", "Such as tcp/127.0.0.1:7000; may be given again.", multiple=True)
@flag("--connect ADDRESS", "Another relay; may be given again.", multiple=True)
@flag("--identity FOLDER", "Of ddol network join; without it only loopback addresses are allowed.")
@debug
def relay(listen: tuple[str, ...], connect: tuple[str, ...], identity: str | None) -> None:
    """Pass on messages between nodes that can only connect outwards, until SIGTERM.

    A relay can drop messages, but not read, write or change any: members encrypt and sign them.
    """
    from ddol.node.serve import begin_logs
    from ddol.node.serve import relay as run

    begin_logs(log_format() or "text")
    run(listen or ("tcp/127.0.0.1:7000",), connect, identity)


@click.command(cls=Command)
@click.argument("stores", nargs=-1, required=True, metavar="STORE...")
@as_json
@debug
def replay(stores: tuple[str, ...], json: bool) -> None:
    """Play the journals of nodes again, to the bit, and compare their messages with those that were sent.

    STORE: the folders of nodes (`store` of node.toml; with several models the folder of one in it). One alone
    is played against the messages that it has heard.
    """
    from ddol.node.errors import NodeError
    from ddol.node.replay import compared, replay_store, summary

    replays = [replay_store(store) for store in stores]
    wrong = list(compared(replays))
    found = summary(replays)
    if json:
        click.echo(json_.dumps({"nodes": found, "wrong": wrong}, indent=1))
    else:
        for each in found:
            click.echo(
                f"{each['name']}: {each['examples']:,} examples, error {100 * each['error']:.2f} %, "
                f"{each['messages_checked']} messages sent and {each['messages_heard']} heard"
            )
    if wrong:
        raise NodeError(f"{wrong[0]}; {len(wrong)} differ")
    if not json:
        click.echo("All is as it was, to the bit.")
