import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddol.streams.arrays import RowsStream, array_stream
from ddol.streams.dealing import deal, progress, table_by_agent, table_round_robin
from ddol.streams.errors import DataError
from ddol.streams.rows import Rows
from ddol.streams.text.libsvm import LibsvmStream


class InBlocks:
    """A stream of numbered rows that arrives in blocks of given sizes."""

    restartable = True

    def __init__(self, sizes, first=0, sparse=False):
        self.sizes, self.first, self.sparse = sizes, first, sparse
        self.n_features, self.n_examples = 1, sum(sizes)

    def read(self, position=None, pass_number=0):
        for number in range(position or 0, len(self.sizes)):
            n = self.sizes[number]
            y = self.first + sum(self.sizes[:number]) + np.arange(n, dtype=float)
            rows = Rows.from_dense(y[:, None], y)
            if self.sparse:
                rows = Rows.from_csr(rows.to_scipy(), y)
            yield rows, number + 1

    def describe(self):
        return "numbers"

    def progress(self, position):
        return sum(self.sizes[: position or 0]), sum(self.sizes)

    def locate(self, position, row):
        return f"row {row}"


def labels(block):
    return np.where(block.table >= 0, block.rows.y[block.table], -1).astype(int)


def dealt(streams, **options):
    return [(labels(b), json.loads(json.dumps(p))) for b, p in deal(streams, **options)]


sizes = st.lists(st.integers(0, 17), max_size=6)


@given(sizes, st.integers(1, 5), st.integers(1, 3), st.integers(1, 3), st.booleans())
def test_one_stream_is_dealt_round_robin(sizes, n_agents, batch, block_rounds, sparse):
    stream = InBlocks(sizes, sparse=sparse)
    blocks = dealt(stream, n_agents=n_agents, batch=batch, block_rounds=block_rounds)
    n, size = sum(sizes), n_agents * batch
    expected = np.full(-(-n // size) * size, -1)
    expected[:n] = np.arange(n)
    expected = expected.reshape(-1, batch, n_agents).transpose(0, 2, 1)
    found = np.concatenate([table for table, _ in blocks]) if blocks else expected
    assert len(blocks) > 0 or n == 0
    assert np.array_equal(found, expected)


@given(st.lists(sizes, min_size=2, max_size=4), st.integers(1, 3), st.integers(1, 4))
def test_one_stream_each_drops_nothing_and_keeps_order(all_sizes, batch, block_rounds):
    streams = [InBlocks(sizes, first=1000 * i) for i, sizes in enumerate(all_sizes)]
    blocks = dealt(streams, n_agents=len(streams), batch=batch, block_rounds=block_rounds)
    for agent, own in enumerate(all_sizes):
        seen = [table[:, agent].reshape(-1) for table, _ in blocks]
        seen = np.concatenate(seen) if seen else np.empty(0, int)
        rounds = -(-sum(own) // batch)
        assert np.array_equal(seen[seen >= 0], 1000 * agent + np.arange(sum(own)))
        assert (seen[rounds * batch :] == -1).all()
    total = sum(len(table) for table, _ in blocks)
    assert total == max(-(-sum(own) // batch) for own in all_sizes)


@settings(max_examples=60)
@given(st.data(), st.booleans())
def test_resuming_at_any_position_deals_the_same_blocks(data, one_each):
    n_agents = data.draw(st.integers(2, 4))
    options = {
        "n_agents": n_agents,
        "batch": data.draw(st.integers(1, 3)),
        "passes": data.draw(st.integers(1, 3)),
        "block_rounds": data.draw(st.integers(1, 4)),
    }
    count = n_agents if one_each else 1
    streams = [InBlocks(data.draw(sizes), first=1000 * i) for i in range(count)]
    whole = dealt(streams, **options)
    for number, (_, position) in enumerate(whole):
        rest = dealt(streams, position=position, **options)
        assert [p for _, p in rest] == [p for _, p in whole[number + 1 :]]
        for (table, _), (expected, _) in zip(rest, whole[number + 1 :], strict=True):
            assert np.array_equal(table, expected)


def test_passes_repeat_the_rows_for_the_same_agents():
    tables = [table for table, _ in dealt(InBlocks([3]), n_agents=2, passes=2)]
    assert np.concatenate(tables)[:, :, 0].tolist() == [[0, 1], [2, -1], [0, 1], [2, -1]]


def test_rows_in_memory_are_not_copied():
    X = np.arange(200_000.0).reshape(-1, 2)
    blocks = [block for block, _ in deal(array_stream(X, X[:, 0]), n_agents=3)]
    assert all(np.shares_memory(block.rows.data, X) for block in blocks)


def test_tables_stay_small_with_many_agents():
    stream = RowsStream(Rows.from_dense(np.ones((50_000, 1)), np.ones(50_000)))
    assert all(b.table.nbytes <= 2 << 20 for b, _ in deal(stream, n_agents=10_000))


def test_more_agents_than_examples():
    (table, _), *rest = dealt(InBlocks([2]), n_agents=5)
    assert table[:, :, 0].tolist() == [[0, 1, -1, -1, -1]] and not rest


def test_progress_counts_all_streams():
    streams = [InBlocks([4, 4]), InBlocks([2], first=100)]
    positions = [position for _, position in deal(streams, n_agents=2)]
    assert progress(streams, None) == (0, 10)
    assert progress(streams, positions[-1]) == (10, 10)


@given(st.lists(st.integers(0, 3), max_size=30), st.integers(1, 3))
def test_table_by_agent(ids, batch):
    table = table_by_agent(np.array(ids, dtype=int), 4, batch)
    for agent in range(4):
        own = table[:, agent].reshape(-1)
        assert own[own >= 0].tolist() == [k for k, i in enumerate(ids) if i == agent]


@pytest.mark.parametrize(
    ("streams", "options", "message"),
    [
        ([InBlocks([1])] * 2, {"n_agents": 3}, "found 2 streams for 3 agents"),
        (InBlocks([1]), {"n_agents": 0}, "`n_agents` must be at least 1"),
        (InBlocks([1]), {"n_agents": 1, "batch": 0}, "`batch` must be at least 1"),
        (InBlocks([1]), {"n_agents": 1, "passes": 0}, "`passes` must be at least 1"),
    ],
)
def test_wrong_use_is_named_before_any_round(streams, options, message):
    with pytest.raises(DataError, match=message):
        deal(streams, **options)


def test_streams_with_different_columns_are_refused_before_the_first_round():
    streams = [array_stream(np.ones((2, d)), [0, 1]) for d in (2, 3)]
    with pytest.raises(DataError, match="found rows of 2 columns, expected 3"):
        next(deal(streams, n_agents=2))


def test_agent_numbers_are_checked():
    with pytest.raises(DataError, match="from 0 to 1, found 0 to 2"):
        table_by_agent([0, 2], 2)
    with pytest.raises(DataError, match="one whole number per row"):
        table_by_agent([0.5], 2)


def test_a_position_is_found_again_by_who_reads_less_at_a_time(tmp_path):
    path = tmp_path / "numbers.libsvm"
    path.write_text("".join(f"{k} 1:{k}\n" for k in range(1000)))
    much, little = (LibsvmStream((str(path),), chunk_bytes=size) for size in (4000, 300))
    blocks = list(deal(much, n_agents=3, block_rounds=50))
    for number, (_, position) in enumerate(blocks):
        later = [block for block, _ in blocks[number + 1 :]]
        again = [block for block, _ in deal(little, 3, position=position, block_rounds=50)]
        expected, found = (
            [labels(block).reshape(-1, 3) for block in each] or [np.empty((0, 3), int)]
            for each in (later, again)
        )
        np.testing.assert_array_equal(np.concatenate(found), np.concatenate(expected))


def test_a_short_last_round_is_written_once_and_never_changed():
    table = table_round_robin(5, n_agents=2, first=3)
    assert table[:, :, 0].tolist() == [[3, 4], [5, 6], [7, -1]]
    assert not table.flags.writeable  # all passes over the same rows share it
    assert np.shares_memory(table, table_round_robin(5, n_agents=2, first=3))
