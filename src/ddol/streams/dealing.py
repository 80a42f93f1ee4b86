"""Dealing a stream, or one stream each, to the agents: from rows to rounds."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddol.compiled import entry
from ddol.streams.arrays import RowsStream
from ddol.streams.errors import DataError
from ddol.streams.places import check_position, meant_for, read_from
from ddol.streams.rows import Block, Rows, concatenate, no_rows
from ddol.streams.stream import Position, Stream

_MOST_TABLE = 1 << 20
_MOST_BYTES = 8 << 20
_BEGINNING = {"block": None, "skip": 0, "dealt": 0}


class Team(Protocol):
    """Processes that deal together: each reads the streams of its own agents only."""

    @property
    def agents(self) -> range:
        """Agents of this process."""

    def fewest(self, ahead: Ahead) -> int:
        """Rounds that all processes deal before they ask again, from what each has ahead of it.

        Having nothing ahead counts only if it is so for all processes.
        """

    def knows_places(self, agreed: bool) -> bool:
        """Whether places in the streams are of use, after the rounds agreed on or in the midst of them."""


class Ahead(NamedTuple):
    """Rounds that a process has yet to deal.

    Parameters
    ----------
    rounds
        Those of the next block.
    left
        All that are left of the pass, where its streams know that, and their features; else None.
    n_features
        Of these rounds.
    """

    rounds: int
    left: int | None
    n_features: int


def deal(
    streams: Stream | Sequence[Stream],
    n_agents: int,
    batch: int = 1,
    passes: int = 1,
    position: Position | None = None,
    block_rounds: int | Callable[[], int] | None = None,
    team: Team | None = None,
) -> Iterator[tuple[Block, Position | None]]:
    """Yield rounds of play in blocks, each with the position right after it.

    One stream is dealt round-robin: example `k` of a pass goes to agent ``k mod N``, and a
    round is ``N * batch`` consecutive examples. As many streams as agents are one each; they
    may end at different times, and the pass ends when all have. No example is dropped: where
    there is none left for an agent the table says -1. Every pass begins with a new round, so
    that an agent sees the same examples in each.

    Parameters
    ----------
    streams
        One stream, or a sequence of one or of `n_agents`.
    n_agents, batch
        Agents, and examples an agent sees in one round.
    passes
        Times that the streams are read.
    position
        A position that an earlier call yielded; the blocks after it are the same to the bit.
    block_rounds
        Most rounds in a block, or a function that is asked before every block; never more than keep a table
        in 8 MB.
    team
        Where several processes deal together: streams of other agents than one's own are not
        read, and their places in the tables say -1. One stream for all is read by every process.

    Examples
    --------
    >>> from ddol.streams.arrays import array_stream
    >>> stream = array_stream(np.eye(5), np.arange(5))
    >>> for block, position in deal(stream, n_agents=2):
    ...     print(block.rows.y, block.table[:, :, 0].tolist())
    [0. 1. 2. 3. 4.] [[0, 1], [2, 3], [4, -1]]
    """
    streams = list(streams) if isinstance(streams, Sequence) else [streams]
    _check(streams, n_agents, batch, passes)
    plan = _Plan(n_agents, batch, block_rounds)
    alone = Alone(range(n_agents))
    dealt = _deal_passes if len(streams) > 1 else _deal_one
    start = beginning(len(streams)) if position is None else position
    read = (team or alone).agents if len(streams) > 1 else range(1)
    check_position(start, len(streams), read)
    return dealt(streams, plan, passes, start, team or alone)


def beginning(n_streams: int) -> Position:
    """The position before anything is dealt."""
    return {"pass": 0, "streams": [_BEGINNING] * n_streams}


def _deal_one(
    streams: Sequence[Stream], plan: _Plan, passes: int, position: Position, team: Team
) -> Iterator[tuple[Block, Position | None]]:
    [place] = position["streams"]
    for number in range(position["pass"], passes):
        reader = _Reader(streams[0], place, number)
        for block, agreed in _round_robin(reader, plan, team):
            known = team.knows_places(agreed)
            yield block, {"pass": number, "streams": [reader.place()]} if known else None
        place = _BEGINNING


def _deal_passes(
    streams: Sequence[Stream], plan: _Plan, passes: int, position: Position, team: Team
) -> Iterator[tuple[Block, Position | None]]:
    places = position["streams"]
    for number in range(position["pass"], passes):
        readers = {i: _Reader(streams[i], places[i], number) for i in team.agents}
        for block, agreed in _one_each(readers, plan, team):
            own = [reader.place() for reader in readers.values()]
            known = team.knows_places(agreed)
            yield block, {"pass": number, "streams": own} if known else None
        places = [_BEGINNING] * len(streams)


@dataclass(frozen=True)
class Alone:
    """The `Team` of a process that deals to its own agents without asking others."""

    agents: range

    def fewest(self, ahead: Ahead) -> int:
        """All that it has itself."""
        return ahead.rounds

    def knows_places(self, agreed: bool) -> bool:
        """Always."""
        return True


def progress(streams: Sequence[Stream], position: Position | None) -> tuple[int, int] | None:
    """Work done and in total within the present pass, or None where a stream cannot tell.

    Parameters
    ----------
    streams
        The streams that were dealt.
    position
        A position that `deal` yielded; None is the beginning.
    """
    start = beginning(len(streams)) if position is None else position
    check_position(start, len(streams))
    each = []
    for stream, place in zip(streams, start["streams"], strict=True):
        with meant_for(stream):
            each.append(stream.progress(place["block"]))
    known = [pair for pair in each if pair is not None]
    if len(known) < len(each):
        return None
    return sum(done for done, _ in known), sum(total for _, total in known)


def table_round_robin(
    n_rows: int, n_agents: int, batch: int = 1, first: int = 0
) -> NDArray[np.int64]:
    """Table that deals `n_rows` rows from row `first` on, row ``b * N + i`` of a round to `i`.

    It may be shared: copy it before changing it.

    Examples
    --------
    >>> table_round_robin(5, n_agents=2, batch=2).tolist()
    [[[0, 2], [1, 3]], [[4, -1], [-1, -1]]]
    """
    missing = -n_rows % (n_agents * batch)
    return table_of(_in_order(first, n_rows, missing), n_agents, batch)


def _in_order(first: int, n_rows: int, missing: int) -> NDArray[np.int64]:
    """Rows one after the other, and -1 for each that is missing; to be read only."""
    if missing:
        return _last_rows(first, n_rows, missing)
    last = first + n_rows
    return _first_rows(max(last - 1, 0).bit_length())[first:last]


@functools.lru_cache(maxsize=2)
def _last_rows(first: int, n_rows: int, missing: int) -> NDArray[np.int64]:
    """Written once for all passes over the same rows, and runs."""
    order = np.arange(first, first + n_rows + missing, dtype=np.int64)
    order[n_rows:] = -1
    order.flags.writeable = False
    return order


@functools.lru_cache(maxsize=4)
def _first_rows(bits: int) -> NDArray[np.int64]:
    """Written once for blocks of about the same length: the first, which are shorter, and the last."""
    order = np.arange(1 << bits, dtype=np.int64)
    order.flags.writeable = False
    return order


def table_of(order: NDArray[np.int64], n_agents: int, batch: int = 1) -> NDArray[np.int64]:
    """Table that deals rows in any order, as `table_round_robin` deals them in theirs.

    Examples
    --------
    >>> table_of(np.array([4, 2, 0]), n_agents=2)[:, :, 0].tolist()
    [[4, 2], [0, -1]]
    """
    missing = -len(order) % (n_agents * batch)
    if missing:
        order = np.append(order, np.full(missing, -1))
    table = order.reshape(-1, batch, n_agents).transpose(0, 2, 1)
    return np.ascontiguousarray(table)


def table_by_agent(ids: ArrayLike, n_agents: int, batch: int = 1) -> NDArray[np.int64]:
    """Table that gives every row to the agent it names, in the order of the rows.

    Parameters
    ----------
    ids
        Agent of each row, whole numbers from 0 to ``n_agents - 1``.
    n_agents, batch
        Agents, and examples an agent sees in one round.

    Examples
    --------
    >>> table_by_agent([0, 1, 0, 0], n_agents=2)[:, :, 0].tolist()
    [[0, 1], [2, -1], [3, -1]]
    """
    agents = _agent_ids(ids, n_agents)
    order = np.argsort(agents, kind="stable")
    counts = np.bincount(agents, minlength=n_agents)
    rounds = -(-int(counts.max(initial=0)) // batch)
    starts = np.cumsum(counts) - counts
    rank = np.arange(len(agents)) - np.repeat(starts, counts)
    table = np.full((n_agents, rounds * batch), -1, dtype=np.int64)
    table[agents[order], rank] = order
    return np.ascontiguousarray(table.reshape(n_agents, rounds, batch).transpose(1, 0, 2))


def online_table(ids: ArrayLike, n_agents: int, batch: int = 1) -> NDArray[np.int64]:
    """Table of rounds in which a row joins the present round unless its agent's batch is full.

    Unlike `table_by_agent` it depends on the rows so far only, never on those to come, so that a
    stream may be cut anywhere.

    Parameters
    ----------
    ids, n_agents, batch
        See `table_by_agent`.

    Examples
    --------
    >>> online_table([0, 0, 1, 1, 0], n_agents=2)[:, :, 0].tolist()
    [[0, -1], [1, 2], [4, 3]]
    """
    agents = _agent_ids(ids, n_agents)
    rounds, places = np.empty_like(agents), np.empty_like(agents)
    filled = np.zeros(n_agents, np.int64)
    given = (array.ctypes.data for array in (agents, filled, rounds, places))
    count = _join_rounds(len(agents), n_agents, batch, *given)
    table = np.full((count, n_agents, batch), -1, np.int64)
    table[rounds, agents, places] = np.arange(len(agents))
    return table


@entry("int64(int64, int64, int64, int64*, int64*, int64*, int64*)")
def _join_rounds(n, n_agents, batch, agents, filled, rounds, places):  # type: ignore[no-untyped-def]
    """Round and place of every row; returns the number of rounds."""
    number = 0
    for row in range(n):
        agent = agents[row]
        if filled[agent] == batch:
            number += 1
            for i in range(n_agents):
                filled[i] = 0
        rounds[row], places[row] = number, filled[agent]
        filled[agent] += 1
    return number + 1 if n else 0


def contiguous(stream: Stream, parts: int) -> list[Stream]:
    """A stream cut into contiguous parts, one for each agent.

    Examples
    --------
    >>> from ddol.streams.arrays import array_stream
    >>> [part.n_examples for part in contiguous(array_stream(np.eye(5), np.arange(5)), 2)]
    [2, 3]
    """
    if isinstance(stream, RowsStream):
        rows, n = stream.rows, len(stream.rows)
        ends = [n * k // parts for k in range(parts + 1)]
        return [replace(stream, rows=rows.slice(lo, hi)) for lo, hi in pairwise(ends)]
    part_of = getattr(stream, "part_of", None)
    if part_of is None or not stream.restartable:
        raise DataError(
            f"{stream.describe()}: cannot be cut into contiguous parts; use --deal round-robin"
        )
    return [part_of(number, parts) for number in range(parts)]


@dataclass(frozen=True)
class _Plan:
    n_agents: int
    batch: int
    block_rounds: int | Callable[[], int] | None

    def rounds(self) -> int:
        """Most rounds of the next block."""
        most = max(1, _MOST_TABLE // self.round_size)
        asked = self.block_rounds() if callable(self.block_rounds) else self.block_rounds
        return most if asked is None else min(most, asked)

    @property
    def round_size(self) -> int:
        return self.n_agents * self.batch


@dataclass
class _Piece:
    """A block of a stream, how many of its rows are dealt, and the position before it."""

    rows: Rows
    dealt: int
    before: Position | None

    def __post_init__(self) -> None:
        self.bytes_a_row = self.rows.nbytes // len(self.rows)

    @property
    def left(self) -> int:
        return len(self.rows) - self.dealt


class _Reader:
    """Rows read and not yet dealt.

    What is buffered depends on the position alone, never on the blocks dealt before it:
    this is what makes a resumed run deal the same blocks.
    """

    def __init__(self, stream: Stream, place: dict, pass_number: int) -> None:
        self.stream = stream
        self.blocks = read_from(stream, place["block"], pass_number)
        self.before: Position | None = place["block"]
        self.skip: int = place["skip"]
        self.dealt: int = place["dealt"]
        self.pieces: deque[_Piece] = deque()
        self.available = 0
        self.ended = False

    def fill(self, wanted: int) -> None:
        """Read until `wanted` rows are there or the stream has ended."""
        while self.available < wanted and not self.ended:
            rows, after = next(self.blocks, (None, None))
            if rows is None:
                self.ended = True
            elif len(rows) > self.skip:
                self.pieces.append(_Piece(rows, self.skip, self.before))
                self.available += len(rows) - self.skip
                self.skip = 0
                self.before = after
            else:  # the run that saved the position may have read larger blocks
                self.skip -= len(rows)
                self.before = after

    @functools.cached_property
    def _whole(self) -> int | None:
        """Rows of a pass, if that is known, and how many features they have."""
        return None if self.stream.n_features is None else self.stream.n_examples

    @property
    def left(self) -> int | None:
        """Rows that are left of the pass, if that is known, and how many features they have."""
        return None if self._whole is None else self._whole - self.dealt

    @property
    def n_features(self) -> int:
        """Of the rows that are left, as far as it is known."""
        widest = max((piece.rows.n_features for piece in self.pieces), default=0)
        return max(widest, self.stream.n_features or 0)

    def check_length(self) -> None:
        """Refuse a stream that ended before its declared number of rows."""
        left = self.left if self.ended else None
        if left is not None and left > self.available:
            said = self.stream.n_examples or 0
            raise DataError(
                f"{self.stream.describe()}: found {said - left + self.available} rows, expected {said} as "
                "it says; it may have changed while it was read"
            )

    def consume(self, n: int) -> list[Rows]:
        """The next `n` rows, in pieces."""
        self.available -= n
        self.dealt += n
        taken = []
        while n:
            head = self.pieces[0]
            count = min(n, head.left)
            taken.append(head.rows.slice(head.dealt, head.dealt + count))
            head.dealt += count
            n -= count
            if not head.left:
                self.pieces.popleft()
        return taken

    def place(self) -> dict:
        """Where the first row that is not dealt yet is."""
        before, skip = self.before, 0
        if self.pieces:
            before, skip = self.pieces[0].before, self.pieces[0].dealt
        return {"block": before, "skip": skip, "dealt": self.dealt}


def _round_robin(reader: _Reader, plan: _Plan, team: Team) -> Iterator[tuple[Block, bool]]:
    """Blocks, and whether the rounds that were agreed on end with each."""
    size, agreed = plan.round_size, 0
    while True:
        reader.fill(size)
        # Whole rounds of the first piece are dealt where they lie, and the last one, which may be short; only
        # a round that spans two pieces is copied together.
        there = reader.pieces[0].left if reader.available else 0
        whole = there if there == reader.left else there // size * size
        n = min(whole or size, plan.rounds() * size, reader.available)
        if agreed:
            reader.check_length()
        else:
            agreed = team.fewest(_ahead(-(-n // size), [reader], size))
        if not agreed:
            return
        n = min(n, agreed * size)
        agreed -= -(-n // size)
        rows = concatenate(reader.consume(n))
        yield Block(rows, table_round_robin(n, plan.n_agents, plan.batch)), not agreed


def _one_each(
    readers: Mapping[int, _Reader], plan: _Plan, team: Team
) -> Iterator[tuple[Block, bool]]:
    """Blocks, and whether the rounds that were agreed on end with each."""
    own, batch, agreed = readers.values(), plan.batch, 0
    while True:
        for reader in own:
            reader.fill(batch)
        most = _affordable_rounds(own, plan)
        for reader in own if _wait_for_more(own) else ():
            # Streams are read in pieces that end anywhere: a block that ended with the first of them
            # would be short.
            reader.fill(most * batch)
        rounds = min(most, _common_rounds(own, plan))
        if agreed:
            for reader in own:
                reader.check_length()
        else:
            agreed = team.fewest(_ahead(rounds, own, batch))
        if not agreed:
            return
        rounds = min(agreed, rounds or most)
        agreed -= rounds
        yield _block_of(readers, rounds, plan), not agreed


def _wait_for_more(readers: Iterable[_Reader]) -> bool:
    """Whether to read more than the next round: a pipe may have no more for long."""
    return all(getattr(reader.stream, "restartable", True) for reader in readers)


def _block_of(readers: Mapping[int, _Reader], rounds: int, plan: _Plan) -> Block:
    """So many rounds of the readers' next rows; -1 for those who have none left."""
    room, batch = rounds * plan.batch, plan.batch
    counts = np.array([min(reader.available, room) for reader in readers.values()])
    firsts = np.cumsum(counts) - counts
    # Row k of an agent's own is its example k % batch in round k // batch.
    own = np.arange(room).reshape(rounds, 1, batch)
    table = np.full((rounds, plan.n_agents, batch), -1, dtype=np.int64)
    there = own < counts[:, None]
    table[:, list(readers)] = np.where(there, own + firsts[:, None], -1)
    pieces: list[Rows] = []
    for reader, n in zip(readers.values(), counts.tolist(), strict=True):
        pieces += reader.consume(n)
    return Block(concatenate(pieces) if pieces else no_rows(), table)


def _ahead(rounds: int, readers: Iterable[_Reader], size: int) -> Ahead:
    """What readers have ahead, of which a round takes so many rows each."""
    known = [reader.left for reader in readers]
    left = [-(-each // size) for each in known if each is not None]
    all_known = len(left) == len(known)
    widths = [reader.n_features for reader in readers]
    return Ahead(rounds, max(left) if all_known else None, max(widths))


def _affordable_rounds(readers: Iterable[_Reader], plan: _Plan) -> int:
    """Most rounds of a block that memory is taken for."""
    bytes_a_round = sum(r.pieces[0].bytes_a_row for r in readers if r.available)
    return max(1, min(plan.rounds(), _MOST_BYTES // max(1, bytes_a_round * plan.batch)))


def _common_rounds(readers: Iterable[_Reader], plan: _Plan) -> int:
    """Rounds for which every stream that goes on has examples."""
    going = [reader.available for reader in readers if reader.available]
    return min((max(1, available // plan.batch) for available in going), default=0)


def _check(streams: Sequence[Stream], n_agents: int, batch: int, passes: int) -> None:
    for name, value in (("n_agents", n_agents), ("batch", batch), ("passes", passes)):
        if value < 1:
            raise DataError(f"`{name}` must be at least 1, found {value}")
    if len(streams) not in (1, n_agents):
        raise DataError(
            f"found {len(streams)} streams for {n_agents} agents, expected one stream to deal "
            "round-robin or one for each agent; chain the streams or change the number of agents"
        )


def _agent_ids(ids: ArrayLike, n_agents: int) -> NDArray[np.int64]:
    agents = np.asarray(ids)
    if agents.ndim != 1 or not np.issubdtype(agents.dtype, np.integer):
        raise DataError("`agents` must be one whole number per row; number the agents from 0")
    if len(agents) and not (agents.min() >= 0 and agents.max() < n_agents):
        raise DataError(
            f"`agents` must be from 0 to {n_agents - 1}, found {agents.min()} to {agents.max()}"
        )
    return agents.astype(np.int64)
