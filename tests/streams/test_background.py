import threading

import pytest

from ddol.streams.background import prefetch


def test_an_error_is_raised_at_its_place():
    def items():
        yield 1
        yield 2
        raise ValueError("three")

    found = []
    with pytest.raises(ValueError, match="three"):
        for item in prefetch(items()):
            found.append(item)
    assert found == [1, 2]


@pytest.mark.parametrize("taken", [0, 1, 5])
def test_closing_ends_the_thread_and_the_source(taken):
    closed = threading.Event()

    def items():
        try:
            yield from range(100)
        finally:
            closed.set()

    before = threading.active_count()
    ahead = prefetch(items())
    for _ in range(taken):
        next(ahead)
    ahead.close()
    assert threading.active_count() == before
    assert closed.is_set() == (taken > 0)
