import json

import numpy as np
import pytest

from ddol.streams.arrays import array_stream
from ddol.streams.dealing import deal
from ddol.streams.over.shuffle import ShuffledStream
from ddol.streams.synthetic import linear, sparse


def labels(stream, **options):
    return np.concatenate([rows.y for rows, _ in stream.read(**options)])


def numbers(n):
    return array_stream(np.arange(2.0 * n).reshape(n, 2), np.arange(n))


def test_rows_in_memory_are_permuted_as_a_whole():
    order = labels(ShuffledStream(numbers(5000), seed=3))
    assert sorted(order) == list(range(5000))
    assert abs(np.corrcoef(order, np.arange(5000))[0, 1]) < 0.05


def test_features_stay_with_their_labels():
    for rows, _ in ShuffledStream(numbers(100), seed=3).read():
        assert np.array_equal(rows.data[::2], 2 * rows.y)


def test_the_order_depends_on_seed_and_pass():
    stream = ShuffledStream(numbers(50), seed=1)
    assert np.array_equal(labels(stream), labels(stream))
    assert not np.array_equal(labels(stream), labels(stream, pass_number=1))
    assert not np.array_equal(labels(stream), labels(ShuffledStream(numbers(50), seed=2)))


def test_a_window_holds_whole_blocks_up_to_the_memory():
    plain = linear(10_000, 3)
    block_bytes = next(plain.read())[0].nbytes
    stream = ShuffledStream(plain, memory=block_bytes + 1)
    sizes = [len(rows) for rows, _ in stream.read()]
    assert sizes == [8192, 1808]
    first = next(stream.read())[0].y
    assert sorted(first) == sorted(labels(plain)[:8192])


@pytest.mark.parametrize("below", [linear(9000, 300), sparse(9000, 1000, 20), numbers(900_000)])
def test_resuming_at_any_position_gives_the_same_rows(below):
    stream = ShuffledStream(below, seed=5, memory=12 << 20)
    whole = list(stream.read(pass_number=2))
    assert len(whole) > 1 or below.n_features == 1000
    for number, (_, position) in enumerate(whole):
        rest = list(stream.read(json.loads(json.dumps(position)), pass_number=2))
        assert [p for _, p in rest] == [p for _, p in whole[number + 1 :]]
        for (rows, _), (expected, _) in zip(rest, whole[number + 1 :], strict=True):
            assert np.array_equal(rows.data, expected.data) and np.array_equal(rows.y, expected.y)


def test_dealing_a_shuffled_stream_uses_a_new_order_in_every_pass():
    stream = ShuffledStream(numbers(64), seed=1)
    blocks = [block for block, _ in deal(stream, n_agents=4, passes=2)]
    first, second = (block.rows.y for block in blocks)
    assert sorted(first) == sorted(second) and not np.array_equal(first, second)
    assert stream.progress(None) == (0, 64)
