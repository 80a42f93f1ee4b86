"""What does not fit the machine is refused before memory is taken."""

from __future__ import annotations

import pytest

import ddol
from ddol.engines import memory
from ddol.engines.learner import Learner
from ddol.engines.setup import Setup
from ddol.streams import DataError


def test_a_run_that_does_not_fit_says_how_much_it_needs_and_what_to_do(monkeypatch):
    monkeypatch.setattr(memory, "bytes_available", lambda: 2**30)
    algorithm = ddol.dogd().on(ddol.ring(64))
    with pytest.raises(
        DataError, match=r"64 agents with 1000000 features each need .* GB .*1.1 GB"
    ):
        Learner(algorithm, Setup(n_features=10**6)).state()
    assert Learner(algorithm, Setup(n_features=100)).state().n_features == 100


def test_one_shared_copy_needs_as_much_as_one_agent():
    alone, many = (memory.bytes_needed(ddol.dogd().on(n), 10**6) for n in (2, 64))
    assert many < 1.01 * alone
    assert memory.bytes_needed(ddol.dogd().on(ddol.ring(64)), 10**6) > 30 * many


def test_where_the_system_says_nothing_nothing_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "bytes_available", lambda: None)
    memory.check_memory(ddol.dogd().on(ddol.ring(64)), 10**12)
