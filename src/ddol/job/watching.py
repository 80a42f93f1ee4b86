"""During a run: show progress, write it as JSON, keep checkpoints, and stop at signals."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ddol.algorithm import Algorithm
from ddol.engines.drift import Rise
from ddol.engines.errors import RankLostError
from ddol.engines.feed import Feed
from ddol.engines.learner import Learner
from ddol.engines.progress import Progress
from ddol.job.interface import Display, Page
from ddol.job.options import OutputOptions
from ddol.job.outputs import STDOUT
from ddol.job.pipeline import MOST_DOUBTS
from ddol.job.prepare import PreparedJob
from ddol.job.stopping import Signals, StoppedError
from ddol.storage import naming
from ddol.streams.coding.encoding import Encoding
from ddol.trace import Trace

if TYPE_CHECKING:
    from ddol.job.evaluation import Holdout
    from ddol.job.tally import Tally
    from ddol.streams.coding.units import UnitDoubt


@dataclass
class RunWatch:
    """Called during a run: show progress, keep checkpoints, and stop.

    Where examples come through a pipe, whose next may never come, it stops without waiting for the end of
    a block.
    """

    made: PreparedJob
    learner: Learner
    feed: Feed
    writer: CheckpointWriter
    say: Callable[[str], None]
    signals: Signals | None = None
    on_progress: Callable[[Progress], None] | None = None
    display: Display | None = None
    holdout: Holdout | None = None
    page: Page | None = None
    tally: Tally | None = None
    lines: ProgressLines | None = None
    alarms_shown: int = 0
    """Alarms that were reported."""
    units_shown: int = 0
    """Columns in other units that were reported."""
    units: list[UnitDoubt] = field(default_factory=list)
    """Columns that came to be in other units, of all processes; known when the run has ended."""

    @property
    def listens(self) -> bool:
        """Whether there is anything to do during the run."""
        tasks = (
            self.signals,
            self.on_progress,
            self.display,
            self.page,
            self.lines,
            self.writer.folder,
        )
        return any(task is not None for task in tasks)

    def __call__(self, progress: Progress) -> None:
        """Take the progress of the run."""
        if self.signals is not None:
            # Until now there was nothing to be lost.
            self.signals.at_once = self.made.job.data.from_stdin
        progress = self._with_units(progress)
        if self.page is not None:
            self.page(progress)
        if self.lines is not None:
            self.lines(progress)
        if self.on_progress is not None:
            self.on_progress(progress)
        for rise in progress.drift[self.alarms_shown :]:
            self._report_drift(rise)
        self.alarms_shown = len(progress.drift)
        # The learner notices the lost process again, reports it and recovers.
        with suppress(RankLostError):
            self._look(progress)

    def _with_units(self, progress: Progress) -> Progress:
        """The progress with the columns that this process has found in other units, each reported once."""
        watch = self.made.data.watch
        if watch is None or not watch.doubts:
            return progress
        self.report_units()
        return replace(progress, units=tuple(watch.doubts))

    def report_units(self) -> None:
        """Report columns whose units have changed; the process that reads the site does."""
        data = self.made.data
        doubts = [] if data.watch is None else data.watch.doubts[self.units_shown : MOST_DOUBTS]
        self.units_shown += len(doubts)
        for doubt in doubts:
            text = doubt.in_words(data.unit_remedy, "now ")
            if self.page is not None:
                self.page.note(text)
            if self.display is not None and self.made.processes.leads:
                self.display.note(f"warning: {text}")
            else:
                self.made.processes.warn_here(text)

    def _report_drift(self, rise: Rise) -> None:
        """Report that the error has risen, above the table if there is one."""
        text = drift_in_words(rise, self.made.algorithm.classification)
        own = self.made.job.algorithm
        if own.name == "adaptive" and "memory" not in own.parameters:
            text += "; --memory auto follows changes"
        if self.page is not None:
            self.page.note(text)
        if self.display is not None:
            self.display.note(text)
        elif self.made.processes.leads and not self.made.job.output.quiet:
            self.say(text)

    def _look(self, progress: Progress) -> None:
        """Show, keep and stop, each if it is time to.

        Processes take part in all of it together, and what they remember of the last time may
        differ once one of them was lost; so it is time for all if it is for one.
        """
        display, between_blocks = self.display, progress.position is not None
        may_stop = between_blocks or progress.may_stop
        if display is None and not may_stop:
            return
        caught = None if self.signals is None else self.signals.caught
        processes = self.made.processes
        shows, keeps, number = processes.most(
            [
                int(display is not None and display.due(progress)),
                int(between_blocks and self.writer.due(progress)),
                (caught or 0) if may_stop else 0,
            ]
        )
        if display is not None:
            held = self.holdout.measured(self.learner) if shows and self.holdout else None
            display.show(progress, bool(shows), held)
        if keeps or (number and between_blocks):
            self.writer.save(self.learner, progress, self.made.data.encoding, processes.leads)
            if self.page is not None and self.writer.folder is not None:
                self.page.note(f"checkpoint after {progress.examples:,} examples")
        if number:
            raise StoppedError(number)


def drift_in_words(rise: Rise, classification: bool) -> str:
    """An alarm in words.

    Examples
    --------
    >>> drift_in_words(Rise(5000, 0.312, 0.124, last=1000), classification=True)
    'drift: the error of the last 1,000 examples is 31.2 %, it was 12.4 % before (after 5,000 examples)'
    """
    if classification:
        now, before, what = f"{rise.error:.1%}", f"{rise.before:.1%}", "error"
        now, before = now.replace("%", " %"), before.replace("%", " %")
    else:
        now, before, what = f"{rise.error:.4g}", f"{rise.before:.4g}", "mean loss"
    return (
        f"drift: the {what} of the last {rise.last:,} examples is {now}, it was {before} before "
        f"(after {rise.examples:,} examples)"
    )


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


_SECONDS = 1.0
"""Time between two lines."""


class ProgressLines:
    """Writes a line now and then, and one at the end.

    Parameters
    ----------
    file : text file
    algorithm : Algorithm
    now : function that returns seconds
    """

    def __init__(
        self, file: IO[str], algorithm: Algorithm, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.file, self.algorithm, self.now = file, algorithm, now
        self._next = 0.0
        self._recent: float | None = None
        self._units: list[dict[str, Any]] = []

    def __call__(self, progress: Progress) -> None:
        """Write the progress, if it is time to."""
        self._recent = progress.window_error
        self._units = [doubt._asdict() for doubt in progress.units]
        if self.now() < self._next:
            return
        self._next = self.now() + _SECONDS
        self._write(
            "running", progress.examples, progress.rounds, progress.loss.sum(), progress.mistakes.sum(),
            seconds=round(progress.seconds, 3), consensus=progress.consensus, messages=progress.messages,
            bytes_sent=progress.bytes_sent, **self._spent(int(progress.agent_examples.max())),
        )  # fmt: skip

    def end(self, trace: Trace) -> None:
        """Write where the run ended."""
        assert trace.state is not None
        self._write(
            "done", trace.examples, trace.rounds, trace.loss.sum(), trace.mistakes.sum(),
            seconds=round(trace.seconds, 3), consensus=trace.consensus, messages=trace.messages,
            bytes_sent=trace.bytes_sent, **self._spent(int(trace.state.examples.max())),
        )  # fmt: skip

    def _spent(self, examples: int) -> dict[str, float]:
        """The ε that an agent with so many examples has spent, where there is a budget."""
        budget: Any = self.algorithm.privacy
        if budget is None:
            return {}
        return {"epsilon_spent": budget.spent(budget.released_after(examples))}

    def _write(
        self, state: str, examples: int, rounds: int, loss: float, mistakes: int, **more: Any
    ) -> None:
        found: dict[str, Any] = {"state": state, "examples": int(examples), "rounds": int(rounds)}
        if self.algorithm.classification:
            found |= {"mistakes": int(mistakes), "error": float(mistakes) / max(int(examples), 1)}
        found |= {
            "mean_loss": float(loss) / max(int(examples), 1),
            "window_error": self._recent,
            "units": self._units,
            **more,
        }
        plain = {name: None if value != value else value for name, value in found.items()}
        self.file.write(json.dumps(plain) + "\n")
        self.file.flush()


@contextmanager
def progress_lines(path: str, algorithm: Algorithm) -> Iterator[ProgressLines]:
    """Progress lines appended to a file, or written to standard output."""
    if path == STDOUT:
        yield ProgressLines(sys.stdout, algorithm)
        return
    with naming(path), Path(path).open("w", encoding="utf-8") as file:
        yield ProgressLines(file, algorithm)
