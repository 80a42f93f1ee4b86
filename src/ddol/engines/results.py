"""The result of a run as if its streams ended now: late labels and open rounds are played on a copy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ddol.engines.faults import check_numbers
from ddol.engines.local import Local
from ddol.engines.plans import seen_now
from ddol.engines.registry import Engine
from ddol.engines.session import Session
from ddol.streams.rows import Rows
from ddol.trace import Trace
from ddol.version import __version__


def ended(run: Session) -> Engine:
    """The engine after the last example, when all labels have arrived: the run's own, or a copy."""
    return run.plan.delivered(_filled_up(run))


def _filled_up(run: Session) -> Engine:
    """The engine after the last example: a copy that has played the open round, if there is one.

    Events that are fed by hand, and may go on, end on a copy, too.
    """
    waiting, plan = run.open_round.rows, run.plan
    if waiting is None and run.engine is None and run.start is None:
        raise ValueError(
            "found no example, expected at least one; check that the data are not empty"
        )
    if waiting is None and not (plan.ends and not run.feed.streams):
        return run.opened(0)
    if plan.ends:
        now = run.opened(0 if waiting is None else waiting.n_features)
        engine = run.open_at(now.state(), plan.state_dict(now))
    else:
        engine = Local(run.algorithm, run.state())
    if waiting is not None:
        engine.play(run.open_round.block())
    plan.end(engine)
    return engine


def weights_of(run: Session) -> np.ndarray:
    """Weights (copies, outputs, D) with which agents predict, averaged over rounds if asked for."""
    engine = ended(run)
    counters = engine.counters()
    if counters.sums.size:
        return counters.sums / max(counters.rounds, 1)
    return engine.weights()


def scores_of(run: Session, rows: Rows, agent: int | None) -> np.ndarray:
    """Scores (n, outputs) after the last full round, by an agent or the mean of all agents'."""
    engine = run.opened(rows.n_features)
    if isinstance(engine, Local) and engine.turns is None:
        return engine.scores(rows, agent)
    from ddol.engines.workers.scoring import Scorer

    state = engine.state()
    found = Scorer(run.algorithm, state.theta, state.scalars)(rows)
    if agent is None or len(found) == 1:
        return np.asarray(found.mean(axis=0))
    return np.asarray(found[agent])


def trace_of(run: Session, last: bool) -> Trace:
    """The trace; it has the state itself rather than a copy if it is the `last` one."""
    plan, algorithm, setup = run.plan, run.algorithm, run.setup
    engine = _filled_up(run)
    counters, seen = engine.counters(), seen_now(engine)
    curves = run.history.curves.finish(counters.rounds, counters, *seen.metrics[0])
    engine = plan.delivered(engine)
    if algorithm.delay:
        seen = seen_now(engine)
    in_place = last and isinstance(engine, Local)
    state, weights = engine.counters() if in_place else engine.state(), engine.weights()
    liars = setup.schedule.conditions.liars
    check_numbers(algorithm, state, weights, run.feed.streams, run.largest, liars)
    sent = plan.sent(engine, counters.rounds)
    recorded = run.history.weights
    if algorithm.mixing is not run.mixing:  # it was written out to be recorded
        algorithm = replace(algorithm, mixing=run.mixing)
    return Trace(
        algorithm=algorithm,
        engine=setup.engine_name,
        workers=1 if run.engine is None else run.engine.workers + setup.readers,
        examples=int(state.examples.sum()),
        rounds=counters.rounds,
        mistakes=state.mistakes,
        loss=state.loss,
        expected_mistakes=state.expected,
        seconds=run.stopwatch.seconds,
        messages=sent.messages,
        bytes_sent=sent.bytes,
        consensus=float(seen.metrics[0, 0]),
        weights=weights,
        curves=curves,
        seed=setup.seed,
        version=__version__,
        state=state,
        dropped=sent.lost,
        edges=sent.edges,
        refused=sent.refused,
        weight_history=None if recorded is None else recorded.history(),
        moments=plan.moments(engine),
        events=plan.events(engine, run.feed),
    )
