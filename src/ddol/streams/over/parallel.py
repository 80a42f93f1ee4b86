"""Reading with all cores: pieces of a stream are parsed in any order and handed on in their own.

Advancing `Stream.pieces` is done by one thread at a time, parsing a piece by all of them. A thread that
waits for a piece parses as well, so that one worker is no thread at all.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ddol.streams.errors import DataError
from ddol.streams.over.wrapped import WrappedStream
from ddol.streams.stream import Parsed, Piece, Position, pieces_of

_ENDED = object()

AHEAD = 6
"""Pieces that are ready beside those that workers are at: with fewer one waits for another now and then."""


def usable_cores() -> int:
    """Cores that this process may run on, and no more than DDOL_THREADS says, if it is set.

    Examples
    --------
    >>> usable_cores() >= 1
    True
    """
    cores = getattr(os, "sched_getaffinity", None)
    found = len(cores(0)) if cores is not None else (os.cpu_count() or 1)
    most = os.environ.get("DDOL_THREADS", "")
    if not most:
        return found
    if not most.isdigit() or int(most) < 1:
        raise DataError(f"DDOL_THREADS: found {most!r}, expected a number of threads from 1 on")
    return min(found, int(most))


def in_order(
    results: Iterator[Parsed], position: Position | None
) -> Iterator[tuple[Any, Position]]:
    """Blocks of parsed pieces with the position after each; those without rows are left out."""
    for parsed in results:
        position = parsed.after(position)
        if len(parsed.block):
            yield parsed.block, position


@dataclass(frozen=True)
class ParallelStream(WrappedStream):
    """Another stream, parsed by several threads while what it gave is learned from.

    Blocks and positions are those of the stream below, whatever the number of workers.

    Parameters
    ----------
    stream
        Where the pieces come from.
    pool
        Who parses; streams that are read at the same time share one.
    ahead
        Pieces that are parsed before they are asked for; None for `AHEAD` more than there are workers.
    by_turns
        Parse only while a reader waits, and then all of `ahead`: for readers that need all
        cores when they learn.

    Examples
    --------
    >>> from ddol.streams.arrays import array_stream
    >>> stream = ParallelStream(array_stream([[1.0]], [1]), ParsingPool(2))
    >>> [len(rows) for rows, _ in stream.read()]
    [1]
    """

    pool: ParsingPool
    ahead: int | None = None
    by_turns: bool = False

    def read(
        self, position: Position | None = None, pass_number: int = 0
    ) -> Iterator[tuple[Any, Position]]:
        """Yield blocks in the order of the stream."""
        pieces = pieces_of(self.stream, position, pass_number)
        if self.pool.workers == 1:
            return in_order((piece() for piece in pieces), position)
        ahead = self.pool.workers + AHEAD if self.ahead is None else self.ahead
        parsed = _Ahead(pieces, self.pool, ahead, self.by_turns, self.restartable)
        return in_order(parsed.results(), position)


@dataclass(eq=False)
class _Job:
    """Work that is done once, by the first thread that asks for it."""

    work: Callable[[], Any]
    taken: bool = False
    done: bool = False
    result: Any = None
    error: BaseException | None = None


class ParsingPool:
    """Threads that run jobs, helped by the threads that wait for the results.

    Parameters
    ----------
    workers
        How many work at the same time at most, the waiting one included; as many as there are
        cores if not given.
    abroad
        The same in another process that gets a copy of it: two read ahead of a slow source, where one would
        wait for it.
    """

    def __init__(self, workers: int | None = None, abroad: int = 1) -> None:
        self.allow(workers)
        self.abroad = abroad
        self.changed = threading.Condition()
        self._jobs: deque[_Job] = deque()
        self._threads = 0
        self._idle = 0

    def __reduce__(self) -> tuple[Any, ...]:
        """Threads stay where they are: another process shares its cores with more."""
        return ParsingPool, (self.abroad,)

    def allow(self, workers: int | None) -> None:
        """Let so many work from now on, and no fewer than before."""
        self.workers = usable_cores() if workers is None else max(1, workers)

    def submit(self, job: _Job) -> None:
        """Let a job be done; the caller holds `changed`."""
        self._jobs.append(job)
        if self._idle:
            self.changed.notify_all()
        elif self._threads < self.workers - 1:
            self._threads += 1
            threading.Thread(target=self._serve, name="ddol-parse", daemon=True).start()

    def withdraw(self, job: _Job) -> bool:
        """Take a job back; False if a thread has begun it. The caller holds `changed`."""
        if job.taken:
            return False
        self._jobs.remove(job)
        return True

    def wait(self, job: _Job, helping: bool = True) -> None:
        """Return when a job is done, and work while it is not, unless `helping` is false."""
        while not job.done:
            with self.changed:
                mine = self._take(job) if helping else None
                if mine is None and not job.done:
                    self.changed.wait()
            if mine is not None:
                self._do(mine)
                if mine.error is not None and not isinstance(mine.error, DataError):
                    raise mine.error  # a signal, perhaps: it is not to wait for the job's turn

    def result(self, job: _Job) -> Any:
        """What comes of a job, once it is done."""
        self.wait(job)
        if job.error is not None:
            raise job.error
        return job.result

    def _take(self, wanted: _Job | None = None) -> _Job | None:
        if wanted is not None and not wanted.taken:
            self._jobs.remove(wanted)
        elif self._jobs and (wanted is None or not wanted.done):
            wanted = self._jobs.popleft()
        else:
            return None
        wanted.taken = True
        return wanted

    def _do(self, job: _Job) -> None:
        try:
            job.result = job.work()
        except BaseException as error:  # raised again in the thread that waits for the result
            job.error = error
        with self.changed:
            job.done = True
            self.changed.notify_all()

    def _serve(self) -> None:
        while True:
            with self.changed:
                job = self._take()
                while job is None:
                    self._idle += 1
                    woken = self.changed.wait(_PATIENCE)
                    self._idle -= 1
                    job = self._take()
                    if job is None and not woken:
                        self._threads -= 1
                        return
            self._do(job)
            del job  # what it holds must not live until the next one


_PATIENCE = 1.0
"""Seconds after which a thread that has nothing to do ends; another is started when there is."""


@dataclass(eq=False)
class _Ahead:
    """One reading of a stream: jobs in the order of its pieces."""

    pieces: Iterator[Piece]
    pool: ParsingPool
    most: int
    by_turns: bool
    helping: bool
    jobs: deque[_Job] = field(default_factory=deque)
    paused: bool = False
    closed: bool = False

    def results(self) -> Iterator[Parsed]:
        """Yield what pieces are parsed to."""
        try:
            while True:
                job = self._next()
                if job.error is not None:
                    raise job.error
                if job.result is _ENDED:
                    return
                yield job.result
                del job
        finally:
            self._close()

    def _next(self) -> _Job:
        if not self.jobs:
            with self.pool.changed:
                self.paused = False
                self._submit()
            if self.by_turns:
                self._work_through()
        job = self.jobs[0]
        self.pool.wait(job, self.helping)
        with self.pool.changed:
            self.jobs.popleft()
            if self.paused and not self.by_turns:
                self.paused = False
                self._submit()
        return job

    def _work_through(self) -> None:
        number = 0
        while number < len(self.jobs):
            self.pool.wait(self.jobs[number], self.helping)
            number += 1

    def _submit(self) -> None:
        job = _Job(self._work)
        self.jobs.append(job)
        self.pool.submit(job)

    def _work(self) -> Any:
        """Take the next piece, let another thread take the one after it, and parse."""
        piece = next(self.pieces, None)
        if piece is None:
            return _ENDED
        with self.pool.changed:
            if self.closed:
                return _ENDED
            if len(self.jobs) < self.most:
                self._submit()
            else:
                self.paused = True
        return piece()

    def _close(self) -> None:
        with self.pool.changed:
            self.closed = True
            busy = [job for job in self.jobs if not self.pool.withdraw(job)]
        if not self.helping:
            return  # a thread may wait for a pipe for ever
        for job in busy:
            self.pool.wait(job, helping=False)
        close = getattr(self.pieces, "close", None)
        if close is not None:
            close()
