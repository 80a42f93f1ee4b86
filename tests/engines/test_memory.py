"""What does not fit the machine is refused before memory is taken."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import ddol
from ddol.engines import state_checks
from ddol.engines.learner import Learner
from ddol.engines.setup import Setup
from ddol.streams import DataError, Rows
from ddol.streams.store import room


def test_a_run_that_does_not_fit_says_how_much_it_needs_and_what_to_do(monkeypatch):
    monkeypatch.setattr(room, "bytes_available", lambda: 2**30)
    algorithm = ddol.dogd().on(ddol.ring(64))
    with pytest.raises(
        DataError, match=r"64 agents with 1000000 features each need .* GB .*1.1 GB"
    ):
        Learner(algorithm, Setup(n_features=10**6)).state()
    assert Learner(algorithm, Setup(n_features=100)).state().n_features == 100


def test_one_shared_copy_needs_as_much_as_one_agent():
    alone, many = (state_checks.bytes_needed(ddol.dogd().on(n), 10**6) for n in (2, 64))
    assert many < 1.01 * alone
    assert state_checks.bytes_needed(ddol.dogd().on(ddol.ring(64)), 10**6) > 30 * many


def test_where_the_system_says_nothing_nothing_is_refused(monkeypatch):
    monkeypatch.setattr(room, "bytes_available", lambda: None)
    state_checks.check_memory(ddol.dogd().on(ddol.ring(64)), 10**12)


def test_features_that_come_later_are_counted_before_memory_is_taken(monkeypatch):
    monkeypatch.setattr(room, "bytes_available", lambda: 2**30)
    learner = Learner(ddol.dogd(l2=0.0).on(ddol.ring(64)))
    learner.learn(Rows.from_dense(np.eye(64), np.resize([1.0, -1.0], 64)))
    wide = Rows.from_csr(sp.csr_matrix(([1.0], ([0], [10**7])), shape=(64, 10**7 + 1)), np.ones(64))
    with pytest.raises(DataError, match=r"10000001 features each need .* GB"):
        learner.learn(wide)


def test_on_a_schedule_nobody_shares_a_copy():
    complete = ddol.dogd().on(64)
    together, apart = (state_checks.bytes_needed(complete, 10**6, each) for each in (False, True))
    assert apart > 30 * together


def test_the_limits_of_all_groups_around_a_process_count(tmp_path, monkeypatch):
    """A container's limit is that of its own group, or of one around it; files that were read can go."""
    own = tmp_path / "own"
    monkeypatch.setattr(room, "_GROUPS", tmp_path)
    monkeypatch.setattr(room, "_OWN_GROUPS", own)

    def group(folder, limit, used, cached, names=("memory.max", "memory.current")):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / names[0]).write_text(f"{limit}\n")
        (folder / names[1]).write_text(f"{used}\n")
        (folder / "memory.stat").write_text(f"anon 5\nactive_file {cached}\ninactive_file 0\n")

    own.write_text("0::/outer/inner\n")
    group(tmp_path / "outer/inner", "max", 10, 0)
    group(tmp_path / "outer", 3 << 20, 2 << 20, 1 << 19)
    assert room.bytes_available() == (1 << 20) + (1 << 19)
    own.write_text("4:memory:/no/such/place\n")
    group(
        tmp_path / "memory", 5 << 20, 1 << 20, 0, ("memory.limit_in_bytes", "memory.usage_in_bytes")
    )
    assert room.bytes_available() == 4 << 20


def test_the_limit_of_the_process_counts():
    code = (
        "import resource\nfrom ddol.streams.store.room import bytes_available\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))\n"
        "print(0 < bytes_available() < 1 << 31)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"]
