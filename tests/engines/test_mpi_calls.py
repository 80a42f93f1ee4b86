"""MPI called from compiled code, in real jobs: this file is also the program that they run."""

import importlib.util
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from ddol.compiled import INTERPRETED, call_int, entry
from ddol.engines.mpi import calls as mpi_calls
from ddol.engines.mpi.job import find_mpiexec
from ddol.engines.threads.atomics import ABORTED, SENT, TOO_LONG
from patience import LONG, own_modules

with_mpi = pytest.mark.skipif(
    INTERPRETED or importlib.util.find_spec("mpi4py") is None,
    reason="needs compiled code and mpi4py: pip install ddol[mpi]",
)


@entry("int64(int64, int64, int64, int64, int64)")
def call_often(address, words, buffer, count, times):
    for _ in range(times):
        status = call_int(address, (words, buffer, count))
        if status != 0:
            return status
    return 0


def call(address, words, buffer, count):
    return call_often(address, words.ctypes.data, buffer.ctypes.data, count, 1)


def reduce(address, words, buffer, times):
    return call_often(address, words.ctypes.data, buffer.ctypes.data, len(buffer), times)


# --- What the ranks do --------------------------------------------------------------------


def check_reduce(comm):
    context, addresses = mpi_calls.open_context(comm), mpi_calls.mpi_addresses()
    rank, size = comm.rank, comm.size
    buffer = np.arange(54.0) + rank
    assert reduce(addresses.reduce, context.words, buffer, 1) == 0
    np.testing.assert_array_equal(buffer, size * np.arange(54.0) + size * (size - 1) / 2)
    assert context.words[SENT] == (54 if size > 1 else 0)
    highest = np.array([rank, -rank, -np.inf])
    assert reduce(addresses.reduce_max, context.words, highest, 1) == 0
    np.testing.assert_array_equal(highest, [size - 1, 0, -np.inf])
    context.free()


def check_exchange(comm, tolerant=False):
    """On a path 0 - 1 - 2, neighbours swap; rank 1 sends its row 0 to 0 and rows 1 and 2 to 2."""
    rows_to = [{1: [2]}, {0: [0], 2: [1, 2]}, {1: [0]}][comm.rank]
    rows_from = [{1: 1}, {0: 1, 2: 1}, {1: 2}][comm.rank]
    context = mpi_calls.open_context(comm, rows_to, rows_from, 3, 5000, tolerant)
    assert (context.graph is None) == tolerant
    address = mpi_calls.mpi_addresses().exchange
    ghosts = sum(rows_from.values())
    for count in (2, 5000):  # the same context serves shorter rows
        packed = np.zeros((3 + ghosts, count))
        packed[:3] = 10.0 * comm.rank + np.arange(3).reshape(-1, 1)
        before = context.words[SENT]
        assert call(address, context.words, packed, count) == 0
        expected = [[10.0], [2.0, 20.0], [11.0, 12.0]][comm.rank]
        np.testing.assert_array_equal(packed[3:], np.repeat(expected, count).reshape(-1, count))
        np.testing.assert_array_equal(packed[:3, 0], 10.0 * comm.rank + np.arange(3))
        assert context.words[SENT] - before == sum(map(len, rows_to.values())) * count
    assert call(address, context.words, packed, 5001) == TOO_LONG
    context.free()


def check_tolerant_exchange(comm):
    check_exchange(comm, tolerant=True)


def check_abort(comm):
    context, addresses = mpi_calls.open_context(comm), mpi_calls.mpi_addresses()
    context.words[mpi_calls.ABORT] = 1
    assert reduce(addresses.reduce, context.words, np.zeros(3), 1) == ABORTED


def check_survival(comm):
    """The last rank is killed inside the compiled loop; the others go on without it."""
    context, address = mpi_calls.open_context(comm), mpi_calls.mpi_addresses().reduce
    reduce(address, context.words, np.zeros(3), 1)
    if comm.rank == comm.size - 1:
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    status = 0
    while status == 0:
        status = reduce(address, context.words, np.zeros(1000), 1000)
    context.revoke()
    survivors = context.comm.Shrink()
    assert survivors.size == comm.size - 1
    again = mpi_calls.open_context(survivors)
    ones = np.ones(3)
    assert reduce(address, again.words, ones, 1) == 0
    assert ones.tolist() == [survivors.size] * 3


CHECKS = {
    check.__name__: check
    for check in (
        check_reduce,
        check_exchange,
        check_tolerant_exchange,
        check_abort,
        check_survival,
    )
}


# --- What pytest does ---------------------------------------------------------------------


def start(n_ranks: int, check: str, *options: str) -> list[str]:
    """Run a check on `n_ranks` ranks and return who passed it."""
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    root["OMPI_MCA_mpi_yield_when_idle"] = "1"  # more ranks than cores must let each other work
    root["PYTHONPATH"] = own_modules()
    launcher = [str(find_mpiexec()), *options, "--oversubscribe", "-n", str(n_ranks)]
    job = subprocess.run(
        [*launcher, sys.executable, __file__, check],
        env={**os.environ, **root},
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert job.returncode == 0 or "ulfm" in options, job.stderr
    return sorted(line for line in job.stdout.splitlines() if line.startswith("passed"))


@with_mpi
@pytest.mark.parametrize(
    ("n_ranks", "check"),
    [
        (1, "check_reduce"),
        (2, "check_reduce"),
        (3, "check_exchange"),
        (3, "check_tolerant_exchange"),
        (2, "check_abort"),
    ],
)
def test_ranks(n_ranks, check):
    assert start(n_ranks, check) == [f"passed {rank}" for rank in range(n_ranks)]


@with_mpi
def test_survivors_of_a_killed_rank_go_on():
    assert start(3, "check_survival", "--with-ft", "ulfm") == ["passed 0", "passed 1"]


def run(code: str, **variables: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        check=True,
        capture_output=True,
        text=True,
    ).stdout


@with_mpi
def test_compiled_code_is_cached_and_needs_no_mpi(tmp_path):
    code = (
        "import sys; sys.modules['mpi4py'] = None\n"
        "from pathlib import Path\n"
        "from ddol.compiled import store\n"
        "store.SHIPPED = Path('nowhere')\n"
        "from ddol.engines.mpi import calls as mpi_calls\n"
        "print(mpi_calls.mpi_addresses().reduce > 0, 'numba' in sys.modules)"
    )
    assert run(code, DDOL_CACHE_DIR=str(tmp_path)).split() == ["True", "True"]
    assert run(code, DDOL_CACHE_DIR=str(tmp_path)).split() == ["True", "False"]


def test_importing_ddol_does_not_import_mpi4py():
    code = "import sys, ddol, ddol.engines.mpi.calls; print('mpi4py' in sys.modules)"
    assert run(code).strip() == "False"


def test_without_mpi4py_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(ImportError, match=r"pip install ddol\[mpi\]") as error:
        mpi_calls.load()
    assert "\n" not in str(error.value)


def test_without_mpiexec_the_error_names_the_extra(monkeypatch):
    monkeypatch.setattr("ddol.engines.mpi.job.shutil.which", lambda *_, **__: None)
    with pytest.raises(FileNotFoundError, match=r"pip install ddol\[mpi\]"):
        find_mpiexec()


def main() -> None:
    """Run the named check on this rank; a failed one ends the whole job."""
    comm = mpi_calls.load().COMM_WORLD
    try:
        CHECKS[sys.argv[1]](comm)
    except Exception as error:
        print(f"rank {comm.rank}: {error!r}", file=sys.stderr, flush=True)
        comm.Abort(1)
    # One write, or the lines of several ranks may run together.
    sys.stdout.write(f"passed {comm.rank}\n")
    sys.stdout.flush()
    if sys.argv[1] == "check_survival":
        # Ending MPI waits for all ranks, now and then for ever where one is lost; see `ranks.leave`.
        os._exit(0)


if __name__ == "__main__":
    main()
