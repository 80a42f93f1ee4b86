"""What ddol tells while it works: Python's logging under the name ``ddol``, or plain lines.

A program that uses ddol configures the logger ``ddol`` as any other, by a handler of its own; until then
lines go to standard error as they are. Commands configure it by ``--log-format`` and ``--log-level``.
"""

from __future__ import annotations

import sys
from typing import Any

LEVELS = ("debug", "info", "warning", "error")
"""Of the least to the most important."""


def tell(text: str, level: str = "info", start: str = "") -> None:
    """Log a line; print it, after a ``start``, where the logger has no handler.

    Examples
    --------
    >>> tell("model: m.ddol")
    """
    if logger := _configured():
        logger.log(10 * (1 + LEVELS.index(level)), text)
        return
    mark = "warning: " if level == "warning" else ""
    print(f"{start}{mark}{text}", file=sys.stderr, flush=True)


def _configured() -> Any:
    """The logger, if it has a handler; a run that nobody logs does not import Python's logging."""
    logging = sys.modules.get("logging")
    logger = None if logging is None else logging.getLogger("ddol")
    return logger if logger is not None and logger.handlers else None
