"""Actors of Ray play what one process plays, and survive each other."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tests.patience import LONG, wait_until
from tests.ray_streams import at_once, kill, or_skipped, rows_of, small_cluster, until

import ddol
from ddol.engines.errors import EngineError, RankLostError
from ddol.engines.feed import Feed
from ddol.engines.learner import Learner
from ddol.engines.ray import cluster as ray_cluster
from ddol.engines.ray import pool
from ddol.engines.ray.host import Host, Status
from ddol.engines.ray.mailbox import Mailbox, StaleError
from ddol.engines.ray.rounds import Ray
from ddol.engines.ray.watch import Watch
from ddol.engines.setup import Setup
from ddol.schedules.schedule import Schedule
from ddol.streams.errors import DataError
from ddol.streams.open import open_stream, open_streams
from ddol.streams.rows import Block, no_rows
from ddol.streams.synthetic import SyntheticStream
from ddol.streams.tables.frames import in_memory

ray = pytest.importorskip("ray")
services = pytest.importorskip("ray._private.services")


@pytest.fixture(scope="module", autouse=True)
def cluster():
    with or_skipped(small_cluster()):
        yield


STREAM = SyntheticStream(rows_of, 4000, 6, seed=3)
N = 200_000


def same(one, other):
    assert one.examples == other.examples
    assert one.mistakes.tolist() == other.mistakes.tolist()
    np.testing.assert_allclose(one.weights, other.weights, rtol=0, atol=1e-9)
    np.testing.assert_allclose(one.loss, other.loss, rtol=1e-9)


@pytest.mark.parametrize(
    ("algorithm", "network", "changes"),
    [
        (ddol.dogd(), ddol.ring(5), {"period": 8}),
        (ddol.adaptive(), ddol.star(4), {"period": 16, "delay": 3}),
        (ddol.adaptive(), 4, {"period": 16}),
        (ddol.doeg(radius=10.0), ddol.ring(4), {"period": 8, "average": "primal"}),
        (ddol.dogd(radius=2.0), 3, {"batch": 40}),
        (ddol.adaptive(), ddol.ring(4), {"period": 8, "query": 0.3}),
    ],
    ids=["ring", "star with late answers", "complete", "entropy", "one copy for all", "asking"],
)
def test_actors_do_what_one_process_does(algorithm, network, changes):
    alone = ddol.run(algorithm, STREAM, network, **changes)
    spread = ddol.run(algorithm, STREAM, network, engine="ray", workers=3, **changes)
    same(spread, alone)
    assert (spread.engine, spread.workers) == ("ray", 3)
    np.testing.assert_array_equal(spread.curves.mistakes, alone.curves.mistakes)
    assert spread.labels == alone.labels


def test_experts_and_streams_of_unequal_length():
    rng = np.random.default_rng(0)
    streams = []
    for n in (300, 40, 111):
        X = np.where(rng.random((n, 4)) < 0.7, 1.0, -1.0)
        streams.append((X, np.where(rng.random(n) < 0.8, X[:, 0], -X[:, 0])))
    same(
        ddol.run(ddol.dwm_a(), streams, ddol.ring(3), engine="ray", workers=2, period=4),
        ddol.run(ddol.dwm_a(), streams, ddol.ring(3), period=4),
    )


def test_a_loss_of_ones_own_reaches_the_actors():
    def value(z, y, p):
        return (1.0 - y * z) ** 2 if y * z < 1.0 else 0.0

    def derivative(z, y, p):
        return -2.0 * y * (1.0 - y * z) if y * z < 1.0 else 0.0

    algorithm = ddol.dogd(ddol.Loss("my_hinge", value, derivative))
    same(
        ddol.run(algorithm, STREAM, ddol.ring(4), engine="ray", workers=2, period=16),
        ddol.run(algorithm, STREAM, ddol.ring(4), period=16),
    )


def test_blocks_of_the_driver_and_an_estimator():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((500, 5))
    y = X[:, 0] > 0
    spread = ddol.DDOLClassifier(n_agents=4, engine="ray", workers=2, period=8, random_state=0)
    alone = ddol.DDOLClassifier(n_agents=4, period=8, random_state=0)
    np.testing.assert_allclose(spread.fit(X, y).coef_, alone.fit(X, y).coef_, atol=1e-9)
    assert spread._agents.learner.engine is None  # its actors are gone, and what they did is known
    assert spread.trace_.mistakes.tolist() == alone.trace_.mistakes.tolist()


def test_partitions_of_frames_are_streams():
    from ray.data import from_pandas

    pandas = pytest.importorskip("pandas")
    X = np.random.default_rng(0).standard_normal((400, 3))
    frame = pandas.DataFrame(X, columns=list("abc")).assign(y=(X[:, 0] > 0).astype(int))
    halves = [frame[:200], frame[200:]]
    trace = ddol.run(ddol.dogd(l2=0.0), from_pandas(halves), ddol.complete(2))
    assert trace.state.examples.tolist() == [200, 200]
    assert trace.error < 0.1
    given = from_pandas(halves).filter(lambda row: row["b"] > 0)  # not known before it is run
    network, options = ddol.ring(4), {"engine": "ray", "workers": 2, "period": 8}
    alone = ddol.run(
        ddol.dogd(), given, network, period=8
    )  # fewer partitions than agents are dealt
    same(ddol.run(ddol.dogd(), given, network, **options), alone)


def test_partitions_stay_in_their_order_whichever_is_ready_first():
    from ray.data import from_pandas

    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": np.arange(40.0), "y": np.tile([0, 1], 20)})

    def first_is_late(rows):
        if rows["a"][0] == 0.0:
            time.sleep(1.0)
        return rows

    given = from_pandas([frame[:20], frame[20:]]).map_batches(first_is_late, batch_size=None)
    assert in_memory(given)["a"].to_list() == frame["a"].tolist()
    (stream,) = open_streams(given, n_agents=4)
    ((piece, _),) = stream.read()
    assert piece.columns["a"].tolist() == frame["a"].tolist()
    assert not given.context.execution_options.preserve_order


@pytest.mark.parametrize(("rank", "early"), [(0, True), (1, False)])
def test_a_killed_actor_changes_nothing(rank, early, capfd, tmp_path):
    """Before the first example, or after copies were made."""
    algorithm = ddol.dogd().on(ddol.ring(4), period=64)
    learner, killed = Learner(algorithm, Setup("ray", 2)), []
    engine = learner.engine = Ray(algorithm, None, learner.setup)

    def look(progress=None):
        if not killed:
            kill(engine, rank)
            killed.append(rank)
            (tmp_path / "killed").touch()

    learner.on_progress = look
    if early:
        look()
    learner.follow(Feed([until(tmp_path / "killed", N)]))
    same(learner.trace(), ddol.run(algorithm, at_once(N)))
    learner.close()
    assert f"actor {rank} (agents {2 * rank}–{2 * rank + 1}) was lost" in capfd.readouterr().err


def test_the_end_where_nobody_is_to_be_waited_for():
    algorithm = ddol.dogd().on(ddol.ring(4), period=64)
    learner = Learner(algorithm, Setup("ray", 2, on_lost="end"))
    engine = learner.engine = Ray(algorithm, None, learner.setup)
    kill(engine, 1)
    with pytest.raises(EngineError, match="was lost; start again, with --resume"):
        learner.follow(Feed([at_once(N)]))
    engine.close()


def test_a_checkpoint_is_a_common_moment(tmp_path):
    """What the driver is shown between two blocks can be gone on from, by another engine."""
    algorithm = ddol.dogd().on(ddol.ring(4), period=64)
    learner = Learner(algorithm, Setup("ray", 2))
    kept = []

    def look(progress):
        if progress.position is not None and not kept:
            kept.append((learner.state(), learner.past(), progress.examples))
            (tmp_path / "kept").touch()

    learner.on_progress = look
    learner.follow(Feed([until(tmp_path / "kept", N)]))
    whole = learner.trace()
    learner.close()
    state, past, examples = kept[0]
    assert int(state.examples.sum()) == examples < N
    other = Learner(algorithm, Setup(), state)
    other.follow(Feed([at_once(N)]), past.position)
    same(other.trace(), whole)


def test_a_bad_example_is_named():
    X = np.ones((400, 2))
    X[399, 1] = np.inf
    with pytest.raises((ValueError, FloatingPointError), match="inf"):
        ddol.run(ddol.dogd(), (X, np.tile([1.0, -1.0], 200)), ddol.ring(4), engine="ray", workers=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 99}, r"found 99 workers for a cluster with 4 cores, expected at most 4"),
        ({"on_lost": "without"}, "--on-lost without in rounds"),
        ({"address": "elsewhere:1"}, "connected to a cluster already"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(options, message):
    with pytest.raises(EngineError, match=message):
        ddol.run(ddol.dogd(), STREAM, ddol.ring(4), engine="ray", **options)


def test_another_version_at_an_actor_is_refused():
    with pytest.raises(RuntimeError, match="expected one version"):
        Host(0, "0.0.0")


def test_actors_without_the_package_or_with_another_are_one_line(monkeypatch, tmp_path):
    (tmp_path / "ddol").mkdir()
    (tmp_path / "ddol" / "__init__.py").touch()
    kind = pool.actor_class(ray)
    elsewhere = kind.options(runtime_env={"env_vars": {"PYTHONPATH": str(tmp_path)}})
    for made, version, message in (
        (elsewhere, ddol.__version__, r"an actor has no ddol \(No module named 'ddol.engines'"),
        (kind, "0.0.0", "found ddol .* and 0.0.0 at the driver, expected one version"),
    ):
        monkeypatch.setattr(pool, "__version__", version)
        monkeypatch.setattr(pool, "actor_class", lambda _, made=made: _Kind(made))
        with pytest.raises(EngineError, match=message) as found:
            ddol.run(ddol.dogd(), STREAM, ddol.ring(4), engine="ray", workers=1)
        assert "\n" not in str(found.value)


class _Kind:
    """A class of actors whose further options are left out."""

    def __init__(self, kind):
        self.remote = kind.remote

    def options(self, **more):
        return self


def test_a_cluster_that_has_died_without_a_word_is_not_waited_for(monkeypatch):
    """It has left its address on the machine, at which Ray would try for a minute."""
    monkeypatch.setattr(services, "get_ray_address_from_environment", lambda *_: "127.0.0.1:1")
    with pytest.raises(EngineError, match=r"no Ray cluster answers at '127.0.0.1:1' \("):
        ray_cluster.join(SimpleNamespace(init=None), "auto")


def test_what_else_listens_at_an_address_is_no_cluster():
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(EngineError, match="something else listens there; the head's port"):
            ray_cluster.check_address(f"127.0.0.1:{server.server_address[1]}")
        server.shutdown()
    ray_cluster.check_address(ray.get_runtime_context().gcs_address)


@pytest.mark.parametrize("schedule", ["rounds", "async"])
def test_a_package_that_an_actor_has_not_is_named_with_its_node(schedule):
    driver = os.getpid()

    class Elsewhere(SyntheticStream):
        def read(self, position=None, pass_number=0):
            if os.getpid() == driver:
                return super().read(position, pass_number)
            try:
                import a_package_that_is_not_here  # noqa: F401
            except ImportError:
                raise DataError("a.parquet: needs pyarrow; pip install ddol[tables]") from None

    stream = Elsewhere(rows_of, 6, 1)
    said = (
        rf"needs pyarrow; pip install ddol\[tables\] on every node; {os.uname().nodename} does not"
    )
    with pytest.raises(DataError, match=said):
        ddol.run(
            ddol.dogd(), stream, ddol.ring(4), engine="ray", workers=1, n_features=1,
            schedule=Schedule(schedule),
        )  # fmt: skip


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(EngineError, match=r"pip install ddol\[ray\]"):
        ray_cluster.load()


def test_a_letter_of_an_old_epoch_is_never_read():
    box = Mailbox()
    box.post(0, 1, 0, "old")
    box.post(1, 1, 0, "new")
    box.begin_epoch(1)
    assert box.take(1, 0) == "new"
    box.end_epoch(0)  # late, and of no account
    box.post(1, 2, 0, "more")
    assert box.take(2, 0) == "more"
    threading.Timer(0.05, box.end_epoch, [1]).start()
    with pytest.raises(StaleError):
        box.take(3, 0)
    box.end_epoch(2)  # before it has begun here
    box.begin_epoch(2)
    with pytest.raises(StaleError):
        box.take(1, 0)
    box.begin_epoch(3)
    box.post(3, 1, 0, "again")
    assert box.take(1, 0) == "again"


def test_an_actor_in_the_place_of_a_lost_one_says_so():
    """Whoever asks it before it has begun goes back to the last copy, as if it had not been there yet."""
    host = Host(0, ddol.__version__)
    for ask in (host.part, host.weights, host.counters, host.past, host.shown_part):
        with pytest.raises(RankLostError):
            ask()
    with pytest.raises(RankLostError):
        host.follow(Feed([STREAM]), None)
    with pytest.raises(RankLostError):
        host.play(Block(no_rows(), np.empty((0, 4, 1), np.int64)), [])


def test_who_waits_says_for_whom(capsys):
    watch = Watch([(0, 2), (2, 2), (4, 2)])

    def status(rank, waits_for, waited):
        return Status(rank, None, 0, waits_for, waited, 0.1)

    watch.look([status(0, 1, 2.0), status(1, 2, 2.0), status(2, None, 0.0)])
    assert capsys.readouterr().err == ""
    watch.look([status(0, 1, 4.0), status(1, 2, 4.0), status(2, None, 0.0)])
    assert capsys.readouterr().err == "ddol: waiting for actor 2 (agents 4–5) since 4 s\n"
    watch.look([status(0, 1, 5.0), status(1, 2, 5.0), status(2, None, 0.0)])
    assert capsys.readouterr().err == ""


def test_who_has_learned_nothing_for_long_is_named_and_may_be_given_up(capsys, monkeypatch):
    watch, now = Watch([(0, 2), (2, 2)]), [100.0]
    monkeypatch.setattr("ddol.engines.ray.watch.time.monotonic", lambda: now[0])

    def look(seconds, *examples, silent=()):
        now[0] += seconds
        given_up = watch.look_at_turns(dict(enumerate(examples)), silent)
        return given_up, capsys.readouterr().err

    assert look(0, 0, 0) == ([], "")
    assert look(0.3, 50, 50) == ([], "")
    assert look(0.2, 60, 50, silent=[1]) == ([], "")
    assert look(2, 60, 50, silent=[1]) == ([], "")
    late = "ddol: waiting for actor 1 (agents 2–3) since 4 s, 10 examples behind\n"
    assert look(2, 60, 50, silent=[1]) == ([], late)
    assert look(2, 60, 50, silent=[1]) == ([], "")  # all wait now, and the other is not to blame
    again = "ddol: waiting for actor 1 (agents 2–3) since 26 s, 10 examples behind\n"
    assert look(20, 60, 50, silent=[1]) == ([1], again)
    assert look(1, 60, 50, silent=[1]) == ([], "")  # once is enough
    assert look(5, 70) == ([], "")


def test_who_does_not_answer_may_be_given_up_and_who_is_slow_may_not(capsys):
    watch = Watch([(0, 2), (2, 2)])
    waiting, slow = Status(0, None, 0, 1, 11.0, 0.1), Status(1, None, 0, None, 0.0, 0.1)
    assert watch.look([waiting, slow]) == []
    assert watch.look([waiting]) == [1]
    assert watch.look([waiting]) == []


def test_the_command_line_leaves_no_cluster_behind(tmp_path: Path):
    X = np.random.default_rng(0).standard_normal((300, 3))
    lines = [f"{1 if x[0] > 0 else -1} 1:{x[0]} 2:{x[1]} 3:{x[2]}" for x in X]
    files = []
    for k in range(2):
        files.append(tmp_path / f"site-{k}.libsvm")
        files[-1].write_text("\n".join(lines[k::2]) + "\n")
    command = [
        sys.executable,
        "-m",
        "ddol",
        "train",
        *map(str, files),
        "--agents",
        "2",
        "--period",
        "8",
    ]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    done = subprocess.run(
        [*command, "--engine", "ray", "--workers", "2", "--json", "-", "--quiet"],
        capture_output=True, text=True, timeout=LONG, env=environment, cwd=tmp_path,
    )  # fmt: skip
    if "Ray started no cluster on this machine" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    assert "started a local Ray cluster" in done.stderr
    alone = subprocess.run(
        [*command, "--json", "-", "--quiet"], capture_output=True, text=True, timeout=LONG
    )
    import json

    assert json.loads(done.stdout)["mistakes"] == json.loads(alone.stdout)["mistakes"]
    missing = subprocess.run(
        [*command, "--engine", "ray", "--address", "127.0.0.1:1"],
        capture_output=True, text=True, timeout=LONG, env=environment,
    )  # fmt: skip
    assert missing.returncode == 2
    assert missing.stderr.count("\n") == 1
    assert "no Ray cluster answers" in missing.stderr


# Asynchronous turns.


@pytest.mark.parametrize("staleness", [None, 2])
def test_what_actors_did_plays_again_to_the_bit(staleness):
    algorithm = ddol.adaptive().on(ddol.ring(4), period=4, delay=1)
    happened = ddol.run(
        algorithm,
        STREAM,
        engine="ray",
        workers=2,
        schedule=Schedule("async", staleness=staleness),
        record=True,
    )
    assert happened.events is not None
    again = ddol.run(algorithm, STREAM, replay=happened.events)
    assert again.mistakes.tolist() == happened.mistakes.tolist()
    np.testing.assert_array_equal(again.weights, happened.weights)
    np.testing.assert_array_equal(again.loss, happened.loss)
    if staleness is not None:
        assert happened.messages > 0


def test_nobody_waits_for_an_agent_whose_stream_is_over():
    """Neither where it is hosted beside those who go on, nor elsewhere."""
    algorithm = ddol.dogd().on(ddol.complete(4), period=4)
    streams = [SyntheticStream(rows_of, n, 6, seed=n) for n in (40, 900, 300, 1200)]
    schedule = Schedule("async", staleness=1)
    happened = ddol.run(algorithm, streams, engine="ray", workers=2, schedule=schedule, record=True)
    assert happened.state.examples.tolist() == [40, 900, 300, 1200]
    again = ddol.run(algorithm, streams, replay=happened.events)
    np.testing.assert_array_equal(again.weights, happened.weights)


def test_recorded_rounds_play_again():
    algorithm = ddol.dogd().on(ddol.ring(3), period=4, delay=2)
    each = [SyntheticStream(rows_of, n, 6, seed=n) for n in (50, 20, 33)]
    for streams, passes in ((each, 2), (SyntheticStream(rows_of, 100, 6, seed=1), 1)):
        happened = ddol.run(algorithm, streams, engine="ray", workers=2, record=True, passes=passes)
        alone = ddol.run(algorithm, streams, record=True, passes=passes)
        for name in ("kind", "agent", "peer", "row"):
            mine, theirs = (getattr(trace.events, name) for trace in (happened, alone))
            np.testing.assert_array_equal(mine, theirs)


def asynchronous(on_lost, flag):
    """Actor 1 is killed while agents learn; the others have what is left to do after that."""
    algorithm = ddol.dogd().on(ddol.ring(4), period=1024)
    schedule = Schedule("async", staleness=2)
    learner = Learner(algorithm, Setup("ray", 2, on_lost=on_lost, schedule=schedule))

    def look(progress):
        if progress.examples > 10_000 and not flag.exists():
            kill(learner.engine, 1)
            flag.touch()

    learner.on_progress = look
    learner.follow(Feed([until(flag, N)]))
    trace = learner.trace()
    learner.close()
    return trace


def test_nobody_waits_for_an_actor_that_is_started_again(tmp_path, capfd):
    trace = asynchronous("wait", tmp_path / "killed")
    assert trace.state.examples.tolist() == [50_000] * 4
    assert trace.error < 0.1
    said = capfd.readouterr().err
    assert "actor 1 (agents 2–3) was lost; Ray starts another one" in said
    assert "actor 0 (agents 0–1) was lost" not in said


def test_going_on_without_an_actor(tmp_path, capfd):
    trace = asynchronous("without", tmp_path / "killed")
    examples = trace.state.examples
    assert examples[:2].tolist() == [50_000, 50_000]
    assert (examples[2:] < 50_000).all()
    assert "the others go on without it" in capfd.readouterr().err


def test_asynchronous_actors_count_the_features_that_a_file_does_not_tell(tmp_path: Path):
    """Messages have one size, whatever an actor has met so far."""
    path = tmp_path / "a.libsvm"
    path.write_text("1 1:1\n-1 2:1\n" * 10 + "1 5:1\n")
    trace = ddol.run(
        ddol.dogd(),
        open_stream(str(path)),
        ddol.ring(3),
        engine="ray",
        workers=2,
        schedule="async",
    )
    assert trace.examples == 21 and trace.weights.shape[-1] == 5


OWN_CLUSTER = """
import sys
from ddol.engines.ray.cluster import Cluster
import psutil
cluster = Cluster("local", 1)
print(*[each.pid for each in psutil.Process().children(recursive=True)], flush=True)
sys.stdin.read()
"""


def test_nothing_of_a_cluster_of_ones_own_outlives_a_driver_that_was_killed():
    """Ray's agents would wait a minute for an answer of a server that is no more."""
    import psutil

    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    with subprocess.Popen(
        [sys.executable, "-c", OWN_CLUSTER],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
    ) as driver:  # fmt: skip
        started = [int(pid) for pid in driver.stdout.readline().split()]
        driver.kill()
    if not started:
        pytest.skip("Ray started no cluster on this machine")

    def running(pid):
        return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE

    assert wait_until(lambda: not any(map(running, started)), seconds=30)
