"""State is a value: all that a run must remember between two blocks of rounds."""

from __future__ import annotations

import math
import mmap
import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.communicate.mixing import Changing
from ddol.engines.kernels import COPIES, LOG, SHARED_ADD, SHARED_COLLECT
from ddol.streams.errors import DataError
from ddol.streams.rows import Block, no_rows
from ddol.update.asking import HEARD, LABELS, NUMBERS, QUESTIONS, SHOWN
from ddol.update.contract import ADD, COLLECT, Layout, Loops
from ddol.update.rates import PerAgent


@dataclass(frozen=True)
class State:
    """The state of N agents after t − 1 rounds.

    Parameters
    ----------
    t : int
        The next round.
    theta : (copies, outputs, rows, D)
        Compiled state of the update; one copy where all agents share it.
    scalars : (copies, outputs, scalars)
    sums : (copies, outputs, D), or empty
        Sum of the weights over the rounds, for averaged iterates.
    mistakes, loss, expected, examples : (N,)
        Counters per agent; `expected` is the chance of a mistake, summed, where predictions are drawn.
    slopes : (delay + 1, N, batch, outputs · (1 + kept))
        Slopes whose labels are under way, with what updates noted (see `Layout.kept`), and `pending`, the
        rows that they belong to.
    asking : (N, 6)
        What agents remember of their asking for answers; see `ddol.update.asking`.
    seed : int
        Of the draws of randomised algorithms.
    """

    t: int
    theta: np.ndarray
    scalars: np.ndarray
    sums: np.ndarray
    mistakes: np.ndarray
    loss: np.ndarray
    expected: np.ndarray
    examples: np.ndarray
    slopes: np.ndarray
    asking: np.ndarray
    pending: Block | None = None
    seed: int = 0

    @property
    def n_features(self) -> int:
        """Number of features D."""
        return int(self.theta.shape[3])

    @property
    def by_agent(self) -> np.ndarray:
        """Counters (N, 4) as snapshots have them: mistakes, loss, expected mistakes and examples."""
        return np.column_stack([self.mistakes, self.loss, self.expected, self.examples])

    @property
    def labels(self) -> np.ndarray:
        """Answers that every agent has asked for: those to all examples where there is no rule."""
        return self.asking[:, LABELS].astype(np.int64) if self.asking.size else self.examples

    @property
    def neighbour_answers(self) -> int:
        """Answers that neighbours gave in place of labels."""
        return int(self.asking[:, HEARD].sum())

    @property
    def questions(self) -> tuple[int, int]:
        """Messages and bytes of questions to neighbours; each is an example, and a number comes back."""
        asked, shown = (int(self.asking[:, k].sum()) for k in (QUESTIONS, SHOWN))
        return 2 * asked, shown + 8 * asked

    @property
    def rounds(self) -> int:
        """Rounds played so far."""
        return self.t - 1

    def after(self, rounds: int, pending: Block | None) -> State:
        """The state so many rounds later, where its arrays were written to; `replace` would take long."""
        later = object.__new__(State)
        later.__dict__.update(self.__dict__, t=self.t + rounds, pending=pending)
        return later

    def copy(self) -> State:
        """The same value in memory of its own."""
        arrays: dict[str, Any] = {
            name: copied(value)
            for name, value in vars(self).items()
            if isinstance(value, np.ndarray)
        }
        return replace(self, **arrays)


_PAGE, _SLAB = 512, 1 << 11
_LARGE = 1 << 24
"""For `copied`: numbers of a page, pages that are examined together, and bytes from which it pays."""

_LENT = 1 << 22
"""Bytes from which an array is mapped from the system, and returned to it as soon as it is freed."""


def zeros(shape: tuple[int, ...], kind: Any = np.float64) -> np.ndarray:
    """Zeros for a state: unwritten pages take no memory, and freed memory returns to the system.

    The C library is asked to keep what a block leaves behind (`ddol.streams.store.room`), and would keep
    states as well, each as large as many blocks.

    Examples
    --------
    >>> zeros((2, 3)).tolist(), zeros((1 << 20,), np.int64).dtype
    ([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]], dtype('int64'))
    """
    size = math.prod(shape) * np.dtype(kind).itemsize
    if size < _LENT:
        return np.zeros(shape, kind)
    private = {} if os.name == "nt" else {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS}
    return np.frombuffer(mmap.mmap(-1, size, **private), kind).reshape(shape)


def copied(array: np.ndarray, room: np.ndarray | None = None) -> np.ndarray:
    """Copy an array, into `room` for it if that is given, which must be zeros.

    Zeros that were never written to take no memory, and most of a wide state is such zeros: a copy
    writes only where there is something.

    Examples
    --------
    >>> copied(np.arange(3.0))
    array([0., 1., 2.])
    """
    room = zeros(array.shape, array.dtype) if room is None else room
    if array.nbytes < _LARGE or array.itemsize != 8 or not array.flags.c_contiguous:
        room[...] = array
        return room
    whole = array.size // _PAGE * _PAGE
    given, kept = (each.reshape(-1).view(np.int64) for each in (array, room))
    kept[whole:] = given[whole:]
    pages, places = (each[:whole].reshape(-1, _PAGE) for each in (given, kept))
    for lo in range(0, len(pages), _SLAB):
        some = pages[lo : lo + _SLAB]
        used = np.flatnonzero(np.bitwise_or.reduce(some, axis=1))
        places[lo + used] = some[used]
    return room


def sharing(algorithm: Algorithm) -> int:
    """Whether one copy of the weights serves all agents, and how their steps reach it.

    On a complete graph with equal weights and communication in every round all agents hold the same
    weights after every round.
    """
    together = algorithm.mixing.is_uniform_complete and algorithm.period == 1
    own = algorithm.asking is not None or isinstance(algorithm.rate, PerAgent)
    own = own or algorithm.robust is not None
    if algorithm.n_agents == 1 or not together or own:
        return COPIES
    loops = loops_of(algorithm)
    batched = algorithm.batch > 1
    if loops.shared is None or (
        loops.shared == COLLECT and batched and not algorithm.update.merges
    ):
        return COPIES
    # What an agent has seen of its own examples is in no shared copy before the round is over.
    if loops.observe is not None and (batched or algorithm.delay > 0):
        return COPIES
    return SHARED_ADD if loops.shared == ADD else SHARED_COLLECT


def layout_of(algorithm: Algorithm, n_features: int) -> Layout:
    """The layout of an agent's numbers for one output."""
    return algorithm.update.layout(algorithm.average, n_features)


def loops_of(algorithm: Algorithm) -> Loops:
    """The loops of the update, for its layout."""
    return algorithm.update.loops(algorithm.average).filled(layout_of(algorithm, 1))


def averages_together(algorithm: Algorithm) -> bool:
    """Whether copies are averaged by one sum, and one maximum, over all agents."""
    layout = layout_of(algorithm, 1)
    alike = algorithm.mixing.is_uniform_complete and not layout.boxes.wires
    return alike and LOG not in layout.modes and algorithm.robust is None


def most_heard(algorithm: Algorithm) -> int:
    """Neighbours of an agent at most, where averages are robust; else 0."""
    if algorithm.robust is None:
        return 0
    if isinstance(algorithm.mixing, Changing):
        return algorithm.n_agents
    return int(np.diff(algorithm.mixing.csr()[0]).max())


def n_states(algorithm: Algorithm) -> int:
    """Weight vectors per agent: one per class, but experts have one for all classes."""
    return 1 if algorithm.update.experts else algorithm.outputs


def numbers_in_round(algorithm: Algorithm, n_features: int) -> int:
    """Numbers that a round may go through: each of its examples all that its agent holds."""
    held = n_states(algorithm) * len(layout_of(algorithm, n_features).rows) * n_features
    return algorithm.n_agents * algorithm.batch * held


def numbers_kept(algorithm: Algorithm) -> int:
    """Numbers that are kept of a prediction until its label comes: slopes, and what updates note."""
    return algorithm.outputs * (1 + layout_of(algorithm, 1).kept)


def numbers_sent(algorithm: Algorithm, n_features: int) -> int:
    """Numbers that an agent sends to a neighbour."""
    layout = layout_of(algorithm, n_features)
    scalars = layout.linear_scalars + layout.largest_scalars
    return n_states(algorithm) * (len(layout.message_rows) * n_features + scalars)


def numbers_seldom_sent(algorithm: Algorithm, n_features: int) -> int:
    """Numbers among them that are left out where an exchange is not sampled."""
    layout = layout_of(algorithm, n_features)
    rows, scalars = layout.statistics if layout.sampled else (0, 0)
    return n_states(algorithm) * (rows * n_features + scalars)


def start_state(
    algorithm: Algorithm,
    n_features: int,
    seed: int = 0,
    agents: int | None = None,
    first: int = 0,
) -> State:
    """State before round 1, of all agents, or of so many from number `first` on; they begin alike but for
    what they draw by.

    Examples
    --------
    >>> from ddol.presets import dogd
    >>> start_state(dogd().on(64), n_features=10).theta.shape
    (1, 1, 1, 10)
    """
    if n_features < 1:
        raise ValueError(f"examples must have at least 1 feature, they have {n_features}")
    algorithm.update.check(n_features)
    n = algorithm.n_agents if agents is None else agents
    outputs = n_states(algorithm)
    copies = n if sharing(algorithm) == COPIES else 1
    theta, scalars = algorithm.update.start(n_features)
    scalars = algorithm.update.seeded(np.tile(scalars, (copies, outputs, 1)), seed, first)
    sums_shape = (copies, outputs, n_features) if algorithm.average_iterates else (0, 0, 0)
    return State(
        t=1,
        theta=_tiled(theta, copies, outputs),
        scalars=scalars,
        sums=zeros(sums_shape),
        mistakes=np.zeros(n, np.int64),
        loss=np.zeros(n),
        expected=np.zeros(n),
        examples=np.zeros(n, np.int64),
        slopes=np.zeros((algorithm.delay + 1, n, algorithm.batch, numbers_kept(algorithm))),
        asking=np.zeros((n, NUMBERS) if algorithm.asking is not None else (0, NUMBERS)),
        pending=_nothing(algorithm) if algorithm.delay else None,
        seed=seed,
    )


def _tiled(theta: np.ndarray, copies: int, outputs: int) -> np.ndarray:
    """A start for every copy and output; see `copied`."""
    start = zeros((copies, outputs, *theta.shape))
    for row, given in enumerate(theta):
        if given.any():
            start[:, :, row] = given
    return start


def is_beginning(algorithm: Algorithm, state: State) -> bool:
    """Whether this is what `start_state` gives, which every process can make again.

    Examples
    --------
    >>> from ddol.presets import dogd
    >>> algorithm = dogd().on(4)
    >>> start = start_state(algorithm, 3)
    >>> is_beginning(algorithm, start), is_beginning(algorithm, replace(start, t=7))
    (True, False)
    """
    theta, scalars = algorithm.update.start(state.n_features)
    return state.t == 1 and all(
        (own == theta).all() and (few == scalars).all()
        for own, few in zip(state.theta, state.scalars, strict=True)
    )


def _nothing(algorithm: Algorithm) -> Block:
    """The labels under way before round 1: none."""
    return Block(no_rows(), np.full((algorithm.delay, algorithm.n_agents, algorithm.batch), -1))


def grow(algorithm: Algorithm, state: State, n_features: int) -> State:
    """Make room for features that have not been seen before.

    Examples
    --------
    >>> from ddol.presets import dogd
    >>> algorithm = dogd()
    >>> grow(algorithm, start_state(algorithm, 3), 5).n_features
    5
    """
    if n_features <= state.n_features:
        return state
    if not algorithm.update.grows:
        raise DataError(
            f"found feature {n_features}, expected at most {state.n_features}: the start of "
            f"{algorithm.name} depends on the number of features; say it beforehand (n_features)"
        )
    more = n_features - state.n_features
    fresh, _ = algorithm.update.start(more)
    copies, outputs = state.theta.shape[:2]
    theta = np.concatenate([state.theta, np.tile(fresh, (copies, outputs, 1, 1))], axis=3)
    sums = state.sums
    if sums.size:
        sums = np.concatenate([sums, np.zeros((copies, outputs, more))], axis=2)
    return replace(state, theta=theta, sums=sums)


def with_outputs(algorithm: Algorithm, state: State) -> State:
    """Make room for classes that have not been seen before; their weights are fresh."""
    fresh = start_state(algorithm, state.n_features, state.seed)

    def extended(name: str, axis: int) -> np.ndarray:
        old, new = getattr(state, name), getattr(fresh, name)
        more = np.arange(old.shape[axis], new.shape[axis])
        return np.concatenate([old, np.take(new, more, axis)], axis)

    return replace(
        state,
        theta=extended("theta", 1),
        scalars=extended("scalars", 1),
        sums=extended("sums", 1),
        slopes=extended("slopes", 3),
    )
