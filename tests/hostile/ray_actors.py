"""Actors of Ray that are killed, and nodes that are taken away: nothing is lost or learned twice."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from tests.ray_streams import rows_of, slow_rows, small_cluster, small_nodes

import ddol
from ddol.engines.feed import Feed
from ddol.engines.learner import Learner
from ddol.engines.progress import Progress
from ddol.engines.setup import Setup
from ddol.schedules.schedule import Schedule
from ddol.streams.synthetic import SyntheticStream

EXAMPLES, LONGEST, HANGS = 400_000, 4.0, 300
"""Of a try: examples, seconds before somebody is killed at most, and seconds before it is given up."""


def killed_actors(first: int, tries: int) -> dict[str, str]:
    """One or two actors of a job, rounds or asynchronous, killed while it starts, learns or ends."""
    wrong = {}
    with small_cluster():
        for number in range(first, first + tries):
            draw = np.random.default_rng(number)
            times = draw.uniform(0, LONGEST, int(draw.integers(1, 3))).tolist()
            with _at_random(times, lambda learner, draw=draw: _kill_one(learner, draw)) as learned:
                wrong |= _tried(number, draw, learned)
    return wrong


def removed_nodes(first: int, tries: int) -> dict[str, str]:
    """A node that hosts an actor is taken away, and another one joins."""
    wrong = {}
    for number in range(first, first + tries):
        draw = np.random.default_rng(number)
        then = float(draw.uniform(0.0, 0.8)) * EXAMPLES
        with small_nodes() as made:
            wrong |= _tried(number, draw, partial(_replace_a_node, made, then))
            if len(made[1]) == 2:
                wrong[str(number)] = "it ended before a node was taken away"
    return wrong


def _replace_a_node(made: Any, then: float, learner: Learner) -> None:
    """Once so many examples are learned; Ray adds nodes in the main thread only."""
    cluster, nodes, add = made

    def look(progress: Progress) -> None:
        if progress.examples >= then and len(nodes) == 2:
            cluster.remove_node(nodes.pop(), allow_graceful=False)
            add()

    learner.on_progress = look


def _tried(number: int, draw: np.random.Generator, learned: Callable[[Learner], None]) -> dict:
    """What is wrong with one job, if anything."""
    rounds, each = number % 2 == 0, bool(draw.integers(2))
    bound = None if rounds or draw.integers(2) else int(draw.integers(1, 4))
    algorithm = draw.choice([ddol.dogd(), ddol.adaptive()])
    graph = ddol.ring(4) if draw.integers(2) else ddol.star(4)
    algorithm = algorithm.on(graph, period=int(draw.choice([16, 64, 256])))
    schedule = Schedule() if rounds else Schedule("async", staleness=bound)
    name = f"{number} {'rounds' if rounds else f'async, staleness {bound}'}, {graph.name}"

    def streams(rows: Callable[..., Any]) -> list[SyntheticStream]:
        n = 4 if each else 1
        return [SyntheticStream(rows, EXAMPLES // n, 6, seed=k, block=4096 // n) for k in range(n)]

    learner = Learner(algorithm, Setup("ray", 2, schedule=schedule, n_features=6))
    faulthandler.dump_traceback_later(HANGS, exit=True)
    try:
        feed = learner.feed = Feed(streams(slow_rows))
        learner.opened(6)
        learned(learner)
        learner.follow(feed)
        trace = learner.trace()
    except Exception as error:
        return {name: f"{type(error).__name__}: {error}"[:300]}
    finally:
        faulthandler.cancel_dump_traceback_later()
        learner.close(keep=False)
    if trace.state.examples.tolist() != [EXAMPLES // 4] * 4:
        return {name: f"examples: {trace.state.examples.tolist()}"}
    if not rounds:
        return {}
    alone = ddol.run(algorithm, streams(rows_of))
    if trace.mistakes.tolist() != alone.mistakes.tolist():
        return {name: f"mistakes: {trace.mistakes.tolist()}, alone {alone.mistakes.tolist()}"}
    far = float(np.abs(trace.weights - alone.weights).max())
    return {name: f"weights differ by {far:.1e}"} if far > 1e-9 else {}


@contextlib.contextmanager
def _at_random(
    times: list[float], act: Callable[[Learner], None]
) -> Iterator[Callable[[Learner], None]]:
    """A function that lets something happen to a learner so many seconds later, one after the other."""
    threads: list[threading.Thread] = []

    def happen(learner: Learner) -> None:
        began = time.monotonic()
        for then in sorted(times):
            time.sleep(max(0.0, then - (time.monotonic() - began)))
            act(learner)

    def start(learner: Learner) -> None:
        threads.append(threading.Thread(target=happen, args=(learner,), daemon=True))
        threads[-1].start()

    yield start
    for thread in threads:
        thread.join()


def _kill_one(learner: Learner, draw: np.random.Generator) -> None:
    import ray

    # Nobody is there any more, or not yet again.
    with contextlib.suppress(AttributeError, IndexError, ray.exceptions.RayError, OSError):
        actors = learner.engine.actors  # type: ignore[union-attr]
        _, process = ray.get(actors[int(draw.integers(len(actors)))].where.remote(), timeout=10)
        os.kill(process, signal.SIGKILL)
