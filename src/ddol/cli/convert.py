"""``ddol convert``: files of earlier formats, written in the present one."""

from __future__ import annotations

from pathlib import Path

import click

from ddol.cli.flags import Command, debug


@click.command(cls=Command)
@click.argument("old")
@click.argument("new")
@debug
def convert(old: str, new: str) -> None:
    """Write a model, a checkpoint, or a folder of checkpoints of an earlier version in the present format.

    Files of earlier versions are read as they are, too; convert those that have to last longer than the
    major version.

    OLD: a model, a checkpoint, or a folder of --checkpoint. NEW: where to write.
    """
    from ddol.checkpoint import saved_in

    source, target = Path(old), Path(new)
    if not source.is_dir():
        _convert_file(source, target)
        return
    found = saved_in(source)
    if not found:
        raise ValueError(f"{old}: found no checkpoints, expected checkpoint-….safetensors")
    target.mkdir(parents=True, exist_ok=True)
    for _, path in found:
        _convert_file(Path(path), target / Path(path).name)


def _convert_file(source: Path, target: Path) -> None:
    from ddol.checkpoint import read_checkpoint, write_checkpoint
    from ddol.model import load
    from ddol.storage import check_writable, kind_of

    check_writable(target)
    if kind_of(source) == "checkpoint":
        write_checkpoint(target, read_checkpoint(source))
    else:
        load(source).save(target)
