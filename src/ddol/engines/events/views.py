"""What agents know of their neighbours' weights, by which they choose receivers and lessons."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ddol.algorithm import Algorithm
from ddol.communicate.mixing import uniform
from ddol.communicate.talking import LOSS, partners_of, teaching_of
from ddol.communicate.topologies import complete
from ddol.compiled import address
from ddol.engines.kernels.neighbours import ViewMemory
from ddol.engines.state import start_state
from ddol.engines.workers.partition import Partition
from ddol.engines.workers.shares import each_its_own
from ddol.engines.workers.worker import KernelWorker
from ddol.schedules.clock import EventChunk
from ddol.schedules.events import ANSWER, GRADIENT, TEACH, Events
from ddol.schedules.wiring import Wiring
from ddol.streams.rows import Rows
from ddol.update.rates import constant


class NeighbourViews:
    """Each agent's copy of every neighbour's weights, numbered by the wires that messages come by.

    Parameters
    ----------
    algorithm : Algorithm
        On its network.
    wires : Wiring
    decides : bool
        Whether agents choose receivers and lessons; else a recording names them.
    """

    def __init__(self, algorithm: Algorithm, wires: Wiring, decides: bool) -> None:
        self.algorithm, self.wires = algorithm, wires
        self.partners = partners_of(algorithm.talk_to) if decides else None
        self.teaching = teaching_of(algorithm.teach) if decides else None
        self.follows = False
        """Whether a recording has gradients, which were taken at views."""
        n, count = algorithm.n_agents, len(wires.sender)
        self.back = wires.between(wires.sender, wires.listener)
        self.known, self.quiet, self.place = np.full((3, count), -1, np.int64)
        self.quiet[:] = 0
        starts = wires.spoken_starts
        self.place[wires.spoken] = np.arange(len(wires.spoken)) - np.repeat(
            starts[:-1], np.diff(starts)
        )
        by_loss = self.partners is not None and self.partners.by == LOSS
        self.use = np.full(count, 0.0 if by_loss else np.inf)
        self.degree = int(np.diff(starts).max(initial=0))
        self.addressed = np.zeros((0, self.degree), np.int64)
        self.pace, self.slopes = np.zeros(n), np.zeros((3, algorithm.outputs))
        self.gains = np.zeros(int(np.diff(wires.starts).max(initial=0)))
        self.taught, self.lessons = np.empty((0, 2), np.int64), np.zeros(1, np.int64)
        self.after: list[np.ndarray] = []
        self.given: list[Events] = []
        self.views: KernelWorker | None = None

    @property
    def has_views(self) -> bool:
        """Whether agents need the predictions of their neighbours."""
        return self.follows or self.partners is not None or self.teaching is not None

    def prepare(self, n_features: int) -> None:
        """Begin with fresh views of so many features."""
        if not self.has_views:
            return
        count = len(self.wires.sender)
        mixing, rate = uniform(complete(count)), constant(1.0)  # lessons have the pupil's own
        each = replace(self.algorithm, mixing=mixing, delay=0, rate=rate)
        state = each_its_own(start_state(each, n_features), count)
        self.views = KernelWorker(each, state, Partition(0, count), separate=True)
        self.known[:] = -1

    def worker(self, rows: Rows, otherwise: bytes) -> bytes:
        """The views as a worker, for these rows."""
        return otherwise if self.views is None else self.views.at_hand(rows)[0]

    def memory(self, chunk: EventChunk) -> ViewMemory:
        """The addresses that kernels need, with room for the results of some events."""
        if self.partners is not None and chunk.messages > len(self.addressed):
            more = np.zeros((chunk.messages - len(self.addressed), self.degree), np.int64)
            self.addressed = np.concatenate([self.addressed, more])
        pupils = 0 if self.teaching is None else self.teaching.k
        if pupils:
            answers = int(np.count_nonzero(chunk.kind == ANSWER))
            self.taught = np.empty((pupils * answers, 2), np.int64)
        self.lessons[0] = 0
        return ViewMemory(
            views=self.views is not None, back=address(self.back), known=address(self.known),
            partners=0 if self.partners is None else self.partners.k,
            by_loss=self.partners is not None and self.partners.by == LOSS,
            use=address(self.use), quiet=address(self.quiet), place=address(self.place), degree=self.degree,
            addressed=address(self.addressed), pupils=pupils,
            gradients=self.teaching is not None and self.teaching.gradients,
            pace=address(self.pace), slopes=address(self.slopes), gains=address(self.gains),
            taught=address(self.taught), lessons=address(self.lessons),
        )  # fmt: skip

    def record(self, chunk: EventChunk, before: int) -> None:
        """Keep the lessons of some events, of which so many were recorded before."""
        places, wires = self.taught[: self.lessons[0]].T
        gradients = self.teaching is not None and self.teaching.gradients
        self.after.append(before + places)
        self.given.append(
            Events(
                np.full(len(places), GRADIENT if gradients else TEACH, np.int8),
                self.wires.listener[wires].astype(np.int32),
                self.wires.sender[wires].astype(np.int32),
                chunk.row[places],
                chunk.time[places],
            )
        )

    def amended(self, events: Events) -> Events:
        """The events with the lessons in their places, and without those that did not happen."""
        after = np.concatenate([np.empty(0, np.int64), *self.after])
        return events.amended(after, Events.joined(self.given))


def no_views() -> ViewMemory:
    """The memory of agents without views."""
    return ViewMemory._make(0 for _ in ViewMemory._fields)
