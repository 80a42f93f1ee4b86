"""Playing events: rounds are the round engine to the bit, lists are the reference, recordings come back."""

import numpy as np
import pytest
import scipy.sparse as sp

import ddol
from ddol.engines.events.scheduled import ScheduledTurns
from ddol.engines.local import Local
from ddol.engines.state import start_state
from ddol.schedules.conditions import Conditions
from ddol.schedules.recording import load_events, recorded_data, save_events
from ddol.schedules.schedule import SCHEDULES, Schedule
from ddol.streams.dealing import table_round_robin
from ddol.streams.rows import Block, Rows

N_ROWS, N_FEATURES = 203, 7
ROUGH = Conditions(
    speed="1..3", latency="exponential:3", drop_messages=0.2, delay="geometric:2", churn=(20, 5)
)
ALGORITHMS = {
    "dogd": ddol.dogd(),
    "dogd on a ball": ddol.dogd(l2=0.0, radius=1.5),
    "doeg": ddol.doeg(radius=3.0),
    "doeg in the primal": ddol.doeg(radius=3.0, average="primal"),
    "gradients at arrival": ddol.dogd(gradient="arrival"),
    "p-norm": ddol.p_norm(),
    "dual averaging": ddol.dual_averaging(l1=0.01),
    "winnow": ddol.winnow(),
    "averaged iterates": ddol.dogd(average_iterates=True),
    "three classes": ddol.dogd(outputs=3),
    "three classes together": ddol.adaptive(outputs=3),
    "adaptive": ddol.adaptive(),
    "coin": ddol.coin(),
    "newton": ddol.newton(),
    "sketched newton": ddol.newton(rank=3),
}


def data(classes=2, sparse=False, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N_ROWS, N_FEATURES))
    y = np.where(X @ rng.standard_normal(N_FEATURES) > 0, 1.0, -1.0)
    if classes > 2:
        y = rng.integers(0, classes, N_ROWS).astype(float)
    if sparse:
        return sp.csr_matrix(X * (abs(X) > 0.5)), y
    return X, y


def rows_of(X, y):
    return Rows.from_csr(X, y) if sp.issparse(X) else Rows.from_dense(X, y)


def assert_same(one, other):
    a, b = one.state(), other.state()
    assert np.array_equal(a.mistakes, b.mistakes)
    assert np.array_equal(a.loss, b.loss)
    assert np.array_equal(one.weights(), other.weights())
    assert np.array_equal(a.sums, b.sums)


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("topology", [ddol.ring(5), ddol.star(4), ddol.complete(3)], ids=str)
@pytest.mark.parametrize(("period", "delay"), [(1, 0), (3, 0), (1, 2), (3, 2)])
def test_rounds_as_events_are_the_round_engine_to_the_bit(name, topology, period, delay):
    if topology.is_complete and period == 1:
        pytest.skip("one copy for all: compared in the next test")
    algorithm = ALGORITHMS[name].on(topology, period=period, delay=delay)
    n = topology.n_agents
    for sparse in (False, True):
        rows = rows_of(*data(algorithm.outputs if algorithm.outputs > 1 else 2, sparse))
        table = table_round_robin(N_ROWS, n).copy()
        table[-4:, 1] = -1  # streams that end at different times
        rounds = Local(algorithm, start_state(algorithm, N_FEATURES))
        rounds.play(Block(rows, table))
        if delay:
            rounds.play(Block(rows.slice(0, 0), np.full((delay, n, 1), -1)))
        start = start_state(algorithm, N_FEATURES)
        turns = ScheduledTurns(algorithm, start, Schedule("rounds"))
        events = Local(algorithm, start, turns)
        events.play(Block(rows, table[:10]))
        events.play(Block(rows, table[10:]))
        turns.end()
        assert_same(rounds, events)


@pytest.mark.parametrize("name", ["dogd", "doeg", "dogd on a ball"])
def test_on_a_complete_graph_one_copy_for_all_is_as_good_as_one_each(name):
    algorithm = ALGORITHMS[name].on(4)
    X, y = data()
    rounds = ddol.run(algorithm, (X, y))
    events = ddol.run(algorithm, (X, y), conditions=Conditions(latency=1))
    assert np.array_equal(rounds.mistakes, events.mistakes)
    assert np.allclose(events.weights, rounds.weights, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["dogd", "dogd on a ball", "adaptive"])
def test_rows_longer_than_what_is_exchanged_at_a_time_are_the_same_to_the_bit(name):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((64, 3000)), rng.choice([-1.0, 1.0], 64)
    algorithm = ALGORITHMS[name].on(ddol.ring(16))
    rounds, events = (
        ddol.run(algorithm, (X, y), conditions=c) for c in (None, Conditions(latency=1))
    )
    assert np.array_equal(rounds.weights, events.weights)
    sparse = sp.csr_matrix(np.where(rng.random((64, 5000)) < 0.01, 1.0, 0.0))
    first = ddol.run(algorithm, (sparse, y), record=True)
    again = ddol.run(algorithm, (sparse, y), replay=first.events)
    assert np.array_equal(first.weights, again.weights)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    "name", ["dogd", "doeg", "three classes", "dual averaging", "gradients at arrival"]
)
def test_recording_plays_again_to_the_bit(schedule, name):
    algorithm = ALGORITHMS[name]
    examples = data(algorithm.outputs if algorithm.outputs > 1 else 2)
    first = ddol.run(
        algorithm,
        examples,
        ddol.ring(5),
        schedule=schedule,
        conditions=ROUGH,
        record=True,
        passes=2,
    )
    again = ddol.run(algorithm, examples, ddol.ring(5), schedule=schedule, replay=first.events)
    assert np.array_equal(first.mistakes, again.mistakes)
    assert np.array_equal(first.loss, again.loss)
    assert np.array_equal(first.weights, again.weights)
    assert first.examples == again.examples == 2 * N_ROWS
    assert again.certificate.total == first.certificate.total


def test_a_recording_says_which_gradients_were_played(tmp_path):
    late = Conditions(delay="geometric:5")
    runs = {
        gradient: ddol.run(
            ddol.dogd(), data(), ddol.ring(5), schedule="async", conditions=late, record=True,
            gradient=gradient,
        )
        for gradient in ("kept", "arrival")
    }  # fmt: skip
    assert not np.array_equal(runs["kept"].weights, runs["arrival"].weights)
    for gradient, trace in runs.items():
        save_events(tmp_path / "run.npz", trace.events, "some-data")
        events = load_events(tmp_path / "run.npz")
        assert events.gradient == gradient and recorded_data(tmp_path / "run.npz") == (
            "some-data",
            "",
        )
        again = ddol.run(ddol.dogd(), data(), ddol.ring(5), schedule="async", replay=events)
        assert np.array_equal(again.weights, trace.weights)
    with pytest.raises(
        ValueError, match="the recording took gradients 'arrival', `gradient` is 'kept'"
    ):
        ddol.run(ddol.dogd(), data(), ddol.ring(5), replay=events, gradient="kept")


def test_one_stream_for_each_agent_is_numbered_one_after_the_other():
    X, y = data()
    parts = [(0, 50), (50, 60), (60, 203)]
    from ddol.streams.arrays import array_stream

    streams = [array_stream(X[a:b], y[a:b]) for a, b in parts]
    trace = ddol.run(
        ddol.dogd(), streams, ddol.ring(3), schedule="async", conditions=ROUGH, record=True
    )
    events = trace.events
    for agent, (a, b) in enumerate(parts):
        own = (events.kind == 0) & (events.agent == agent) & (events.row >= 0)
        assert events.row[own].tolist() == list(range(a, b))


def test_recording_of_other_data_is_refused():
    X, y = data()
    events = ddol.run(ddol.dogd(), (X, y), ddol.ring(5), record=True).events
    for less in (100, 202):
        with pytest.raises(
            ValueError, match="the recording is of other data: it predicts 203 rows"
        ):
            ddol.run(ddol.dogd(), (X[:less], y[:less]), ddol.ring(5), replay=events)
    with pytest.raises(ValueError, match="agent that does not exist"):
        ddol.run(ddol.dogd(), (X, y), ddol.ring(3), replay=events)


def test_batches_have_no_list_of_events():
    with pytest.raises(ValueError, match="`batch` is 2"):
        ddol.run(ddol.dogd(), data(), ddol.ring(5), schedule="async", batch=2)


def test_push_sum_refuses_what_it_cannot_average():
    with pytest.raises(ValueError, match="push-sum adds numbers up, doeg with the primal average"):
        ddol.run(ddol.doeg(average="primal"), data(), ddol.ring(5), schedule="push-sum")


def test_engines_without_schedules_say_so(monkeypatch):
    from ddol.engines import kinds

    plain = kinds.EngineKind("ddol.engines.local:Local")
    monkeypatch.setitem(kinds.ENGINES, "plain", plain)
    with pytest.raises(ValueError, match="which plain does not; use local, threads or ray"):
        ddol.run(ddol.dogd(), data(), ddol.ring(5), schedule="async", engine="plain")


def test_draws_of_randomised_algorithms_are_those_of_rounds():
    X, y = data()
    advice = np.sign(X)
    algorithm = ddol.drwm().on(ddol.ring(5), period=2)
    rounds = ddol.run(algorithm, (advice, y), seed=5)
    as_events = Schedule("rounds", certificate=True, record=True)
    events = ddol.run(algorithm, (advice, y), seed=5, schedule=as_events)
    assert np.array_equal(rounds.mistakes, events.mistakes)
    assert np.array_equal(rounds.weights, events.weights)
    again = ddol.run(algorithm, (advice, y), seed=5, replay=events.events)
    assert np.array_equal(again.mistakes, events.mistakes)


def test_a_matrix_that_changes_is_that_of_the_agents_own_turn():
    matrices = [np.eye(4), np.full((4, 4), 0.25), np.roll(np.eye(4), 1, axis=0) / 2 + np.eye(4) / 2]
    mixing = ddol.changing(lambda t: matrices[t % 3])
    algorithm = ddol.dogd().on(4, mixing, period=2)
    rounds = ddol.run(algorithm, data())
    events = ddol.run(algorithm, data(), schedule=Schedule("rounds", certificate=True))
    assert np.array_equal(rounds.weights, events.weights)


def test_late_answers_of_a_column():
    X, y = data()
    late = Conditions(delay=np.arange(N_ROWS) % 5)
    prompt = ddol.run(ddol.dogd(), (X, y), ddol.ring(5), schedule="async", record=True)
    trace = ddol.run(
        ddol.dogd(), (X, y), ddol.ring(5), schedule="async", conditions=late, record=True
    )
    assert trace.examples == N_ROWS
    assert not trace.events.same_as(prompt.events)


def test_push_sum_keeps_the_mean_on_a_one_way_ring():
    """Without examples to learn from, every agent ends with the mean of where they began."""
    from ddol.communicate.mixing import custom
    from ddol.engines.events.player import EventPlayer
    from ddol.schedules.clock import Clock
    from ddol.schedules.wiring import Wiring

    mixing = custom(np.roll(np.eye(5), 1, axis=1) * 0.7 + np.eye(5) * 0.3)
    algorithm = ddol.dogd(l2=0.0).on(ddol.complete(5), mixing)
    state = start_state(algorithm, 2)
    began = np.random.default_rng(0).standard_normal((5, 2))
    state.theta[:, 0, 0] = began
    wires = Wiring.of(mixing)
    player = EventPlayer(algorithm, state, wires, Schedule("push-sum"))
    clock = Clock(
        "push-sum", mixing, Conditions(drop_messages=0.3, latency="0..2", speed="1..2"), seed=3
    )
    # Rows of zeros: turns without a gradient.
    rows = Rows.from_dense(np.zeros((2000, 2)), np.ones(2000))
    clock.feed(np.arange(2000) % 5, np.arange(2000))
    clock.end()
    player.play(clock.make(), rows, np.arange(2000), 0, [])
    assert np.allclose(player.worker.weights()[:, 0], began.mean(axis=0), atol=1e-4)


def test_a_schedule_of_ones_own():
    """Agents take turns, and after each answer the next one in line hears of it."""
    from ddol.schedules.events import answer, mix, predict, receive, send

    def in_line(rows, mixing, rng):
        for k in range(max(len(own) for own in rows)):
            for agent, own in enumerate(rows):
                if k < len(own):
                    yield predict(agent, int(own[k]))
                    yield answer(agent, int(own[k]))
                    message = yield send(agent)
                    after = (agent + 1) % len(rows)
                    yield receive(after, agent, message)
                    yield mix(after)

    trace = ddol.run(ddol.dogd(l2=0.0), data(), ddol.ring(5), schedule=in_line, record=True)
    assert trace.examples == N_ROWS
    assert trace.events.count(2) == N_ROWS
    again = ddol.run(ddol.dogd(l2=0.0), data(), ddol.ring(5), replay=trace.events)
    assert np.array_equal(again.weights, trace.weights)


def test_schedule_that_does_the_impossible_is_named():
    from ddol.schedules.events import answer

    def backwards(rows, mixing, rng):
        yield answer(0, 0)

    with pytest.raises(ValueError, match="the schedule backwards: event 0, answer\\(0, 0\\)"):
        ddol.run(ddol.dogd(), data(), ddol.ring(5), schedule=backwards)


def test_virtual_time_and_curves_of_a_run():
    trace = ddol.run(ddol.dogd(), data(), ddol.ring(5), schedule="async", conditions=ROUGH)
    times = [moment.time for moment in trace.moments]
    assert times == sorted(times)
    assert trace.moments[-1].examples == N_ROWS
    assert trace.moments[-1].mistakes == trace.mistakes.sum()
    assert trace.curves.examples[-1] == N_ROWS
    assert (np.diff(trace.curves.examples) >= 0).all()
    assert trace.dropped > 0


def test_rounds_have_the_same_curves_as_events():
    rounds = ddol.run(ddol.dogd(), data(), ddol.ring(5))
    events = ddol.run(
        ddol.dogd(), data(), ddol.ring(5), schedule=Schedule("rounds", certificate=True)
    )
    assert rounds.rounds == events.rounds
    assert rounds.messages == events.messages
    for name in ("rounds", "examples", "mistakes", "loss", "consensus", "agent_mistakes"):
        assert np.array_equal(getattr(rounds.curves, name), getattr(events.curves, name)), name


@pytest.mark.parametrize("engine", ["local", "threads"])
@pytest.mark.parametrize("topology", [ddol.complete(4), ddol.ring(4)], ids=str)
@pytest.mark.parametrize(("period", "delay"), [(1, 0), (1, 2), (3, 2)])
def test_recorded_rounds_play_again_to_the_bit(engine, topology, period, delay):
    options = {"period": period, "delay": delay, "passes": 2}
    first = ddol.run(
        ddol.adaptive(), data(), topology, engine=engine, workers=2, record=True, **options
    )
    again = ddol.run(ddol.adaptive(), data(), topology, replay=first.events, **options)
    plain = ddol.run(ddol.adaptive(), data(), topology, **options)
    assert np.array_equal(again.mistakes, first.mistakes)
    assert np.array_equal(again.weights, first.weights)
    assert np.array_equal(again.loss, first.loss)
    assert np.allclose(again.weights, plain.weights, rtol=1e-9, atol=1e-12)
    if engine == "local" or not topology.is_complete:
        assert np.array_equal(again.weights, plain.weights)


@pytest.mark.parametrize(
    "conditions",
    [
        Conditions(latency=2),
        Conditions(delay="geometric:40"),
        Conditions(drop_messages=0.3, churn=(9, 3)),
    ],
    ids=["late messages", "answers later than a pass", "lost"],
)
def test_disturbed_rounds_on_a_complete_graph_play_again_to_the_bit(conditions):
    options = {"passes": 3, "schedule": "rounds"}
    first = ddol.run(ddol.adaptive(), data(), 7, conditions=conditions, record=True, **options)
    again = ddol.run(ddol.adaptive(), data(), 7, replay=first.events, **options)
    for name in ("mistakes", "loss", "weights"):
        assert np.array_equal(getattr(first, name), getattr(again, name)), name


def test_recording_of_batches_is_refused():
    with pytest.raises(ValueError, match="one example a turn, `batch` is 2"):
        ddol.run(ddol.dogd(), data(), ddol.ring(5), record=True, batch=2)


def test_delays_of_rows_from_an_array_and_from_a_function_are_the_same():
    X, y = data()
    delays, asked = np.arange(N_ROWS) % 5, []

    def source(first, count):
        asked.append((first, count))
        return delays[(first + np.arange(count)) % N_ROWS]

    runs = [
        ddol.run(
            ddol.dogd(), (X, y), ddol.ring(3), schedule="async", passes=2, record=True,
            conditions=Conditions(delay=delay, speed="1..4"), on_progress=lambda progress: None,
        )
        for delay in (delays, source)
    ]  # fmt: skip
    assert runs[0].events.same_as(runs[1].events)
    assert sum(count for _, count in asked) == 2 * N_ROWS
    assert [first for first, _ in asked] == np.cumsum([0, *(c for _, c in asked)])[:-1].tolist()


def test_delays_that_do_not_fit_the_data_are_refused():
    for delay, said in (
        ([1, 2], "`delay` is given for 2 rows"),
        (lambda first, count: [0], "`delay` gave 1 numbers for"),
        (lambda first, count: [-1] * count, "not negative"),
    ):
        with pytest.raises(ValueError, match=said):
            ddol.run(ddol.dogd(), data(), 3, schedule="async", conditions=Conditions(delay=delay))
