"""Two learners side by side and their mixture, beside an oracle in plain NumPy that knows nothing of
loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ddol
from ddol.engines.tickets import TicketLearner
from ddol.testing import check_algorithm, check_engine
from ddol.update.losses import LOSSES, Loss
from ddol.update.mixtures import COUNT, FIXED, LOSS, WRONG

SHARES = np.array([0.0, 0.5, 1.0])
N, D = 4, 3


def _examples(rounds: int = 60, regression: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Of four agents, the second with opposite answers."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((rounds * N, D))
    y = X @ [1.0, -2.0, 0.5] + 0.3 * rng.standard_normal(len(X))
    y = 5.0 + y if regression else np.where(y > 0, 1.0, -1.0)
    y[1::N] *= -1.0
    return X, y


class _Hedge:
    """AdaHedge as in the paper's Figure 1, with shares; a gap is what the mixture itself lost too much, and
    they are at least 0.01 of the largest spread."""

    def __init__(self) -> None:
        self.w, self.t, self.gaps, self.spread = np.full(3, 1 / 3), 0, 0.0, 0.0

    def weights(self) -> np.ndarray:
        return self.w

    def learn(self, cost: np.ndarray, lost: float) -> None:
        self.t += 1
        before, mixed = self.gaps, cost.min()
        if before > 0.0:
            eta = np.log(3) / before
            posterior = self.w * np.exp(-eta * (cost - cost.min()))
            mixed = cost.min() - np.log(posterior.sum()) / eta
            own = posterior / posterior.sum()
            self.w = own + (1.0 - 3.0 * own) / (2.0 * (self.t + 1.0) * (1.0 + np.log(self.t + 1.0)))
        if np.ptp(cost) > 1e-6 * cost.max():
            self.spread = max(self.spread, np.ptp(cost))
            self.gaps = max(before + max(lost - mixed, 0.0), 0.01 * self.spread)
            self.w = self.w ** (before / self.gaps) / np.sum(self.w ** (before / self.gaps))


class _Shares:
    """Bayes' rule and fixed share, for likelihoods of the three experts."""

    def __init__(self) -> None:
        self.w, self.t = np.full(3, 1 / 3), 0

    def weights(self) -> np.ndarray:
        return self.w

    def learn(self, likelihood: np.ndarray) -> None:
        self.t += 1
        own = self.w * likelihood / (self.w @ likelihood)
        self.w = own + (1.0 - 3.0 * own) / (2.0 * (self.t + 1.0) * (1.0 + np.log(self.t + 1.0)))


def _chance(z: np.ndarray) -> np.ndarray:
    return np.clip(1.0 / (1.0 + np.exp(-z)), 1e-4, 1 - 1e-4)


def _play(loss: Loss, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradient descent alone and together, and their mixture: scores (rounds, N), weights of the experts."""
    own, shared = np.zeros((N, D)), np.zeros((N, D))
    mix = [_Shares() if loss.name == "logistic" else _Hedge() for _ in range(N)]
    centre, reach, rounds = np.zeros(N), np.zeros(N), len(y) // N
    scores = np.zeros((rounds, N))
    for t in range(rounds):
        sent = np.zeros((N, D))
        for i in range(N):
            x, a = X[t * N + i], y[t * N + i]
            z = np.array([own[i] @ x, shared[i] @ x])
            said = (1 - SHARES) * z[0] + SHARES * z[1]
            w = mix[i].weights()
            if loss.name == "logistic":
                p = _chance(said)
                scores[t, i] = np.log(w @ p / (w @ (1 - p)))
                mix[i].learn(_chance(a * said))
            elif loss.name == "hinge":
                scores[t, i] = w @ said
                mix[i].learn(np.maximum(0.0, 1.0 - a * said), max(0.0, 1.0 - a * (w @ said)))
            else:
                if t:
                    said = centre[i] + np.clip(said - centre[i], -reach[i], reach[i])
                scores[t, i] = w @ said
                centre[i] = centre[i] if t else a
                mix[i].learn(0.5 * (said - a) ** 2, 0.5 * (w @ said - a) ** 2)
                reach[i] = max(reach[i], abs(a - centre[i]))
            rate = 1.0 / np.sqrt(t + 1)
            slopes = [loss.derivative(float(each), a, ()) for each in z]
            own[i] -= rate * slopes[0] * x
            sent[i] = shared[i] - rate * slopes[1] * x
        shared[:] = sent.mean(axis=0)
    return scores, np.array([each.weights() for each in mix]), own


@pytest.mark.parametrize("name", ["logistic", "squared", "hinge"])
def test_predicts_and_weighs_as_an_oracle_does(name: str) -> None:
    X, y = _examples(regression=name == "squared")
    algorithm = ddol.safe(ddol.dogd(name, l2=0.0)).on(N, trust="all")
    scores, weights, own = _play(algorithm.loss, X, y)
    trace = ddol.run(algorithm, (X, y), N)
    mixture = algorithm.update.mixture_of(trace.state.scalars[:, 0])
    assert np.allclose(mixture[:, FIXED : FIXED + 3], weights, atol=1e-9)
    alone, _ = algorithm.update.part_of(trace.state.theta, trace.state.scalars, 1)
    assert np.allclose(alone[:, 0, 0], own, atol=1e-9)
    answers = y.reshape(-1, N)
    values = np.vectorize(lambda z, a: algorithm.loss.value(z, a, ()))(scores, answers)
    assert np.allclose(trace.loss, values.sum(axis=0))
    if name != "squared":
        assert (trace.mistakes == ((scores >= 0) != (answers > 0)).sum(axis=0)).all()


@pytest.mark.parametrize(
    "algorithm",
    [
        ddol.dogd("logistic").on(ddol.ring(4), batch=2, period=2, delay=1),
        ddol.dogd("squared", radius=3.0).on(3),
        ddol.adaptive("logistic").on(ddol.ring(4), delay=2),
        ddol.adaptive("hinge", memory=20.0).on(3),
        ddol.adaptive("logistic", outputs=3).on(ddol.star(4), delay=1),
        ddol.dogd("logistic", outputs=3).on(3, batch=2),
        ddol.adaptive("hinge", outputs=3).on(2),
    ],
    ids=lambda a: f"{a.name} {a.loss.name}",
)
def test_engine_is_the_reference(algorithm: ddol.Algorithm) -> None:
    check_algorithm(ddol.safe(algorithm))


def test_messages_of_a_full_matrix_are_not_tested() -> None:
    placed = ddol.safe(ddol.newton()).on(ddol.ring(4))
    assert not placed.tests and ddol.safe(ddol.newton(rank=2)).on(ddol.ring(4)).tests
    check_algorithm(placed)
    with pytest.raises(ValueError, match="newton hold a whole matrix and cannot be tested"):
        ddol.newton(trust="test").on(ddol.ring(4))


@pytest.mark.parametrize("loss", ["logistic", "logistic_one_vs_all"])
def test_several_classes_have_one_mixture(loss: str) -> None:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((60 * N, D))
    y = (X @ rng.standard_normal((D, 3)) + rng.standard_normal((len(X), 3))).argmax(axis=1)
    algorithm = ddol.safe(ddol.dogd(LOSSES[loss](), l2=0.0, outputs=3)).on(N, trust="all")
    own, shared, mix = np.zeros((N, 3, D)), np.zeros((N, 3, D)), [_Shares() for _ in range(N)]
    lost, wrong = np.zeros((N, 3)), np.zeros((N, 2), int)

    def chances(z: np.ndarray) -> np.ndarray:
        p = 1.0 / (1.0 + np.exp(-z)) if loss != "logistic" else np.exp(z - z.max(-1, keepdims=True))
        return p / p.sum(-1, keepdims=True)

    for t in range(60):
        sent = shared.copy()
        for i in range(N):
            x, a = X[t * N + i], y[t * N + i]
            z = np.array([own[i] @ x, shared[i] @ x])
            p = chances(np.array([z[0], z.mean(0), z[1]])) * (1 - 1e-4) + 1e-4 / 3
            mixed = mix[i].weights() @ p
            lost[i] -= np.log([mixed[a], p[0, a], p[2, a]])
            wrong[i] += mixed.argmax() != a, z[0].argmax() != a
            mix[i].learn(p[:, a])
            slopes = chances(z) if loss == "logistic" else 1.0 / (1.0 + np.exp(-z))
            slopes = (slopes - np.eye(3)[a])[:, :, None] * x / np.sqrt(t + 1)
            own[i] -= slopes[0]
            sent[i] -= slopes[1]
        shared[:] = sent.mean(axis=0)
    trace = ddol.run(algorithm, (X, y), N)
    assert (trace.mistakes == wrong[:, 0]).all()
    for row, losses, mistakes in zip(trace.sites(), lost, wrong, strict=True):
        assert [row[k] for k in ("loss", "loss_alone", "loss_shared")] == pytest.approx(losses)
        assert row["error_alone"] == mistakes[1] / 60
        assert row["regret"] <= row["bound"]
    model = trace.model()  # the mixture, as it would predict a next example
    p = chances(np.array([own[1] @ X[0], (own[1] + shared[1]) @ X[0] / 2, shared[1] @ X[0]]))
    expected = mix[1].weights() @ (p * (1 - 1e-4) + 1e-4 / 3)
    assert model.predict_proba(X[:1], agent=1)[0] == pytest.approx(expected)


def test_threads_play_as_one_does() -> None:
    check_engine(ddol.safe(ddol.dogd("logistic")).on(ddol.ring(5), period=2), "threads", workers=2)


def test_a_site_with_other_answers_is_as_good_as_alone_and_the_others_as_good_as_together() -> None:
    X, y = _examples(2000)
    plain = ddol.adaptive("logistic")
    apart = [ddol.run(plain, (X[i::N], y[i::N])).error for i in range(N)]
    trace = ddol.run(ddol.safe(plain), (X, y), N)
    errors = trace.mistakes / 2000
    assert (errors < np.array(apart) + 0.003).all()
    assert ddol.run(plain, (X, y), N).error > 0.2


def test_late_answers_by_ticket_move_the_mixture() -> None:
    X, y = _examples(40)
    algorithm = ddol.safe(ddol.adaptive("logistic")).on(N)
    learner = TicketLearner(algorithm)
    tickets = []
    for k, x in enumerate(X):
        tickets.append((learner.predict(k % N, x), y[k]))
        if len(tickets) > 7:
            learner.answer(*tickets.pop(3))
    state = learner.trace().state
    mixture = algorithm.update.mixture_of(state.scalars[:, 0])
    assert mixture[:, COUNT].sum() == len(X) - len(tickets)
    assert (mixture[:, WRONG] == state.mistakes).all()
    assert np.allclose(mixture[:, LOSS], state.loss)


def test_a_model_predicts_for_a_site_as_the_site_would_and_for_others_with_what_is_shared() -> None:
    X, y = _examples(500)
    trace = ddol.run(ddol.safe(ddol.adaptive("logistic")), (X, y), N)
    model = trace.model()
    said = [
        np.mean(model.predict(X, agent=i) == np.where(X @ [1.0, -2.0, 0.5] > 0, 1, -1))
        for i in (0, 1)
    ]
    assert said[0] > 0.9
    assert said[1] < 0.1
    shared = model.decision_function(X)
    assert np.allclose(shared, model.decision_function(X, agent="shared"))
    assert not np.allclose(shared, model.decision_function(X, agent=0))


def test_a_saved_model_predicts_as_before(tmp_path: object) -> None:
    X, y = _examples(100)
    model = ddol.run(ddol.safe(ddol.dogd("logistic")), (X, y), N).model()
    model.save(f"{tmp_path}/m.ddol")
    again = ddol.load(f"{tmp_path}/m.ddol")
    for agent in (None, 0, 1):
        assert (again.decision_function(X, agent) == model.decision_function(X, agent)).all()


def test_what_safe_is_not_for_is_said() -> None:
    with pytest.raises(ValueError, match="weighted majority"):
        ddol.safe(ddol.dwm_i())
    with pytest.raises(ValueError, match="neighbours"):
        ddol.safe(replace(ddol.adaptive(), query="0.5+neighbours"))
    with pytest.raises(ValueError, match="teach"):
        ddol.safe(replace(ddol.adaptive(), teach=1))
