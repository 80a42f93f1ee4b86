"""Random lists of events: the compiled kernel against the reference."""

from dataclasses import replace

import numpy as np
import pytest

import ddol
from ddol.schedules.events import (
    Events,
    adopt,
    answer,
    join,
    leave,
    mix,
    predict,
    project,
    receive,
    send,
)
from ddol.schedules.reference import EventReference
from ddol.update.rates import PerAgent

N_ROWS, N_FEATURES = 30, 4

ALGORITHMS = {
    "dogd": ddol.dogd(),
    "dogd on a ball": ddol.dogd(l2=0.0, radius=1.5),
    "doeg": ddol.doeg(radius=3.0),
    "doeg in the primal": ddol.doeg(radius=3.0, average="primal"),
    "dual averaging": ddol.dual_averaging(l1=0.01),
    "gradients at arrival": ddol.dogd(gradient="arrival"),
    "gradients that were kept": ddol.adaptive(gradient="kept"),
    "p-norm": ddol.p_norm(),
    "three classes": ddol.dogd(outputs=3),
    "three classes together": ddol.adaptive(outputs=3),
    "clipped": ddol.dogd(average="clip:1"),
    "safe, three classes": replace(ddol.safe(ddol.dogd("logistic", outputs=3)), trust="all"),
    "adaptive": ddol.adaptive(),
    "coin": ddol.coin(),
    "rates of their own": ddol.dogd(rate=[1.0]),
}


def random_list(rng, n_agents, neighbours, length=120):
    """Whatever can happen, at random: answers in any order, old messages, absences, meetings."""
    late, sent, absent = [], [], set()
    for _ in range(length):
        i = int(rng.integers(n_agents))
        here = [j for j in neighbours[i] if j != i]
        what = rng.choice(["predict", "answer", "send", "receive", "mix", "two", "project", "go"])
        if what == "go":
            (absent.remove if i in absent else absent.add)(i)
            yield join(i) if i not in absent else leave(i)
        elif i in absent:
            continue
        elif what == "predict":
            row = int(rng.integers(-1, N_ROWS))
            yield predict(i, row)
            late += [(i, row)] if row >= 0 else []
        elif what == "answer" and late:
            agent, row = late[int(rng.integers(len(late)))]
            if agent not in absent:
                late.remove((agent, row))
                yield answer(agent, row)
        elif what == "send":
            sent.append((i, (yield send(i))))
        elif what == "receive":
            theirs = [(j, place) for j, place in sent if j in here]
            if theirs:
                j, place = theirs[int(rng.integers(len(theirs)))]
                yield receive(i, j, place)
        elif what == "mix":
            yield mix(i)
        elif what == "two" and here:
            peer = int(rng.choice(here))
            yield mix(i, peer) if rng.random() < 0.7 else adopt(i, peer)
        elif what == "project":
            yield project(i)


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("topology", [ddol.ring(4), ddol.star(4), ddol.complete(3)], ids=str)
def test_kernel_is_the_reference_on_random_lists(name, topology):
    algorithm = ALGORITHMS[name]
    if isinstance(algorithm.rate, PerAgent):
        algorithm = ddol.dogd(rate=np.geomspace(0.2, 3.0, topology.n_agents))
    algorithm = algorithm.on(topology)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((N_ROWS, N_FEATURES))
        y = rng.choice([-1.0, 1.0], N_ROWS)
        if algorithm.outputs > 1:
            y = np.arange(N_ROWS) % 3.0
        neighbours = [topology.neighbours(i).tolist() for i in range(topology.n_agents)]
        events = Events.of(random_list(rng, topology.n_agents, neighbours))
        reference = EventReference(algorithm, X, y)
        reference.play(events)
        trace = ddol.run(algorithm, (X, y), schedule=lambda *_, given=events: given)
        if (
            "doeg" not in name
        ):  # begins with score 0 up to rounding, which decides what is predicted
            assert np.array_equal(trace.mistakes, reference.outcome.mistakes)
        assert np.allclose(trace.loss, reference.outcome.loss, rtol=1e-9, atol=1e-12)
        assert np.allclose(trace.weights, reference.weights(), rtol=1e-8, atol=1e-10)


def test_a_newer_message_is_not_replaced_by_an_older_one():
    algorithm = ddol.dogd(l2=0.0).on(ddol.path(2))
    X, y = np.eye(2), np.array([1.0, -1.0])
    events = Events.of(
        [
            send(0), predict(0, 0), answer(0, 0), send(0),
            receive(1, 0, 3), receive(1, 0, 0), mix(1),
        ]
    )  # fmt: skip
    trace = ddol.run(algorithm, (X, y), schedule=lambda *_: events)
    assert trace.weights[1, 0].tolist() == [0.5, 0.0]
    reference = EventReference(algorithm, X, y)
    reference.play(events)
    assert np.array_equal(reference.weights(), trace.weights)
