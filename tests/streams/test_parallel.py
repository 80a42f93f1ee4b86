import threading
import time

import numpy as np
import pytest

from ddol.streams.arrays import array_stream
from ddol.streams.errors import DataError
from ddol.streams.over.chained import ChainedStream
from ddol.streams.over.parallel import ParallelStream, ParsingPool
from ddol.streams.over.wrapped import with_intercept
from ddol.streams.rows import Rows
from ddol.streams.stream import Parsed
from patience import LONG


class Counting:
    """Pieces of one row each, which note who parses them and how many are ahead."""

    n_features, n_examples, restartable = 1, None, True

    def __init__(self, n, fail_at=None, wait=0.0):
        self.n, self.fail_at, self.wait = n, fail_at, wait
        self.parsed, self.threads, self.closed = [], set(), False

    def pieces(self, position=None, pass_number=0):
        try:
            for k in range(position or 0, self.n):
                yield lambda k=k: self.parse(k)
        finally:
            self.closed = True

    def parse(self, k):
        time.sleep(self.wait)
        self.threads.add(threading.current_thread())
        if k == self.fail_at:
            raise DataError(f"bad piece {k}")
        self.parsed.append(k)
        return Parsed(Rows.from_dense([[1.0]], [k]), lambda before: k + 1, lambda row: f"piece {k}")

    def locate(self, position, row):
        return "somewhere"


def labels(blocks):
    return [label for rows, _ in blocks for label in rows.y.tolist()]


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("by_turns", [False, True])
def test_pieces_come_in_their_order(workers, by_turns):
    stream = Counting(50, wait=0.0005)
    pairs = list(ParallelStream(stream, ParsingPool(workers), by_turns=by_turns).read(3))
    assert labels(pairs) == list(range(3, 50))
    assert [position for _, position in pairs] == list(range(4, 51))
    assert stream.closed
    assert len(stream.threads) <= workers


class Meeting(Counting):
    """The first two pieces are parsed together or not at all."""

    def __init__(self, n):
        super().__init__(n)
        self.together = threading.Barrier(2, timeout=LONG)

    def parse(self, k):
        if k < 2:
            self.together.wait()
        return super().parse(k)


def test_several_threads_parse():
    stream = Meeting(50)
    assert labels(ParallelStream(stream, ParsingPool(3)).read()) == list(range(50))
    assert len(stream.threads) > 1


@pytest.mark.parametrize("by_turns", [False, True])
def test_not_more_is_parsed_ahead_than_allowed(by_turns):
    stream = Counting(100)
    blocks = ParallelStream(stream, ParsingPool(3), ahead=4, by_turns=by_turns).read()
    next(blocks)
    time.sleep(0.05)
    # One is here, and as many as allowed are ready.
    assert max(stream.parsed) <= 4
    if by_turns:
        assert sorted(stream.parsed) == [0, 1, 2, 3]
    blocks.close()
    assert stream.closed


@pytest.mark.parametrize("workers", [1, 3])
def test_an_error_is_raised_in_its_place(workers):
    blocks = ParallelStream(Counting(30, fail_at=7), ParsingPool(workers)).read()
    seen = []
    with pytest.raises(DataError, match="bad piece 7"):
        for rows, _ in blocks:
            seen.extend(rows.y.tolist())
    assert seen == list(range(7))


def test_streams_share_a_pool():
    pool = ParsingPool(2)
    streams = [Counting(20, wait=0.0002) for _ in range(5)]
    readers = [ParallelStream(stream, pool, ahead=2).read() for stream in streams]
    found = [[next(reader)[0].y[0] for reader in readers] for _ in range(20)]
    assert found == [[float(k)] * 5 for k in range(20)]
    assert len(set().union(*(stream.threads for stream in streams))) <= 2


def test_changes_are_made_where_pieces_are_parsed():
    seen = set()

    def change(rows, where):
        seen.add((threading.current_thread(), where(0)))
        return rows.with_intercept()

    from ddol.streams.over.wrapped import MappedStream

    stream = MappedStream(Meeting(40), change, 2)
    blocks = list(ParallelStream(stream, ParsingPool(3)).read())
    assert [rows.data.tolist() for rows, _ in blocks] == [[1.0, 1.0]] * 40
    assert len({thread for thread, _ in seen}) > 1
    assert {place for _, place in seen} == {f"piece {k}" for k in range(40)}


def test_any_stream_can_be_read_ahead():
    one = array_stream(np.eye(3), [0, 1, 2])
    stream = with_intercept(ChainedStream((one, one)))
    expected = list(stream.read())
    found = list(ParallelStream(stream, ParsingPool(2)).read())
    assert [position for _, position in found] == [position for _, position in expected]
    assert labels(found) == labels(expected)


def test_a_signal_is_not_kept_for_later():
    class Interrupted(Counting):
        def parse(self, k):
            if threading.current_thread() is threading.main_thread():
                raise KeyboardInterrupt
            time.sleep(0.01)
            return super().parse(k)

    with pytest.raises(KeyboardInterrupt):
        list(ParallelStream(Interrupted(1000), ParsingPool(2)).read())
