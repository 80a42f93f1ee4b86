"""Checks of a clock and a player from a checkpoint, before compiled code trusts them.

Kernels keep lists of free slots, chains of labels under way and counts of references, and trust them: each
free slot must be in its list once, everything under way must be counted, and no chain may be a ring.
"""

from __future__ import annotations

import numpy as np

from ddol.engines.events.player import EventPlayer
from ddol.engines.kernels import event_memory as player_words
from ddol.schedules import clock_memory as words
from ddol.schedules.clock import Clock
from ddol.schedules.keeping import check_length, check_range
from ddol.streams.errors import DataError

_MOST = 1 << 62


def _require(true: object, where: str, what: str) -> None:
    if not true:
        raise DataError(
            f"{where}: found {what} that cannot be, expected them as a run has left them; the file is "
            "damaged or something else, write it again"
        )


# --- the player ----------------------------------------------------------------------------------


def check_player(player: EventPlayer, where: str) -> None:
    """Refuse mailboxes and messages whose slots or counts are not those of any run."""
    messages, free = len(player.references), player.free
    check_range(where, "last", player.talk.last, -1, messages - 1)
    check_length(where, "free", free, messages)
    check_length(where, "messages", player.messages, 1 + messages)
    check_range(where, "words", player.words, 0, _MOST)
    check_range(where, "turns", player.turns, 0, _MOST)
    check_range(where, "absent", player.absent, 0, 1)
    check_range(where, "words", player.words[[player_words.FREE]], 0, messages)
    held = (player.box, player.under_way, player.talk.last)
    for name, array in zip(("box", "under_way", "last"), held, strict=True):
        check_range(where, name, array, -1, messages - 1)
    unused = _unused(where, "free", free[: player.words[player_words.FREE]], messages)
    counted = sum(np.bincount(slots[slots >= 0], minlength=messages) for slots in held)
    _require(np.array_equal(counted, player.references), where, "references to messages")
    _require(not np.any(player.references[unused]), where, "messages that are free and used")
    _require(player.turns.sum() == player.words[player_words.TURNS], where, "turns")


def _unused(where: str, name: str, free: np.ndarray, slots: int) -> np.ndarray:
    """Which slots are free, each of them once."""
    check_range(where, name, free, 0, slots - 1)
    found = np.zeros(slots, bool)
    found[free] = True
    _require(np.count_nonzero(found) == len(free), where, f"slots of `{name}`")
    return found


# --- the virtual clock ---------------------------------------------------------------------------


def check_clock(clock: Clock, n_rows: int, where: str) -> None:
    """Refuse a clock that is not one of any run."""
    _check_lengths(clock, n_rows, where)
    _check_agents(clock, n_rows, where)
    _check_due(clock, where)
    _check_answers(clock, n_rows, where)
    numbers = (clock.now, clock.due_time[: clock.words[words.DUE]])
    _require(all(np.all((a >= 0.0) & (a < np.inf)) for a in numbers), where, "times")
    _require(np.all((clock.numbers >= 0.0) & (clock.numbers < 1.0)), where, "random numbers")


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
        words.DUE: due,
        words.FREE_ANSWERS: answers,
        words.FREE_MESSAGES: messages,
        words.NUMBER: len(clock.numbers),
        words.TOKEN: clock.n_agents - 1,
        words.FIRST_ROW: n_rows,
    }
    check_range(where, "words", clock.words, 0, _MOST)
    for word, limit in most.items():
        check_range(where, "words", clock.words[[word]], 0, limit)
    if len(clock.delays):
        check_length(where, "delays", clock.delays, n_rows - int(clock.words[words.FIRST_ROW]))


def _check_agents(clock: Clock, n_rows: int, where: str) -> None:
    """Refuse agents that are neither here nor away, and queues of other lengths than they say."""
    for name in ("absent", "parked", "ended"):
        check_range(where, name, getattr(clock, name), 0, 1)
    for name in ("turns", "answers", "late"):
        check_range(where, name, getattr(clock, name), 0, _MOST)
    check_range(where, "queue", clock.queue, -1, n_rows - 1)
    for name in ("queue_at", "queue_end"):
        check_range(where, name, getattr(clock, name), 0, len(clock.queue))
    waiting = clock.queue_end - clock.queue_at
    _require(np.all(waiting >= 0), where, "queues")
    _require(waiting.sum() == clock.words[words.LEFT], where, "examples")
    going_on = np.count_nonzero(clock.ended == 0)
    _require(going_on == clock.words[words.GOING_ON], where, "agents")


def _check_due(clock: Clock, where: str) -> None:
    """Refuse turns of agents, arrivals on wires and copies of messages that there are not."""
    what = clock.due_what[: clock.words[words.DUE]]
    kinds, places = what & 7, (what >> words.WIRE) & words.ONE_WIRE
    possible = {words.TURN} | ({words.GOING, words.COMING} if clock.conditions.churn else set())
    possible |= {words.ASYNC: {words.ARRIVAL}, words.GOSSIP: {words.MEETING}}.get(
        clock.schedule, set()
    )
    _require(set(kinds.tolist()) <= possible, where, "things to come")
    by_wire = (kinds == words.ARRIVAL) | (kinds == words.MEETING)
    check_range(where, "due_what", places[by_wire], 0, len(clock.wires.sender) - 1)
    check_range(where, "due_what", places[~by_wire], 0, clock.n_agents - 1)
    messages, arriving = len(clock.copies), what[kinds == words.ARRIVAL] >> words.MESSAGE
    check_range(where, "due_what", arriving, 0, messages - 1)
    free = clock.free_messages[: clock.words[words.FREE_MESSAGES]]
    unused = _unused(where, "free_messages", free, messages)
    copies = np.bincount(arriving, minlength=messages)
    _require(np.array_equal(copies[~unused], clock.copies[~unused]), where, "messages")
    _require(not np.any(copies[unused]), where, "messages that are free and under way")


def _check_answers(clock: Clock, n_rows: int, where: str) -> None:
    """Refuse chains of labels that are rings, that share a label, or that lose one."""
    answers = len(clock.due_turn)
    for name in ("first", "last", "next_answer"):
        check_range(where, name, getattr(clock, name), -1, answers - 1)
    free = clock.free_answers[: clock.words[words.FREE_ANSWERS]]
    used = ~_unused(where, "free_answers", free, answers)
    late = np.count_nonzero(used)
    _require(late == clock.words[words.LATE] == clock.late.sum(), where, "answers")
    check_range(where, "row_of", clock.row_of[used], 0, n_rows - 1)
    wheel = max(len(clock.first) // clock.n_agents, 1)
    places = np.flatnonzero(clock.first >= 0)
    _require(np.array_equal(places, np.flatnonzero(clock.last >= 0)), where, "answers")
    slots, met, whose = clock.first[places], np.zeros(answers, bool), np.zeros_like(clock.late)
    while len(slots):
        fresh = used[slots] & ~met[slots]
        due, turns = clock.due_turn[slots], clock.turns[places // wheel]
        in_time = (due > turns) & (due % wheel == places % wheel)
        _require(
            np.all(fresh & in_time) and len(set(slots.tolist())) == len(slots), where, "answers"
        )
        met[slots] = True
        np.add.at(whose, places // wheel, 1)
        after = clock.next_answer[slots]
        tails = after < 0
        _require(np.array_equal(clock.last[places[tails]], slots[tails]), where, "answers")
        slots, places = after[~tails], places[~tails]
    _require(np.count_nonzero(met) == late, where, "answers")
    _require(np.array_equal(whose, clock.late), where, "answers")
