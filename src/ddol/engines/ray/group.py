"""The group of actors in rounds: how they agree, and how their kernels exchange numbers.

Numbers go from actor to actor as messages into the other's `Mailbox`, by calls of Ray. All actors call the
same methods in the same order, so a running number says which call a message belongs to.
"""

from __future__ import annotations

import ctypes
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ddol.engines.errors import RankLostError
from ddol.engines.groups.grouped import Neighbours
from ddol.engines.groups.recovery import Copy
from ddol.engines.ray.mailbox import Mailbox, StaleError
from ddol.engines.threads.atomics import ABORTED, DONE, Addresses
from ddol.engines.workers.partition import split

_CALL = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


class RayGroup:
    """The actors of a job, as one of them sees them.

    Parameters
    ----------
    rank : int
    actors : handles of all actors
    mailbox : Mailbox
        Of this actor.
    """

    def __init__(self, rank: int, actors: Sequence[Any], mailbox: Mailbox) -> None:
        self.rank, self.actors, self.mailbox = rank, list(actors), mailbox
        self._calls = 0
        self.meetings = 0
        self.numbers_sent = 0
        self.failure: BaseException | None = None

    @property
    def size(self) -> int:
        """Number of actors."""
        return len(self.actors)

    def begin(self, epoch: int) -> None:
        """Start counting calls anew, together with all others."""
        self._calls = 0
        self.mailbox.begin_epoch(epoch)

    def shares(self, n_agents: int) -> list[tuple[int, int]]:
        """First agent and number of agents of every actor."""
        return split(n_agents, self.size)

    def gather(self, value: Any) -> list[Any]:
        """Every actor's value, in their order, on every actor."""
        others = [rank for rank in range(self.size) if rank != self.rank]
        found = self._meet(dict.fromkeys(others, value), others)
        return [value if rank == self.rank else found[rank] for rank in range(self.size)]

    def reduce(self, numbers: list[int]) -> list[int]:
        """The largest of every actor's numbers, element by element."""
        return [max(column) for column in zip(*self.gather(numbers), strict=True)]

    def snapshot(self, own: Copy) -> Copy:
        """Give a copy to the next actor in a circle; return that of the one before."""
        after, before = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        if self.size == 1:
            return own
        given: Copy = self._moved(own, [after], [before])[before]
        return given.apart()  # messages pass through Ray's store, and what is kept must not fill it

    def restore(self, copy: Copy | None, holder: int, takers: Sequence[int]) -> Copy | None:
        """Send a copy from the actor that has it to those that need it."""
        found = self._moved(
            copy,
            takers if self.rank == holder else (),
            [holder] if self.rank in takers else (),
        )
        return found[holder].apart() if found else copy

    def _moved(self, value: Any, takers: Sequence[int], senders: Sequence[int]) -> dict[int, Any]:
        """Send something large to some actors, and get what others send."""
        self._calls += 1
        for rank in takers:
            # Not sealed: it is written once, to where the others read it.
            self.actors[rank].post_open.remote(self.mailbox.epoch, self._calls, self.rank, value)
        return self._taken(senders)

    def check_same(self, facts: Mapping[str, Any]) -> None:
        """Nothing to compare: all actors were started with the same values by one driver."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Turn the end of an epoch into `RankLostError`."""
        try:
            yield
        except StaleError as error:
            raise RankLostError("an actor was lost") from error

    def error(self, code: int) -> Exception:
        """The error behind a status of the kernel: that of a callback, which could not raise it."""
        failure, self.failure = self.failure, None
        return failure if isinstance(failure, Exception) else RankLostError("an actor was lost")

    def _meet(self, messages: Mapping[int, Any], senders: Sequence[int]) -> dict[int, Any]:
        """Send messages, and wait for those of the same call."""
        self._calls += 1
        self.meetings += bool(messages or senders)
        epoch = self.mailbox.epoch
        for rank, message in messages.items():
            # One argument of plain bytes costs Ray half of what five objects do.
            sealed = pickle.dumps((epoch, self._calls, self.rank, message), protocol=5)
            self.actors[rank].post.remote(sealed)
        return self._taken(senders)

    def _taken(self, senders: Sequence[int]) -> dict[int, Any]:
        """Wait for the messages of this call."""
        with self.watching():
            return {rank: self.mailbox.take(self._calls, rank) for rank in senders}

    def gather_rows(self, own: np.ndarray, rows: Sequence[int]) -> np.ndarray:
        """Every actor's rows of numbers, one after the other."""
        return np.concatenate(self.gather(np.ascontiguousarray(own)))

    def connect(self, near: Neighbours | None, agents: int, numbers: int) -> RayConnection:
        """The functions that a kernel calls to exchange numbers; see `ddol.engines.groups.grouped.Group`."""
        if near is None:
            return RayConnection(self, {}, {}, agents)
        return RayConnection(self, near.rows_to, near.rows_from, agents)

    def exchange(
        self, messages: Mapping[int, np.ndarray], senders: Sequence[int]
    ) -> dict[int, np.ndarray]:
        """Send arrays to some actors and receive those of others."""
        self.numbers_sent += sum(message.size for message in messages.values())
        return self._meet(messages, senders)


class RayConnection:
    """Functions that a kernel calls by address; keep it while the kernel runs."""

    def __init__(
        self,
        group: RayGroup,
        rows_to: Mapping[int, list[int]],
        rows_from: Mapping[int, int],
        agents: int,
    ) -> None:
        self._group, self._to, self._from = group, rows_to, rows_from
        self._rows = agents + sum(rows_from.values())
        self._agents = agents
        calls = (self._summed, self._largest, self._exchanged)
        self._callbacks = [_CALL(self._guarded(call)) for call in calls]
        self.addresses = Addresses(
            *(ctypes.cast(call, ctypes.c_void_p).value or 0 for call in self._callbacks)
        )
        self.context = 0

    @property
    def sent(self) -> int:
        """Numbers that this actor has sent so far."""
        return self._group.numbers_sent

    def _guarded(self, call: Callable[[int, int], None]) -> Callable[[int, int, int], int]:
        """A callback cannot raise: the kernel stops with a status, and the error is kept."""

        def guarded(context: int, address: int, count: int) -> int:
            try:
                call(address, count)
                return DONE
            except BaseException as error:
                self._group.failure = error
                return ABORTED

        return guarded

    def _reduced(self, address: int, count: int, ufunc: np.ufunc) -> None:
        own = _floats(address, count)
        # In the order of the actors, so that all of them hold the same bits.
        gathered = self._group.gather(own.copy())
        first, *others = (
            checked(each, (count,), f"actor {rank}") for rank, each in enumerate(gathered)
        )
        self._group.numbers_sent += count * (self._group.size - 1)
        total = np.array(first)
        for other in others:
            ufunc(total, other, out=total)
        own[:] = total

    def _summed(self, address: int, count: int) -> None:
        self._reduced(address, count, np.add)

    def _largest(self, address: int, count: int) -> None:
        self._reduced(address, count, np.maximum)

    def _exchanged(self, address: int, count: int) -> None:
        rows = _floats(address, self._rows * count).reshape(self._rows, count)
        messages = {rank: rows[wanted] for rank, wanted in self._to.items()}
        place, found = self._agents, self._group.exchange(messages, sorted(self._from))
        for rank in sorted(self._from):
            sent = checked(found[rank], (self._from[rank], count), f"actor {rank}")
            rows[place : place + self._from[rank]] = sent
            place += self._from[rank]

    def free(self) -> None:
        """Nothing to free."""

    def revoke(self) -> None:
        """Nothing waits in here: messages come one by one."""


def checked(values: Any, shape: tuple[int, ...], sender: str) -> np.ndarray:
    """Numbers that an actor has sent, if they have the expected type and shape.

    Examples
    --------
    >>> checked(np.zeros((1, 3)), (2, 3), "actor 1")
    Traceback (most recent call last):
    RuntimeError: found float64 of shape (1, 3) in a message of actor 1, expected float64 of shape (2, 3); ...
    """
    found = getattr(values, "shape", None), str(getattr(values, "dtype", type(values).__name__))
    if found != (shape, "float64"):
        raise RuntimeError(
            f"found {found[1]} of shape {found[0]} in a message of {sender}, expected float64 of "
            f"shape {shape}; install one version of ddol on all nodes"
        )
    return np.asarray(values)


def _floats(address: int, count: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_double * count).from_address(address))
