"""Writing checkpoints now and then."""

from __future__ import annotations

from typing import Any

from ddol.engines.learner import Learner
from ddol.engines.progress import Progress
from ddol.job.options import OutputOptions
from ddol.streams.coding.encoding import Encoding

EVERY = 1_000_000
"""Examples between two checkpoints, unless --every says otherwise."""


class CheckpointWriter:
    """Keeps the checkpoints of a run.

    Parameters
    ----------
    run : OutputOptions
    identity : dict
        Options and data that make the run what it is.
    advice : str
        The command that goes on after a stop.
    """

    def __init__(self, run: OutputOptions, identity: dict[str, Any], advice: str = "") -> None:
        self.folder = run.checkpoint
        self.every = run.every or EVERY
        self.identity = identity
        self.advice = advice
        self.kept = 0

    def due(self, progress: Progress) -> bool:
        """Whether enough examples have passed since the last time."""
        return progress.examples // self.every > self.kept

    def save(self, learner: Learner, progress: Progress, encoding: Encoding, writes: bool) -> None:
        """Save now; all processes of a run take part, one of them writes."""
        self.kept = progress.examples // self.every
        if self.folder is None:
            return
        from ddol.checkpoint import save_checkpoint, take

        plain, arrays = encoding.to_plain()
        checkpoint = take(learner, copy=False, run=self.identity, facts=plain, arrays=arrays)
        if writes:
            save_checkpoint(self.folder, checkpoint)
