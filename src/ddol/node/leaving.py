"""Least number of examples between two messages, which limits what a message reveals about one of them."""

from __future__ import annotations

from ddol.streams.errors import DataError

EXAMPLES_BETWEEN = 100
"""Of a node's own, between two messages."""


def checked_between(given: int | None) -> tuple[int, str | None]:
    """The fewest examples between two messages, and a warning where that is less than the default.

    Examples
    --------
    >>> checked_between(None)
    (100, None)
    >>> checked_between(1)[1]
    'with 1 example between two messages neighbours can reconstruct rows; the default is 100 ...'
    """
    if given is None:
        return EXAMPLES_BETWEEN, None
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise DataError(
            f"`least`, the examples between two messages: found {given!r}, expected a whole number above 0"
        )
    if given >= EXAMPLES_BETWEEN:
        return given, None
    examples = f"{given} example{'s' * (given > 1)}"
    return given, (
        f"with {examples} between two messages neighbours can reconstruct rows; the default is "
        f"{EXAMPLES_BETWEEN} (ddol leaks shows how many)"
    )
