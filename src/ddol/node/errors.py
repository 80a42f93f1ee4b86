"""What a node refuses, and why it cannot acknowledge."""

from __future__ import annotations


class NodeError(ValueError):
    """Something given to a node that it cannot use, in one sentence."""


class RefusedMessageError(NodeError):
    """A message that is not taken: `reason` in one word, for counting."""

    def __init__(self, reason: str, sentence: str, sender: str = "") -> None:
        super().__init__(sentence)
        self.reason, self.sender = reason, sender


class NotDurableError(RuntimeError):
    """The journal cannot be written: the answer was not learned, and may be given again."""
