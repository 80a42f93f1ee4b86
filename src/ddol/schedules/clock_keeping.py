"""A virtual clock for checkpoints: all that is due and under way, as arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ddol.schedules import clock_memory as words
from ddol.schedules.clock import Clock
from ddol.schedules.keeping import (
    Kept,
    check_length,
    check_range,
    give_back,
    kept_of,
    value_of,
    words_of,
)
from ddol.streams.errors import DataError

_FIXED = (
    "words", "now", "turns", "answers", "late", "absent", "parked", "ended", "queue_at", "queue_end",
    "first", "last",
)  # fmt: skip
"""Arrays of a clock that keep their size."""
_GROWING = (
    "queue", "delays", "next_answer", "due_turn", "row_of", "free_answers", "copies", "place_of",
    "free_messages", "due_time", "due_order", "due_what", "numbers",
)  # fmt: skip


def kept_of_clock(clock: Clock) -> Kept:
    """All that it takes to go on from here."""
    drawn = words_of(clock.rng.bit_generator.state)
    return kept_of(clock, (*_FIXED, *_GROWING)) | {"rng": drawn}


def give_back_to_clock(
    clock: Clock, kept: Mapping[str, np.ndarray], n_rows: int, where: str
) -> None:
    """Let a clock go on from where another one like it was.

    Parameters
    ----------
    clock : Clock
    kept : dict of arrays
        From `kept_of_clock`.
    n_rows : int
        Serial numbers that were given to rows so far.
    where : str
        Where it came from, for messages.
    """
    sizes = {name: len(getattr(clock, name)) for name in _FIXED}
    give_back(clock, (*_FIXED, *_GROWING), kept, where)
    for name, size in sizes.items():
        check_length(where, name, getattr(clock, name), size)
    _check_lengths(clock, n_rows, where)
    _check_ranges(clock, n_rows, where)
    try:
        clock.rng.bit_generator.state = value_of(kept.get("rng", np.empty(0, np.uint8)), where)
    except (TypeError, ValueError, KeyError):
        raise DataError(f"{where}: found no state of a random generator") from None


def _check_lengths(clock: Clock, n_rows: int, where: str) -> None:
    """Refuse arrays that are not as long as those beside them, and counts that go beyond them."""
    answers, messages, due = len(clock.due_turn), len(clock.copies), len(clock.due_time)
    for names, length in (
        (("next_answer", "row_of", "free_answers"), answers),
        (("place_of", "free_messages"), messages),
        (("due_order", "due_what"), due),
    ):
        for name in names:
            check_length(where, name, getattr(clock, name), length)
    most = {
        words.DUE: due, words.FREE_ANSWERS: answers, words.FREE_MESSAGES: messages,
        words.NUMBER: len(clock.numbers), words.TOKEN: clock.n_agents - 1, words.FIRST_ROW: n_rows,
    }  # fmt: skip
    check_range(where, "words", clock.words, 0, 1 << 62)
    for word, limit in most.items():
        check_range(where, "words", clock.words[[word]], 0, limit)
    if len(clock.delays):
        check_length(where, "delays", clock.delays, n_rows - int(clock.words[words.FIRST_ROW]))


def _check_ranges(clock: Clock, n_rows: int, where: str) -> None:
    """Refuse numbers that point outside of memory."""
    answers, messages = len(clock.due_turn), len(clock.copies)
    free_answers = clock.free_answers[: clock.words[words.FREE_ANSWERS]]
    free_messages = clock.free_messages[: clock.words[words.FREE_MESSAGES]]
    what = clock.due_what[: clock.words[words.DUE]]
    wires = max(len(clock.wires.sender), clock.n_agents)
    for name, array, least, most in (
        ("queue", clock.queue, -1, n_rows - 1),
        ("queue_at", clock.queue_at, 0, len(clock.queue)),
        ("queue_end", clock.queue_end, 0, len(clock.queue)),
        ("first", clock.first, -1, answers - 1),
        ("last", clock.last, -1, answers - 1),
        ("next_answer", clock.next_answer, -1, answers - 1),
        ("row_of", clock.row_of, -1, n_rows - 1),
        ("free_answers", free_answers, 0, answers - 1),
        ("free_messages", free_messages, 0, messages - 1),
        ("due_what", what & 7, 0, words.COMING),
        ("due_what", (what >> words.WIRE) & words.ONE_WIRE, 0, wires - 1),
        ("due_what", what >> words.MESSAGE, 0, max(messages - 1, 0)),
    ):
        check_range(where, name, array, least, most)
