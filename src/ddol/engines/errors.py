"""Errors of engines."""

from __future__ import annotations


class RankLostError(RuntimeError):
    """Another process of the job was lost."""

    def __init__(self, reason: str = "noticed at the end") -> None:
        super().__init__(
            f"another rank of the job has died ({reason}); start again, with --resume if there is "
            "a checkpoint"
        )


class SetupError(ValueError):
    """Options of a run that contradict each other; the message says what to change."""


class EngineError(RuntimeError):
    """An engine cannot do what was asked for; the message says what to change."""

    exit_code = 2


class EngineFailedError(EngineError):
    """An engine could not start, or cannot go on, though its options were right."""

    exit_code = 1
