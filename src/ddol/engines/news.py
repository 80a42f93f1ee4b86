"""News of a run besides its rounds: a process was lost or replaced, or others wait for it.

News are lines on standard error, and reach listeners such as the live page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ddol.logs import tell as log

_listeners: list[Callable[[str], None]] = []


def tell(text: str) -> None:
    """Write one line on standard error, and call the listeners with it."""
    log(text, start="ddol: ")
    for listen in tuple(_listeners):
        listen(text)


@contextmanager
def heard_by(listen: Callable[[str], None]) -> Iterator[None]:
    """Call a function with all news while this is entered.

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
