"""The virtual clock: the same seed gives the same list, and every list keeps to the conditions."""

import numpy as np
import pytest

from ddol.communicate.mixing import metropolis
from ddol.communicate.topologies import complete, grid, ring, star
from ddol.schedules.clock import Clock
from ddol.schedules.conditions import Conditions
from ddol.schedules.events import (
    ADOPT,
    ANSWER,
    FIELDS,
    JOIN,
    LEAVE,
    MIX,
    PREDICT,
    RECEIVE,
    SEND,
    Events,
)
from ddol.schedules.linking import linked
from ddol.schedules.rounds import events_of_rounds, rounds_of_events
from ddol.schedules.schedule import SCHEDULES
from ddol.schedules.wiring import Wiring

ROUGH = Conditions(
    speed="1..3", latency="exponential:3", drop_messages=0.2, delay="geometric:2", churn=(20, 5),
    partitions=[(5, 15, [[0, 1]])],
)  # fmt: skip


def made(clock, n=400, piece=None):
    """The whole list, with examples fed in pieces."""
    chunks, at, N = [], 0, clock.n_agents
    while True:
        chunk = clock.make()
        if chunk is not None:
            copied = chunk._replace(**{f: getattr(chunk, f).copy() for f in chunk._fields[:6]})
            chunks.append(copied.events(clock.wires))
        elif at >= n:
            if clock.ended.all():
                return Events.joined(chunks)
            clock.end()
        else:
            upto = min(at + (piece or n), n)
            clock.feed(np.arange(at, upto) % N, np.arange(at, upto))
            at = upto


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("topology", [ring(5), complete(4), star(6), grid(2, 3)])
def test_every_list_is_possible_and_every_example_is_learned(schedule, topology):
    mixing = metropolis(topology)
    clock = Clock(schedule, mixing, ROUGH, period=2, seed=3)
    events = made(clock)
    linked(events, Wiring.of(mixing), 400)
    rows = events.row[(events.kind == PREDICT) & (events.row >= 0)]
    assert sorted(rows) == list(range(400))
    assert sorted(events.row[events.kind == ANSWER]) == list(range(400))
    assert (np.diff(events.time) >= 0).all()
    assert (
        events.row[events.kind == PREDICT] % topology.n_agents
        == events.agent[events.kind == PREDICT]
    )[events.row[events.kind == PREDICT] >= 0].all()


@pytest.mark.parametrize("schedule", ["rounds", "async", "gossip", "walk"])
def test_list_depends_on_the_seed_alone(schedule):
    mixing = metropolis(ring(5))
    whole = made(Clock(schedule, mixing, ROUGH, seed=3))
    small = Clock(schedule, mixing, ROUGH, seed=3)
    small.room = 64
    small._make_room()
    pieces = made(small, piece=35)
    other = made(Clock(schedule, mixing, ROUGH, seed=4))
    assert all(np.array_equal(getattr(whole, f), getattr(pieces, f)) for f in FIELDS)
    assert not whole.same_as(other)


@pytest.mark.parametrize(("period", "delay"), [(1, 0), (3, 0), (1, 2), (4, 3)])
def test_rounds_of_the_clock_are_rounds(period, delay):
    table = np.arange(35).reshape(7, 5)
    table[5:, 3] = table[6, 1] = -1
    rounds = Wiring.of(metropolis(ring(5))), period, delay
    with_tail = np.concatenate([table, np.full((delay, 5), -1)])
    clock = Clock("rounds", metropolis(ring(5)), Conditions(delay=delay), period)
    clock.feed(np.tile(np.arange(5), 7), table.ravel())
    clock.end()
    found = clock.make().events(clock.wires)
    planned = events_of_rounds(with_tail, *rounds)
    assert planned.same_as(found)
    assert rounds_of_events(planned, *rounds).tolist() == with_tail.tolist()
    assert (
        rounds_of_events(found, *rounds) is None
    )  # they take time, and are played as events again


def test_list_that_is_no_rounds_is_not_taken_for_them():
    wires = Wiring.of(metropolis(ring(5)))
    events = events_of_rounds(np.arange(10).reshape(2, 5), wires)
    events.agent[-1] = 0
    assert rounds_of_events(events, wires) is None
    assert rounds_of_events(made(Clock("async", metropolis(ring(5)))), wires) is None
    alone = metropolis(ring(1))
    turns = made(Clock("async", alone, period=2))
    assert rounds_of_events(turns, Wiring.of(alone), period=2) is None


def test_latency_is_the_time_between_send_and_receive():
    events = made(Clock("async", metropolis(ring(4)), Conditions(latency=2.5)))
    received = events.kind == RECEIVE
    took = events.time[received] - events.time[events.row[received]]
    assert np.allclose(took, 2.5)


def test_messages_are_lost_as_often_as_said():
    clock = Clock("async", metropolis(ring(8)), Conditions(drop_messages=0.25))
    events = made(clock, 8000)
    assert clock.sent == 16_000
    assert events.count(RECEIVE) == clock.sent - clock.lost
    assert clock.lost == pytest.approx(4000, rel=0.05)


def test_fast_agents_do_more_in_the_same_time():
    clock = Clock("async", metropolis(ring(4)), Conditions(speed=[4, 1, 1, 1]))
    clock.feed(np.repeat(np.arange(4), 100), np.arange(400))
    clock.end()
    events = clock.make().events(clock.wires)
    early = (events.kind == PREDICT) & (events.time < 20)
    counts = np.bincount(events.agent[early], minlength=4)
    assert counts.tolist() == [80, 20, 20, 20]


def test_delay_counts_the_own_predictions():
    events = made(Clock("async", metropolis(ring(4)), Conditions(delay=3)))
    for agent in range(4):
        own = events.agent == agent
        turn = np.cumsum(events.kind[own] == PREDICT)
        kinds, rows = events.kind[own], events.row[own]
        predicted = dict(zip(rows[kinds == PREDICT], turn[kinds == PREDICT], strict=True))
        waited = [turn[k] - predicted[rows[k]] for k in np.flatnonzero(kinds == ANSWER)]
        assert set(waited) == {3}


def test_delays_may_come_from_the_data():
    clock = Clock("async", metropolis(ring(2)), Conditions(delay=[0, 1, 2, 0]))
    clock.feed(np.array([0, 0, 0, 0]), np.arange(4), delays=clock.conditions.delay)
    clock.end()
    events = clock.make().events(clock.wires)
    assert events.row[events.kind == ANSWER].tolist() == [0, 1, 3, 2]


def test_absent_agents_are_away_for_the_share_that_is_said():
    events = made(Clock("async", metropolis(ring(10)), Conditions(churn=(90, 10))), 20_000)
    away = 0.0
    for agent in range(10):
        left = events.time[(events.kind == LEAVE) & (events.agent == agent)]
        came = events.time[(events.kind == JOIN) & (events.agent == agent)]
        away += (came - left[: len(came)]).sum()
    assert away / (10 * events.time[-1]) == pytest.approx(0.1, abs=0.04)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("latency", [0.0, "0..8"])
def test_nothing_passes_between_the_parts_of_a_cut_graph(schedule, latency):
    conditions = Conditions(latency=latency, partitions=[(10, 50, [[0, 1]])])
    events = made(Clock(schedule, metropolis(ring(4)), conditions))
    inside = (events.kind == RECEIVE) & (events.time >= 10) & (events.time < 50)
    passed = set(zip(events.agent[inside], events.peer[inside], strict=True))
    assert passed and passed <= {(0, 1), (1, 0), (2, 3), (3, 2)}


def test_token_does_not_wait_for_ever():
    with pytest.raises(ValueError, match="a partition without an end"):
        Clock("walk", metropolis(ring(4)), Conditions(partitions=[(10, np.inf, [[0, 1]])]))


def test_token_visits_all_agents_equally_often_on_any_graph():
    clock = Clock("walk", metropolis(star(5)), seed=2)
    clock.feed(np.repeat(np.arange(5), 20_000), np.arange(100_000))
    kinds = []
    while (chunk := clock.make()) is not None:
        kinds.append(chunk.agent[chunk.kind == PREDICT].copy())
    visits = np.bincount(np.concatenate(kinds), minlength=5)
    assert visits.min() > 0.9 * visits.mean()


def test_only_the_token_holder_acts():
    events = made(Clock("walk", metropolis(ring(4))))
    holder = 0
    for event in events:
        if event.kind == ADOPT:
            assert event.peer == holder
            holder = event.agent
        elif event.kind != RECEIVE:
            assert event.agent == holder


def test_gossip_is_between_two():
    events = made(Clock("gossip", metropolis(ring(4))))
    mixed = events.kind == MIX
    assert mixed.any()
    pairs = np.column_stack([events.agent[mixed], events.peer[mixed]])
    assert (pairs[::2] == pairs[1::2, ::-1]).all()


def test_memory_is_bounded_by_what_is_under_way():
    clock = Clock("async", metropolis(ring(8)), Conditions(latency=5, delay=7))
    for k in range(50):
        clock.feed(np.arange(800) % 8, np.arange(800) + 800 * k)
        while clock.make() is not None:
            pass
    assert len(clock.due_turn) <= 256
    assert len(clock.copies) <= 256
    assert len(clock.waiting_rows()) <= 8 * 8


def test_unknown_schedule_is_refused():
    with pytest.raises(ValueError, match="unknown schedule 'chaos'; use one of rounds, async"):
        Clock("chaos", metropolis(ring(4)))


def test_walk_needs_neighbours_that_hear_each_other():
    from ddol.communicate.mixing import custom

    one_way = custom(np.roll(np.eye(3), 1, axis=1) / 2 + np.eye(3) / 2)
    with pytest.raises(ValueError, match="one-way edges"):
        Clock("walk", one_way)


def test_message_of_a_send_is_received_at_most_once_by_each():
    events = made(Clock("async", metropolis(ring(5)), ROUGH))
    received = events.kind == RECEIVE
    keys = list(zip(events.agent[received], events.row[received], strict=True))
    assert len(keys) == len(set(keys))
    assert (events.kind[events.row[received]] == SEND).all()


def test_drop_is_the_old_name_of_drop_messages():
    with pytest.warns(DeprecationWarning, match="is `drop_messages` now"):
        old = Conditions(drop=0.25)
    assert old == Conditions(drop_messages=0.25) and old.loses
