"""What is remembered of a run that goes on: enough to draw it from its beginning at any time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from threading import Condition
from typing import Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.feed import Feed
from ddol.engines.progress import Progress
from ddol.job.tally import Tally
from ddol.recording import Curves
from ddol.streams.dealing import progress as work_done
from ddol.trace import Trace
from ddol.version import __version__

_MOST_POINTS = 256
_MOST_NOTES = 200
_MOST_NAMED = 10
_MOST_IN_BAND = 1024


@dataclass
class WatchedRun:
    """A run as its page knows it; an instance is what ``on_progress`` calls.

    Points of the curves are thinned to 256, notes to the last 200, and as many of agents that go and
    come, so that the longest run takes no more memory than a short one.

    Parameters
    ----------
    algorithm : Algorithm
        On its network.
    n_features : int
        Experts, where there are some; 0 while it is not known.
    data, engine : str
        What is read, and where it runs.
    feed : Feed, optional
        From which the share of the work that is done is known.
    in_process : bool
        Whether this process sees all examples.
    sites : tuple of str
        What the agents are called; their numbers if they have no names.
    tally : Tally, optional
        Counts of labels, for the errors of guessing.

    Examples
    --------
    >>> import ddol
    >>> watched = WatchedRun(ddol.dogd().on(2))
    >>> trace = ddol.run(watched.algorithm, (np.eye(8), [1, -1] * 4), on_progress=watched)
    >>> watched.trace().examples
    8
    """

    algorithm: Algorithm
    n_features: int = 0
    data: str = ""
    engine: str = "local"
    feed: Feed | None = None
    in_process: bool = True
    sites: tuple[str, ...] = ()
    tally: Tally | None = None
    last: Progress | None = None
    share: float | None = None
    ended: bool = False
    version: int = 0
    changed: Condition = field(default_factory=Condition)

    def __post_init__(self) -> None:
        self._points: list[Progress] = []
        self._apart = 1
        self._calls = 0
        self._notes: deque[tuple[float, str]] = deque(maxlen=_MOST_NOTES)
        # Apart, since agents may come and go all the time and push nothing else out.
        self._absences: deque[tuple[float, str]] = deque(maxlen=_MOST_NOTES)
        self._absent = np.zeros(self.algorithm.n_agents, bool)
        self._began = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        """Remember where the run stands."""
        with self.changed:
            self.last = progress
            self._note_absences(progress)
            self._calls += 1
            if self._calls % self._apart == 0 or len(self._points) < 16:
                self._points.append(progress)
            if len(self._points) >= _MOST_POINTS:
                self._points, self._apart = self._points[1::2], 2 * self._apart
            if self.feed is not None:
                self.share = self._share_done(self.feed, progress)
            self._news()

    def _share_done(self, feed: Feed, progress: Progress) -> float | None:
        """By where the streams are; within a block, which may be all of the data, by the examples seen."""
        if progress.position is not None:
            return _share(feed, progress.position)
        sizes = [n for stream in feed.streams if (n := stream.n_examples) is not None]
        known = len(sizes) == len(feed.streams) and sum(sizes) > 0
        # Elsewhere a process knows its own streams only.
        if not known or not self.in_process:
            return self.share
        return min(1.0, max(self.share or 0.0, progress.examples / (sum(sizes) * feed.passes)))

    def note(self, text: str) -> None:
        """Write an event down: a checkpoint, a process that was lost."""
        with self.changed:
            self._notes.append((time.monotonic() - self._began, text))
            self._news()

    def _note_absences(self, progress: Progress) -> None:
        now = progress.moments[-1].absent if progress.moments else None
        if now is None:
            return
        changes = {"away": now & ~self._absent, "back": self._absent & ~now}
        text = "; ".join(
            f"{what}: {listed(who, self.sites)}" for what, who in changes.items() if who.any()
        )
        if text:
            self._absences.append((time.monotonic() - self._began, f"agents {text}"))
        self._absent = now

    def end(self, text: str = "the run has ended") -> None:
        """Say that nothing more will come."""
        self.note(text)
        with self.changed:
            self.ended = True
            self._news()

    def _news(self) -> None:
        self.version += 1
        self.changed.notify_all()

    def wait(self, version: int, seconds: float) -> bool:
        """Wait until there is more to show than at a version; whether there is."""
        with self.changed:
            return self.changed.wait_for(lambda: self.version != version, seconds)

    def notes(self) -> Sequence[tuple[float, str]]:
        """Seconds since the beginning and what happened, the newest first."""
        with self.changed:
            return sorted([*self._notes, *self._absences], key=itemgetter(0))[::-1]

    def trace(self) -> Trace | None:
        """The run so far as a trace without weights, from which all charts are drawn."""
        with self.changed:
            if self.last is None:
                return None
            points = self._points if self._points[-1] is self.last else [*self._points, self.last]
            last = self.last
        return Trace(
            algorithm=self.algorithm,
            engine=self.engine,
            workers=1,
            examples=last.examples,
            rounds=last.rounds,
            mistakes=last.mistakes,
            loss=last.loss,
            expected_mistakes=last.expected_mistakes,
            seconds=last.seconds,
            messages=last.messages,
            bytes_sent=last.bytes_sent,
            consensus=last.consensus,
            weights=np.broadcast_to(0.0, (1, 1, max(self.n_features, 1))),
            curves=_curves(points, self.algorithm.n_agents),
            seed=0,
            version=__version__,
            moments=last.moments,
        )


def listed(which: np.ndarray, sites: Sequence[str] = ()) -> str:
    """Names or numbers of the agents for which something holds.

    Examples
    --------
    >>> listed(np.array([True, False, True])), listed(np.ones(13, bool))
    ('0, 2', '0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 3 more')
    >>> listed(np.array([True, False]), ("bern", "rome"))
    'bern'
    """
    numbers = np.flatnonzero(which)
    more = len(numbers) - _MOST_NAMED
    known = len(sites) == len(which)
    named = ", ".join(sites[k] if known else str(k) for k in numbers[:_MOST_NAMED])
    return f"{named} and {more} more" if more > 0 else named


def _share(feed: Feed, position: Any) -> float | None:
    done = work_done(feed.streams, position)
    if done is None or done[1] <= 0:
        return None
    return min(1.0, (position["pass"] + done[0] / done[1]) / feed.passes)


def _curves(points: Sequence[Progress], n_agents: int) -> Curves:
    few = n_agents if n_agents <= _MOST_IN_BAND else 0
    mistakes = np.array([point.mistakes for point in points])
    loss = np.array([point.loss for point in points])
    return Curves(
        rounds=np.array([point.rounds for point in points]),
        examples=np.array([point.examples for point in points]),
        mistakes=mistakes.sum(axis=1),
        loss=loss.sum(axis=1),
        worst=mistakes.max(axis=1),
        consensus=np.array([point.consensus for point in points]),
        best_log_weight=np.array([point.best_log_weight for point in points]),
        agent_examples=np.array([point.agent_examples[:few] for point in points]),
        agent_mistakes=mistakes[:, :few],
        agent_loss=loss[:, :few],
    )
