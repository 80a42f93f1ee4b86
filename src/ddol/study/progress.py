"""A bar that shows how many of some runs are done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Tell = Callable[[int, int], None]


@contextmanager
def shown(wanted: bool | Tell | None) -> Iterator[Tell]:
    """A function of runs done and runs in all, which draws a bar on standard error.

    Parameters
    ----------
    wanted : bool or function
        None draws it where a terminal is attached; a function is told instead.
    """
    if callable(wanted):
        yield wanted
    elif wanted or (wanted is None and sys.stderr.isatty()):
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("runs", total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
    else:
        yield lambda done, total: None
