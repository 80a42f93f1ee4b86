"""How a job reports to the interface that started it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ddol.storage import Warn

if TYPE_CHECKING:
    from ddol.engines.learner import Learner
    from ddol.engines.progress import Progress
    from ddol.job.evaluation import HeldOutFigures
    from ddol.job.prepare import PreparedJob
    from ddol.job.stopping import Signals
    from ddol.job.tally import Tally
    from ddol.trace import Trace


class Display(Protocol):
    """What is shown of a run now and then, such as a table."""

    def due(self, progress: Progress) -> bool:
        """Whether it is time to show progress."""

    def show(self, progress: Progress, due: bool, held: HeldOutFigures | None) -> None:
        """Show progress."""

    def note(self, text: str) -> None:
        """Show what happened."""

    def end(self, held: HeldOutFigures | None) -> None:
        """Show the end of the run."""

    def close(self) -> None:
        """Leave the screen as it was."""


class Page(Protocol):
    """Live page of a run; with a tally it also shows baselines."""

    tally: Tally | None

    def __call__(self, progress: Progress) -> None:
        """Show progress."""

    def note(self, text: str) -> None:
        """Show what happened."""


def _silent(text: str) -> None:
    pass


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=3)


@dataclass(frozen=True)
class Interface:
    """How a job reports to its caller. By default it prints nothing and warns as Python does.

    Parameters
    ----------
    say, warn : functions of one line
    display : function of the prepared job and its learner, optional
        Makes what is shown while the run goes on.
    signals : Signals, optional
        Stops the run when it catches one.
    in_mid_run : function that returns a context
        Entered once everything is checked: what fails in it is not the fault of the options.
    on_progress : function of Progress, optional
        Called whenever the run tells where it stands.
    finished : function of the prepared job and its trace, optional
        Called after all outputs are written.
    advice : str
        How a run that was stopped goes on, for one that keeps checkpoints.
    command : str
        What the report calls the run.
    """

    say: Callable[[str], None] = _silent
    warn: Warn = _warn
    display: Callable[[PreparedJob, Learner], Display | None] | None = None
    signals: Signals | None = None
    in_mid_run: Callable[[], AbstractContextManager[Any]] = nullcontext
    on_progress: Callable[[Progress], None] | None = None
    finished: Callable[[PreparedJob, Trace], None] | None = None
    advice: str = ""
    command: str = ""
