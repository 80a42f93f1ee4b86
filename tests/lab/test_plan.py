"""The cost model: what it must say whatever the machine, and one measurement."""

from dataclasses import replace

import pytest

from ddol.compiled import INTERPRETED
from ddol.lab.plan import Costs, Workload, figures, measured, plan

COSTS = Costs(example=20e-9, entry=0.7e-9, copy=0.5e-9, latency=5e-6, bandwidth=1e9)


def test_more_period_is_more_speed_up_to_the_number_of_workers():
    job = Workload(dim=54, workers=8, agents=64)
    found = [job.speedup(COSTS, 1 << k) for k in range(1, 20)]
    assert found == sorted(found)
    assert found[0] < 4
    assert found[-1] == pytest.approx(8, rel=0.01)


def test_the_recommended_period_is_the_least_that_reaches_90_percent():
    job = Workload(dim=54, workers=8, agents=64)
    period = job.period(COSTS)
    assert job.speedup(COSTS, period) >= 0.9 * 8 > job.speedup(COSTS, period // 2)


def test_wider_models_and_slower_networks_need_longer_periods():
    narrow, wide = (plan(d, 8, nnz=50, costs=COSTS).recommended for d in (100, 100_000))
    assert wide > narrow
    near, far = (plan(100, 8, costs=COSTS, latency=s).recommended for s in (1e-6, 1e-3))
    assert far > near


def test_workers_that_read_from_the_same_memory_crowd_each_other():
    crowded = replace(COSTS, crowding=0.1e-9)
    free, slow = (
        Workload(dim=54, workers=4, agents=64).speedup(c, 1 << 20) for c in (COSTS, crowded)
    )
    assert free == pytest.approx(4, rel=0.01)
    assert slow == pytest.approx(4 * 57.8 / (57.8 + 3 * 5.4), rel=0.01)


def test_agents_that_cannot_be_shared_out():
    found = plan(54, 2, agents=3, costs=COSTS)
    assert found.recommended is None
    assert "no period reaches 90 %" in found.table()


def test_what_cannot_be_planned():
    with pytest.raises(ValueError, match="`workers` must be at least 1"):
        Workload(dim=3, workers=0)
    with pytest.raises(ValueError, match="at least as many as workers"):
        Workload(dim=3, workers=8, agents=4)
    with pytest.raises(ValueError, match="one of threads, mpi, ray"):
        measured("smoke signals")


def test_the_table_and_the_figures_say_the_same():
    found = plan(54, 4, period=3, costs=COSTS)
    numbers = figures(found)
    assert numbers["speedup"] == found.speedup
    assert f"{found.speedup:9.2f}" in found.table()


@pytest.mark.skipif(INTERPRETED, reason="measures compiled code")
def test_measured_costs_are_those_of_a_computer():
    costs = measured("threads")
    assert 1e-10 < costs.example + 50 * costs.entry < 1e-4
    assert 1e-9 <= costs.latency < 1.0
    assert costs.bandwidth > 1e6


def test_a_slow_call_asks_for_a_long_period_and_few_workers():
    costs = Costs(20e-9, 0.7e-9, 1e-9, latency=1e-3, bandwidth=1e9)
    found = plan(54, 4, costs=costs, agents=64)
    assert found.recommended >= 4096
    assert found.best_workers == 4
    assert plan(54, 4, 1, costs=costs, agents=64).best_workers == 1
