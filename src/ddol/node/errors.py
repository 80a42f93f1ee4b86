"""Errors of nodes: wrong input, refused messages, a journal that cannot be written."""

from __future__ import annotations


class NodeError(ValueError):
    """Wrong input to a node, in one sentence."""


class DivergedError(NodeError):
    """The weights of a node are not finite any more."""


class RefusedMessageError(NodeError):
    """A message that is refused; `reason` is a word or two, for counting."""

    def __init__(self, reason: str, sentence: str, sender: str = "") -> None:
        super().__init__(sentence)
        self.reason, self.sender = reason, sender


def worth_telling(count: int) -> bool:
    """Whether a refusal is logged: the first, the tenth, the hundredth, …; they must not fill a disk.

    Examples
    --------
    >>> [count for count in range(1, 200) if worth_telling(count)]
    [1, 10, 100]
    """
    return count == 10 ** (len(str(count)) - 1)


def check_text(text: str, what: str) -> None:
    r"""Refuse text that cannot be written as UTF-8: half of a surrogate pair.

    Examples
    --------
    >>> check_text("\ud800", "label")
    Traceback (most recent call last):
    ...
    ddol.node.errors.NodeError: label: found '\ud800', expected Unicode text
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NodeError(f"{what}: found {text[:60]!r}, expected Unicode text") from None


class NotDurableError(RuntimeError):
    """The journal cannot be written: the answer was not learned, and may be given again."""
