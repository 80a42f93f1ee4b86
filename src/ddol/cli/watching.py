"""What is done while a run goes on: show where it stands, keep checkpoints, and stop."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddol.cli.run_processes import RunProcesses
from ddol.cli.table import ProgressTable
from ddol.engines.errors import RankLostError
from ddol.engines.learner import Learner
from ddol.engines.progress import Progress
from ddol.job.checkpoints import CheckpointWriter
from ddol.job.pipeline import Prepared
from ddol.job.stopping import Signals, StoppedError

if TYPE_CHECKING:
    from ddol.job.holdout import Holdout
    from ddol.lab.live.watched import WatchedRun


@dataclass
class RunWatch:
    """What is to be done while a run goes on: show where it stands, keep checkpoints, and stop.

    Where examples come through a `pipe`, whose next may never come, nobody waits for the end of a block.
    """

    learner: Learner
    prepared: Prepared
    writer: CheckpointWriter
    job: RunProcesses
    signals: Signals
    pipe: bool
    table: ProgressTable | None = None
    holdout: Holdout | None = None
    page: WatchedRun | None = None

    def __call__(self, progress: Progress) -> None:
        """Look at a run that stands here."""
        # Until now there was nothing to be lost.
        self.signals.at_once = self.pipe
        # A loss is noticed again, told and made up for by the learner.
        with suppress(RankLostError):
            self._look(progress)

    def _look(self, progress: Progress) -> None:
        """Show, keep and stop, each if it is time to.

        Processes take part in all of it together, and what they remember of the last time may
        differ once one of them was lost; so it is time for all if it is for one.
        """
        table, between_blocks = self.table, progress.position is not None
        may_stop = between_blocks or progress.may_stop
        if self.page is not None:
            self.page(progress)
        if table is None and not may_stop:
            return
        shows, keeps, number = self.job.most(
            [
                int(table is not None and table.due(progress)),
                int(between_blocks and self.writer.due(progress)),
                (self.signals.caught or 0) if may_stop else 0,
            ]
        )
        if table is not None:
            measured = self.holdout.measured(self.learner) if shows and self.holdout else None
            table.show(progress, bool(shows), measured)
        if keeps or (number and between_blocks):
            self.writer.save(self.learner, progress, self.prepared.encoding, self.job.leads)
            if self.page is not None and self.writer.folder is not None:
                self.page.note(f"checkpoint after {progress.examples:,} examples")
        if number:
            raise StoppedError(number)
