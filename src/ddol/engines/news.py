"""What happens to a run besides its rounds: a process is lost, another one has come, somebody is waited for.

News are lines on standard error, wherever they come from, and reach those who listen, such as the live page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ddol.logs import tell as log

_listeners: list[Callable[[str], None]] = []


def tell(text: str) -> None:
    """Write one line on standard error, and tell those who listen."""
    log(text, start="ddol: ")
    for listen in tuple(_listeners):
        listen(text)


@contextmanager
def heard_by(listen: Callable[[str], None]) -> Iterator[None]:
    """Let a function hear all news for a while.

    Examples
    --------
    >>> lines = []
    >>> with heard_by(lines.append):
    ...     tell("actor 1 was lost")
    >>> lines
    ['actor 1 was lost']
    """
    _listeners.append(listen)
    try:
        yield
    finally:
        _listeners.remove(listen)
