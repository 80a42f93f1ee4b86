"""Lines that were left out."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class BadLines:
    """Lines that were skipped in the present pass: how many, and what the first said.

    Parameters
    ----------
    most
        Messages that are kept.
    """

    most: int = 5
    count: int = 0
    messages: list[str] = field(default_factory=list)

    def add(self, count: int, messages: list[str]) -> None:
        """Count bad lines and keep their messages while there is room."""
        self.count += count
        self.messages.extend(messages[: self.most - len(self.messages)])
