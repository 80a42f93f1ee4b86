"""Answers by ticket: in any order, some never."""

import numpy as np
import pytest

import ddol
from ddol.schedules.events import answer, mix, predict, project, receive, send


def data(n=60, seed=0, classes=2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    y = np.where(X @ rng.standard_normal(4) > 0, 1.0, -1.0)
    return X, rng.integers(0, classes, n).astype(float) if classes > 2 else y


ALGORITHMS = [
    ddol.dogd(),
    ddol.doeg(),
    ddol.dogd("squared", l2=0.0),
    ddol.dogd(outputs=3),
    ddol.adaptive(outputs=3),
    ddol.adaptive(),
]


@pytest.mark.parametrize("gradient", ["arrival", "kept"])
@pytest.mark.parametrize(
    "algorithm", ALGORITHMS, ids=lambda a: f"{a.name}-{a.loss.name}-{a.outputs}"
)
def test_tickets_are_the_events_that_they_say(algorithm, gradient):
    """Predictions and answers in a random order are the same list of events, to the bit."""
    X, y = data(classes=max(algorithm.outputs, 2))
    rng = np.random.default_rng(1)
    asked = {} if gradient == "arrival" else {"gradient": gradient}
    learner = ddol.TicketLearner(algorithm.on(ddol.ring(3), **asked))
    waiting, tickets, order = [], {}, []
    for row in range(len(X)):
        tickets[row] = learner.predict(row % 3, X[row])
        order.append(("predict", row))
        waiting.append(row)
        while waiting and rng.random() < 0.5:
            chosen = waiting.pop(int(rng.integers(len(waiting))))
            learner.answer(tickets[chosen], y[chosen])
            order.append(("answer", chosen))

    def schedule(rows, mixing, rng):
        for what, row in order:
            agent = row % 3
            if what == "predict":
                yield predict(agent, row)
                continue
            yield answer(agent, row)
            yield project(agent)
            message = yield send(agent)
            for other in ((agent + 1) % 3, (agent + 2) % 3):
                yield receive(other, agent, message)
            yield mix(agent)

    trace = ddol.run(algorithm, (X, y), ddol.ring(3), schedule=schedule, gradient=gradient)
    assert np.array_equal(learner.weights(), trace.weights)
    answered = [row for what, row in order if what == "answer"]
    assert learner.trace().examples == len(answered)


def test_oldest_ticket_is_dropped_and_counted():
    learner = ddol.TicketLearner(ddol.dogd().on(2), most=3)
    tickets = [learner.predict(0, [1.0, float(k)]) for k in range(5)]
    assert learner.unanswered == 2
    with pytest.raises(
        KeyError, match="ticket 1 is answered already, or was dropped; 3 are waiting"
    ):
        learner.answer(tickets[1], 1.0)
    learner.answer(tickets[2], 1.0)
    assert learner.trace().examples == 1


def test_wrong_tickets_and_agents_are_refused():
    learner = ddol.TicketLearner(ddol.dogd().on(2))
    with pytest.raises(KeyError, match="no ticket is waiting"):
        learner.answer(0, 1.0)
    ticket = learner.predict(1, [1.0, 0.0])
    learner.answer(ticket, 1.0)
    with pytest.raises(KeyError, match="ticket 0 is answered already"):
        learner.answer(ticket, 1.0)
    with pytest.raises(KeyError, match="ticket 7 was never given"):
        learner.answer(7, 1.0)
    with pytest.raises(ValueError, match="found agent 2, expected 0 to 1"):
        learner.predict(2, [1.0, 0.0])
    with pytest.raises(ValueError, match="found 2 rows, expected one"):
        learner.predict(0, np.eye(2))
    waiting = learner.predict(0, [1.0, 0.0])
    for wrong in (np.nan, 0.0, 5.0):
        with pytest.raises(ValueError, match=r"expected -1 or \+1"):
            learner.answer(waiting, wrong)
    learner.answer(waiting, -1.0)  # it went on waiting


def test_tickets_go_on_from_what_was_learned_before():
    X, y = data()
    known = ddol.run(ddol.dogd(), (X[:30], y[:30]), ddol.ring(3))
    learner = ddol.TicketLearner(known.algorithm, state=known.state)
    ticket = learner.predict(0, X[30])
    assert ticket.scores[0] == pytest.approx(known.weights[0, 0] @ X[30])
    learner.answer(ticket, y[30])
    assert learner.trace().examples == 31


@pytest.mark.parametrize("network", [1, 2, 5, ddol.ring(3), ddol.ring(4)], ids=str)
@pytest.mark.parametrize("delay", [0, 2])
@pytest.mark.parametrize("preset", [ddol.dogd, ddol.adaptive])
def test_tickets_go_on_from_the_trace_of_tickets(network, delay, preset):
    """On a complete graph rounds share one copy; tickets never do."""
    X, y = data()
    algorithm = preset().on(network, delay=delay)
    first = ddol.TicketLearner(algorithm)
    for k in range(10):
        first.answer(first.predict(k % algorithm.n_agents, X[k]), y[k])
    second = ddol.TicketLearner(algorithm, state=first.trace().state)
    assert second.trace().examples == 10
    assert np.array_equal(second.weights(), first.weights())
    ticket = second.predict(0, X[10])
    assert ticket.scores == first.predict(0, X[10]).scores
    second.answer(ticket, y[10])
    assert second.trace().examples == 11
