"""Agents that choose what they send: limits to the bit, recordings, counts, codes, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import ddol
from ddol.schedules.events import MIX, PROJECT, RECEIVE, SEND, TEACH
from ddol.schedules.reference import EventReference

RNG = np.random.default_rng(3)
X = RNG.standard_normal((1_200, 6))
Y = np.sign(X @ RNG.standard_normal(6) + 0.5 * RNG.standard_normal(1_200))
ALGORITHMS = [ddol.dogd(radius=5.0), ddol.adaptive(), ddol.doeg()]


def played(algorithm, **options):
    return ddol.run(algorithm, (X, Y), ddol.ring(5), **options)


def same(first, second):
    assert np.array_equal(first.weights, second.weights)
    assert np.array_equal(first.mistakes, second.mistakes)
    assert np.array_equal(first.loss, second.loss)


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: a.name)
@pytest.mark.parametrize(
    "options", [{"talk": "drift:0"}, {"talk": "always"}, {"compress": "top:6"}]
)
def test_limits_that_change_nothing(algorithm, options):
    same(played(algorithm), played(algorithm, **options))


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: a.name)
def test_who_never_talks_is_alone(algorithm):
    silent = played(algorithm, talk="drift:inf")
    same(played(algorithm, period=10**6), silent)
    assert (silent.messages, silent.bytes_sent, silent.traffic) == (0, 0, {})
    same(silent, played(algorithm, talk="never"))


@pytest.mark.parametrize("schedule", ["rounds", "async"])
@pytest.mark.parametrize("compress", [None, "float32", "8bit", "top:2"])
def test_a_recording_of_silence_plays_again(schedule, compress):
    algorithm = ddol.adaptive()
    options = {"talk": "drift:0.5", "compress": compress}
    first = played(algorithm, schedule=schedule, record=True, **options)
    again = played(algorithm, replay=first.events, **options)
    same(first, again)
    assert (first.messages, first.bytes_sent) == (again.messages, again.bytes_sent)
    assert first.events.count(SEND) < first.events.count(MIX) + 1 <= 1_200
    assert first.messages == 2 * first.events.count(SEND) == first.events.count(RECEIVE)
    assert first.certificate.drift == again.certificate.drift


def test_threads_choose_what_they_send_too():
    first = played(
        ddol.adaptive(), schedule="async", engine="threads", workers=2, talk="drift", record=True
    )
    same(first, played(ddol.adaptive(), replay=first.events))
    assert 0 < first.messages < 2 * 1_200
    rounds = played(ddol.adaptive(), engine="threads", talk="drift")
    same(played(ddol.adaptive(), talk="drift"), rounds)


@pytest.mark.parametrize(
    ("compress", "most"),
    [("float32", 4 * 46), ("8bit", 2 * (6 + 2) + 4 * 2 * 6 + 2 * 10), ("top:2", 2 * 52 + 80)],
)
def test_bytes_are_counted_as_sent(compress, most):
    whole, coded = played(ddol.adaptive()), played(ddol.adaptive(), compress=compress)
    assert coded.messages == whole.messages
    assert coded.bytes_sent < whole.bytes_sent / 1.8
    assert coded.bytes_sent <= coded.messages * most + 10 * 8 * 46
    assert sum(size for _, size in coded.traffic.values()) == coded.bytes_sent
    assert sum(count for count, _ in coded.traffic.values()) == coded.messages
    assert abs(coded.error - whole.error) < 0.02


def test_less_is_sent_where_less_has_moved():
    sent = [played(ddol.adaptive(), talk=f"drift:{e}").bytes_sent for e in (1e-6, 0.1, 1.0, 10.0)]
    assert sent == sorted(sent, reverse=True)
    assert sent[-1] < sent[0] / 20


def test_units_do_not_matter():
    options = {"talk": "drift", "compress": "8bit"}
    first = ddol.run(ddol.adaptive(), (X, Y), ddol.ring(5), **options)
    for units in (1024.0, 2.0 ** np.array([0, 40, -40, 10, 20, 0])):
        scaled = ddol.run(ddol.adaptive(), (X * units, Y), ddol.ring(5), **options)
        assert (first.messages, first.error) == (scaled.messages, scaled.error)


def test_losses_and_latencies():
    rough = ddol.Conditions(latency="0..3", drop_messages=0.2)
    options = {"schedule": "async", "conditions": rough, "talk": "drift", "compress": "float32"}
    first = played(ddol.dogd(), record=True, **options)
    assert 0.1 < first.dropped / first.messages < 0.3
    same(first, played(ddol.dogd(), replay=first.events, compress="float32"))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"talk": "drift:-1"}, "`talk`: found 'drift:-1', expected a number"),
        ({"talk": "often"}, "`talk`: found 'often', expected always, never, drift or drift:E"),
        ({"compress": "zip"}, "`compress`: found 'zip', expected float32, 8bit, top:K or none"),
        ({"compress": "top:0"}, "`compress`: found 'top:0'"),
        ({"compress": "top:2.5"}, "`compress`: found 'top:2.5'"),
        ({"talk": "drift", "schedule": "gossip"}, "`talk` is for rounds and async"),
        ({"compress": "8bit", "schedule": "gossip"}, "use float32"),
        ({"compress": "8bit", "conditions": ddol.Conditions(drop_messages=0.1)}, "use float32"),
        (
            {"talk": "drift", "engine": "mpi"},
            "lets agents choose what they send, which mpi does not",
        ),
        ({"talk": "drift", "batch": 2}, "one example a turn"),
    ],
)
def test_what_does_not_go_is_refused_in_one_line(options, expected):
    with pytest.raises(ValueError, match=r"\S") as caught:
        played(ddol.dogd(), **options)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"talk": "drift:0.3"},
        {"talk": "drift:0.3", "compress": "8bit"},
        {"compress": "top:2", "schedule": "async"},
        {"compress": "float32", "talk": "drift:0.1"},
        {"talk_to": 1},
        {"teach": 1, "talk": "drift:0.3"},
        {"teach": "2:gradients", "period": 7},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "algorithm", [ddol.adaptive(), ddol.dogd(radius=2.0)], ids=lambda a: a.name
)
def test_the_kernel_says_what_the_reference_says(algorithm, options):
    if algorithm.name == "adaptive" and "gradients" in str(options):
        pytest.skip("adaptive learns from examples")
    data, few = (X[:100], Y[:100]), {k: v for k, v in options.items() if k != "schedule"}
    trace = ddol.run(algorithm, data, ddol.ring(4), record=True, **options)
    reference = EventReference(algorithm.on(ddol.ring(4), **few), *data)
    reference.play(trace.events)
    np.testing.assert_allclose(reference.weights(), trace.weights, rtol=1e-9, atol=1e-12)
    assert np.array_equal(reference.outcome.mistakes, trace.mistakes)


def test_agents_are_silent_exactly_when_they_have_not_moved():
    threshold, data = 0.15, (X[:160], Y[:160])  # so that every turn is looked at
    algorithm = ddol.adaptive().on(ddol.ring(4), talk=f"drift:{threshold}")
    events = ddol.run(algorithm, data, record=True).events
    reference, sent = EventReference(algorithm, *data), 0
    for place, event in enumerate(events):
        if event.kind == SEND:
            said = reference.pieces_to_say(event.agent, threshold)
            assert said == (3 if event.row < 0 else event.row) or event.row < 0 < said
            sent += 1
        elif event.kind == PROJECT:  # neither heard nor said anything
            assert reference.pieces_to_say(event.agent, threshold) == 0
        reference._play(place, event)
    assert 20 < sent < 160


def test_everybody_is_reached_in_bounded_time():
    trace = ddol.run(ddol.dogd(), (X, Y), ddol.complete(6), talk_to=1, record=True)
    assert trace.messages == 1_200 == trace.events.count(SEND)
    for i in range(6):
        heard = trace.events.peer[(trace.events.kind == RECEIVE) & (trace.events.agent == i)]
        times = trace.events.time[(trace.events.kind == RECEIVE) & (trace.events.agent == i)]
        for j in range(6):
            if j != i:
                assert np.diff(times[heard == j], prepend=0.0, append=200.0).max() <= 4 * 5 + 5


def test_lessons_help_and_are_counted():
    alone = played(ddol.adaptive(), talk="never")
    taught = played(ddol.adaptive(), talk="never", teach=2, record=True)
    assert taught.error < alone.error
    assert taught.messages == taught.events.count(TEACH) > 0
    assert taught.bytes_sent == taught.messages * 8 * (6 + 1)
    assert taught.dropped == 0
    assert set(taught.traffic) <= set(played(ddol.adaptive()).traffic)
    same(alone, played(ddol.adaptive(), talk="never", teach=0))


def test_single_precision_is_half_the_bytes():
    """Also where statistics of the features are left out of most exchanges."""
    for algorithm in ALGORITHMS:
        few = ddol.run(algorithm, (X, Y), ddol.ring(3), compress="float32")
        assert 2 * few.bytes_sent == ddol.run(algorithm, (X, Y), ddol.ring(3)).bytes_sent


def test_whoever_does_best_is_known_from_the_answers_that_were_bought():
    n, share, seed = 4, 0.3, 2
    asked = np.empty(1_200, bool)
    for a in range(n):
        chances = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, a])))
        asked[a::n] = chances.random(300) < share
    runs = [
        ddol.run(
            ddol.dogd(),
            (X, y),
            ddol.complete(n),
            talk_to="1:loss",
            query=f"random:{share}",
            seed=seed,
        )
        for y in (Y, np.where(asked, Y, -Y))
    ]
    assert runs[0].traffic == runs[1].traffic
    assert np.array_equal(runs[0].weights, runs[1].weights)
    assert len({count for count, _ in runs[0].traffic.values()}) > 1


@pytest.mark.parametrize("rule", [{"teach": 1}, {"talk_to": "1:loss"}])
def test_what_neighbours_say_is_no_label(rule):
    with pytest.raises(ValueError, match="leave out \\+neighbours"):
        played(ddol.dogd(), query="0.5+neighbours", **rule)


@pytest.mark.parametrize("rule", [{"talk": "drift"}, {"compress": "float32"}, {"teach": 1}])
def test_patience_says_that_everybody_talks(rule):
    with pytest.raises(ValueError, match="does not go with --patient"):
        played(ddol.dogd(), schedule=ddol.Schedule("rounds", patient=True), delay=2, **rule)
