"""The MPI engine in real jobs: this file is also the program that they run."""

import faulthandler
import importlib.util
import itertools
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import ddol
from ddol import presets
from ddol.checkpoint import load_checkpoint, resume, save_checkpoint, take
from ddol.compiled import INTERPRETED
from ddol.engines.feed import Feed
from ddol.engines.groups import recovery
from ddol.engines.groups.grouped import neighbours_of
from ddol.engines.learner import Learner
from ddol.engines.local import Local
from ddol.engines.mpi import calls as mpi_calls
from ddol.engines.mpi import heartbeat
from ddol.engines.mpi.job import find_mpiexec
from ddol.engines.mpi.ranks import leave, open_ranks
from ddol.engines.mpi.rounds import Mpi
from ddol.engines.setup import Setup
from ddol.engines.state import start_state
from ddol.engines.workers.partition import split
from ddol.job.run import encoded, run
from ddol.streams.arrays import array_stream
from ddol.streams.dealing import table_round_robin
from ddol.streams.errors import DataError
from ddol.streams.rows import Block, Rows
from ddol.streams.text.libsvm import LibsvmStream
from ddol.testing import check_engine, examples_for
from patience import LONG, own_modules, wait_until

with_mpi = pytest.mark.skipif(
    INTERPRETED or importlib.util.find_spec("mpi4py") is None,
    reason="needs compiled code and mpi4py: pip install ddol[mpi]",
)

# --- What the ranks do --------------------------------------------------------------------

ALGORITHMS = (
    ddol.dogd(l2=0.5),
    ddol.dogd(l2=0.1, radius=0.5, average="primal"),
    ddol.dogd(l2=0.0, outputs=3),
    presets.adaptive(),
    ddol.doeg(radius=3.0),
    ddol.dwm_i(0.5),
    ddol.dwm_a(0.5),
    ddol.drwm(0.7),
)
PLACES = ({}, {"batch": 3}, {"period": 3}, {"batch": 2, "period": 2, "delay": 1})


def same_as_local(folder):
    """Every algorithm, on every topology, with every batch and period in turn."""
    number = 0
    for algorithm in ALGORITHMS:
        for topology in (ddol.complete(4), ddol.ring(5), ddol.star(3)):
            placed = algorithm.on(topology, **PLACES[number % len(PLACES)])
            number += 1
            sparse = number % 2 == 0 and not algorithm.update.experts
            check_engine(placed, "mpi", sparse=sparse, n_examples=60)
    graphs = [ddol.metropolis(ddol.ring(5)), ddol.metropolis(ddol.star(5))]
    mixing = ddol.changing(lambda t: graphs[t % 2])
    check_engine(ddol.dogd().on(5, mixing), "mpi", n_examples=60)
    check_files(folder)
    if open_ranks().size == 2:
        check_bytes()


def check_files(folder):
    """One file, dealt, and one file each, of different lengths; most text is passed over."""
    algorithm = ddol.dogd(l2=0.0).on(ddol.ring(4), batch=2)
    one = LibsvmStream((f"{folder}/0.libsvm",), chunk_bytes=700)
    each = [LibsvmStream((f"{folder}/{k}.libsvm",), chunk_bytes=700) for k in range(4)]
    for streams in ([one], each):
        labelled, _ = encoded(algorithm, streams)
        expected = run(algorithm, labelled, passes=2)
        found = run(algorithm, labelled, engine="mpi", passes=2)
        assert_array_equal(found.mistakes, expected.mistakes)
        assert_array_equal(found.state.examples, expected.state.examples)
        assert_allclose(found.weights, expected.weights, atol=1e-9)


def check_bytes():
    """Over two ranks a ring of 64 sends its two boundary agents each way, and nothing else."""
    algorithm = ddol.dogd().on(ddol.ring(64))
    X, y = examples_for(algorithm, 640, 54, np.random.default_rng(0))
    engine = Mpi.open(algorithm, start_state(algorithm, 54), Setup())
    engine.play(Block(Rows.from_dense(X, y), table_round_robin(640, 64)))
    assert engine.bytes_sent == 10 * 2 * 54 * 8


def play(folder, engine, after_block=lambda learner, blocks: None, saved=None):
    """A run over 4 agents' files in many small blocks: the learner at its end."""
    algorithm = ddol.dogd(l2=0.0).on(ddol.ring(4), delay=1)
    streams = [LibsvmStream((f"{folder}/{k}.libsvm",), chunk_bytes=700) for k in range(4)]
    learner, blocks = Learner(algorithm, Setup(engine)), itertools.count(1)

    def watch(progress):
        if progress.position is not None:
            after_block(learner, next(blocks))

    if saved is not None:
        resume(learner, saved)
    learner.on_progress = watch
    feed = Feed(encoded(algorithm, streams)[0], passes=2, block_rounds=20)
    learner.follow(feed, learner.position)
    return learner


def keep(trace, folder):
    if open_ranks().leads:
        np.savez(f"{folder}/result.npz", mistakes=trace.mistakes, weights=trace.weights)


def lose_a_rank(folder):
    die_in_blocks(folder, {2: 4})


def lose_the_first(folder):
    die_in_blocks(folder, {0: 4})


def lose_two(folder):
    """One after the other, as the copies of the first have to be given anew."""
    die_in_blocks(folder, {1: 3, 3: 6})


def die_in_blocks(folder, victims):
    """Some ranks die, each after as many blocks; the others must finish."""
    recovery.SECONDS = 0.0
    born = open_ranks().rank

    def die(learner, blocks):
        if blocks == victims.get(born):
            os.kill(os.getpid(), signal.SIGKILL)

    keep(play(folder, "mpi", die).trace(), folder)


def lose_one_at_the_end(folder):
    """All examples are read, but nobody else has what the last rank has learned."""
    learner = play(folder, "mpi")
    if open_ranks().rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    keep(learner.trace(), folder)


def lose_one_while_measuring(folder):
    """All look at the run after every block, as they do where examples are held out."""
    recovery.SECONDS = 0.0
    born = open_ranks().rank

    def look(learner, blocks):
        if (born, blocks) == (2, 4):
            os.kill(os.getpid(), signal.SIGKILL)
        learner.trace()

    keep(play(folder, "mpi", look).trace(), folder)


def lose_one_at_the_start(folder):
    if os.environ["OMPI_COMM_WORLD_RANK"] == "1":  # MPI has not started yet
        os.kill(os.getpid(), signal.SIGKILL)
    open_ranks()


def silent_at_the_end(folder):
    """One says nothing any more, and does not come to where all agree that they are well."""
    heartbeat.PERIOD, heartbeat.SILENT, heartbeat._PATIENCE = 0.1, 0.5, 1.0
    ranks = open_ranks("end")
    first = ranks.gather(os.getpid())[0]
    assert wait_until(lambda: all(peer.heard for peer in ranks.heartbeat.peers.values()))
    if ranks.leads:
        ranks.all_well(True)
    ranks.heartbeat.keep(set())
    wait_until(lambda: ended(first))
    os._exit(1)


def ended(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def die_after_checkpoint(folder):
    ranks = open_ranks()

    def save(learner, blocks):
        saved = take(learner)
        if ranks.leads:
            save_checkpoint(folder, saved)
        if saved.rounds >= 60 and ranks.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    play(folder, "mpi", save)


def go_on(folder):
    keep(play(folder, "mpi", saved=load_checkpoint(folder)).trace(), folder)


def fail_on_rank_1(folder):
    def rate(t):
        return 1 / 0 if open_ranks().rank == 1 and t > 5 else 1.0

    check_engine(ddol.dogd(rate=rate).on(ddol.ring(4)), "mpi")


def different_options(folder):
    period = 1 + open_ranks().rank
    algorithm = ddol.dogd().on(ddol.ring(4), period=period)
    X, y = examples_for(algorithm, 40, 3, np.random.default_rng(0))
    run(algorithm, [array_stream(X, y)], engine="mpi")


# --- What pytest does ---------------------------------------------------------------------


def job(n_ranks: int, what: str, folder: Path, *options: str) -> subprocess.CompletedProcess:
    """Run a function of this file on `n_ranks` ranks."""
    return mpiexec(n_ranks, [sys.executable, __file__, what, str(folder)], *options)


def mpiexec(n_ranks: int, command: list[str], *options: str) -> subprocess.CompletedProcess:
    # The machine of a test is shared: who waits must let others work.
    more = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "PYTHONPATH": own_modules(),
    }
    launcher = [str(find_mpiexec()), *options, "--oversubscribe", "--bind-to", "none"]
    return subprocess.run(
        [*launcher, "-n", str(n_ranks), *command],
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """Four agents' files of different lengths, the last of them short."""
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(3)
    for k, rows in enumerate((150, 140, 110, 30)):
        X = rng.standard_normal((rows, 6)).round(3)
        lines = [
            f"{rng.choice([-1, 1])} " + " ".join(f"{j + 1}:{x}" for j, x in enumerate(row))
            for row in X
        ]
        Path(folder, f"{k}.libsvm").write_text("\n".join(lines) + "\n")
    # What is compiled once, here, is not compiled by all ranks at the same time.
    for algorithm in ALGORITHMS:
        check_engine(algorithm.on(2), "local", sparse=not algorithm.update.experts)
    mpi_calls.mpi_addresses()
    return folder


@with_mpi
@pytest.mark.parametrize("n_ranks", [2, 3])
def test_ranks_play_as_one_worker_does(n_ranks, files):
    done = job(n_ranks, "same_as_local", files)
    assert done.returncode == 0, done.stderr


def same_result(folder: Path) -> None:
    expected = play(folder, "local").trace()
    with np.load(folder / "result.npz") as found:
        assert_array_equal(found["mistakes"], expected.mistakes)
        assert_allclose(found["weights"], expected.weights, atol=1e-9)
    (folder / "result.npz").unlink()


@with_mpi
@pytest.mark.parametrize(
    ("what", "n_ranks"),
    [
        ("lose_a_rank", 3),
        ("lose_the_first", 3),
        ("lose_two", 4),
        ("lose_one_while_measuring", 3),
        ("lose_one_at_the_end", 3),
    ],
)
def test_the_others_take_over_a_killed_rank(what, n_ranks, files):
    done = job(n_ranks, what, files, "--with-ft", "ulfm")
    assert "ddol: 1 rank was lost; 2 ranks go on with all agents from round" in done.stderr, (
        done.stderr
    )
    same_result(files)


@with_mpi
def test_a_rank_that_is_killed_before_mpi_has_started_is_not_waited_for(files):
    done = job(2, "lose_one_at_the_start", files, "--with-ft", "ulfm")
    assert done.returncode != 0
    assert "ddol: a rank died while the job was starting" in done.stderr


@with_mpi
def test_whoever_waits_for_all_to_be_well_gives_up_on_one_that_is_silent(files):
    done = job(2, "silent_at_the_end", files, "--with-ft", "ulfm")
    assert done.returncode != 0
    assert "ddol: nothing was heard of rank 1" in done.stderr, done.stderr


@with_mpi
def test_without_ulfm_a_killed_rank_ends_the_job_and_others_resume_it(files):
    done = job(2, "die_after_checkpoint", files)  # it ends by itself, before the timeout
    assert done.returncode != 0
    done = job(3, "go_on", files)
    assert done.returncode == 0, done.stderr
    same_result(files)


@with_mpi
def test_an_exception_on_one_rank_ends_the_job(files):
    done = job(2, "fail_on_rank_1", files)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr


@with_mpi
def test_ranks_with_different_options_say_which(files):
    done = job(2, "different_options", files)
    assert done.returncode == 1
    assert "the ranks were started with different options: period is 1 on rank 0 and 2" in (
        done.stderr
    )


TRAIN = [
    sys.executable,
    "-m",
    "ddol",
    "train",
    "--engine",
    "mpi",
    "--algorithm",
    "dogd",
    "--agents",
]


@with_mpi
@pytest.mark.parametrize(
    ("line", "told"), [(b"1 2:x\n", "expected"), (None, "no such file; check the name")]
)
def test_what_is_wrong_with_one_ranks_file_ends_the_job(line, told, files, tmp_path):
    names = [str(tmp_path / f"{k}.libsvm") for k in range(2)]
    for k, name in enumerate(names):
        Path(name).write_bytes((files / f"{k}.libsvm").read_bytes())
    if line is None:
        Path(names[1]).unlink()
    else:
        with Path(names[1]).open("ab") as file:
            file.write(line)
    done = mpiexec(2, [*TRAIN, "2", "--quiet", *names])
    assert done.returncode == 2, done.stderr
    assert f"ddol: {names[1]}" in done.stderr and told in done.stderr
    assert "Traceback" not in done.stderr


@with_mpi
def test_a_rank_needs_its_own_files_only(files, tmp_path):
    """The shell of each rank goes to a folder where the other's file is missing."""
    for k in range(2):
        folder = tmp_path / str(k)
        folder.mkdir()
        (folder / f"{k}.libsvm").write_bytes((files / f"{k}.libsvm").read_bytes())
    train = shlex.join(
        [*TRAIN, "2", "--quiet", "--json", str(tmp_path / "out"), "0.libsvm", "1.libsvm"]
    )
    command = f"cd {tmp_path}/$OMPI_COMM_WORLD_RANK && exec {train}"
    done = mpiexec(2, ["sh", "-c", command])
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out").read_text())["examples"] == 290


@with_mpi
@pytest.mark.parametrize("sites", [1, 2])
def test_missing_values_become_the_means_that_one_process_finds(sites, tmp_path):
    """Every stream has running means of its own, whoever reads it; at the end all are put together."""
    rng = np.random.default_rng(0)
    for k in range(sites):
        rows = [
            f"{'' if row % 5 == 2 else round(7 * k + rng.random(), 3)},{int(rng.random() < 0.5)}"
            for row in range(300)
        ]
        (tmp_path / f"{k}.csv").write_text("\n".join(["x,label", *rows]))
    found = []
    names = [str(tmp_path / f"{k}.csv") for k in range(sites)]
    for n_ranks, engine in ((1, "local"), (2, "mpi")):
        out, model = tmp_path / f"{engine}.json", tmp_path / f"{engine}.ddol"
        words = ["--engine", engine, "--missing", "mean", "--json", str(out), "--model", str(model)]
        plain = [sys.executable, "-m", "ddol", "train", *names, "--agents", "2", "--quiet", *words]
        done = mpiexec(n_ranks, plain)
        assert done.returncode == 0, done.stderr
        mistakes = json.loads(out.read_text())["mistakes"]
        found.append((mistakes, ddol.load(model).encoding.means))
    assert found[0] == found[1] and found[0][1][0] > 0.1


DIFFERENT = {
    "another order": lambda lines: [lines[1], lines[0], *lines[2:]],
    "a missing last line": lambda lines: lines[:-1],
    "a changed byte": lambda lines: [lines[0].replace(b"1", b"2", 1), *lines[1:]],
}


@with_mpi
@pytest.mark.parametrize("how", DIFFERENT)
def test_different_data_of_one_name_are_refused(how, files, tmp_path):
    lines = (files / "0.libsvm").read_bytes().splitlines(keepends=True)
    for rank, text in enumerate((lines, DIFFERENT[how](lines))):
        (tmp_path / str(rank)).mkdir()
        (tmp_path / str(rank) / "data.libsvm").write_bytes(b"".join(text))
    train = shlex.join([*TRAIN, "2", "--quiet", "data.libsvm"])
    command = f"cd {tmp_path}/$OMPI_COMM_WORLD_RANK && exec {train}"
    done = mpiexec(2, ["sh", "-c", command])
    assert done.returncode == 2, done.stderr
    assert "different options: the data (data.libsvm) is" in done.stderr


@with_mpi
def test_more_ranks_than_agents():
    done = mpiexec(3, [*TRAIN, "2", "--quiet"])
    assert done.returncode == 2
    assert "found 3 ranks for 2 agents, expected at most one rank for each" in done.stderr


def test_neighbours_of_a_star_and_of_a_mixing_that_changes():
    star = neighbours_of(ddol.dogd().on(ddol.star(5)), split(5, 2), rank=1)
    assert star.places.tolist() == [2, -1, -1, 0, 1]
    assert (star.rows, star.rows_to, star.rows_from) == (3, {0: [0, 1]}, {0: 1})
    mixing = ddol.changing(lambda t: ddol.metropolis(ddol.ring(5)))
    anybody = neighbours_of(ddol.dogd().on(ddol.ring(5), mixing), split(5, 2), rank=0)
    assert (anybody.rows, anybody.rows_to) == (5, {1: [0, 1, 2]})


def test_without_mpiexec_the_error_says_how_to_start(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("OMPI_", "PMI")):
            monkeypatch.delenv(name)
    with pytest.raises(DataError, match="use mpiexec -n 4 ddol train …") as error:
        run(ddol.dogd().on(2), (np.eye(2), [-1, 1]), engine="mpi")
    assert "\n" not in str(error.value)
    algorithm = ddol.dogd().on(2)
    assert Local(algorithm, start_state(algorithm, 2)).workers == 1


if __name__ == "__main__":
    faulthandler.dump_traceback_later(LONG / 2, exit=True)  # a job that hangs says where
    globals()[sys.argv[1]](sys.argv[2])
    leave(0)
