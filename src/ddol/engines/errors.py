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
    """What a run was asked to be does not go together; the message says what does."""


class EngineError(RuntimeError):
    """An engine cannot be what it was asked to be; the message says what can."""

    exit_code = 2


class EngineFailedError(EngineError):
    """An engine could not start, or cannot go on, though nothing was wrong with what was asked."""

    exit_code = 1
