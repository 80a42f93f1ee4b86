"""Lines of JSON about where a run stands: for programs that look at it while it goes on."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ddol.algorithm import Algorithm
from ddol.engines.progress import Progress
from ddol.storage import naming
from ddol.trace import Trace

STDOUT = "-"
EVERY = 1.0
"""Seconds between two lines."""


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
        """Write where the run stands, if it is time to."""
        self._recent = progress.window_error
        self._units = [doubt._asdict() for doubt in progress.units]
        if self.now() < self._next:
            return
        self._next = self.now() + EVERY
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
    """Lines to a file, which is appended to as the run goes on, or to standard output."""
    if path == STDOUT:
        yield ProgressLines(sys.stdout, algorithm)
        return
    with naming(path), Path(path).open("w", encoding="utf-8") as file:
        yield ProgressLines(file, algorithm)
