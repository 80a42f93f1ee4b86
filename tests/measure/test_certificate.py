"""The regret certificate: never below the regret, whatever happens to the network."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import ddol
from ddol.cli.table import summary
from ddol.measure.certificate import certificate_curve, certificate_of
from ddol.recording import ShadowSums
from ddol.schedules.conditions import Conditions
from ddol.schedules.schedule import Schedule

SCHEDULES = ("rounds", "async", "gossip", "walk", "push-sum")


def hinge_sums(X, y, U):
    """Σ_s hinge of every comparator (columns of U)."""
    return np.maximum(0.0, 1.0 - y[:, None] * (X @ U)).sum(axis=0)


def comparators(X, y, radius, norm, rng):
    """Good ones and random ones of a ball: subgradient steps on the sum, projected by scaling."""
    u, found = np.zeros(X.shape[1]), [rng.standard_normal(X.shape[1]) for _ in range(5)]
    for k in range(1, 60):
        wrong = y * (X @ u) < 1
        g = -(y[wrong, None] * X[wrong]).sum(axis=0)
        u = u - radius / (np.linalg.norm(g) + 1e-12) / np.sqrt(k) * g
        u *= min(1.0, radius / max(np.linalg.norm(u, norm), 1e-12))
        found.append(u)
    U = np.column_stack(found)
    return U * np.minimum(1.0, radius / np.maximum(np.linalg.norm(U, norm, axis=0), 1e-12))


def random_run(rng):
    n, D, N = int(rng.integers(10, 120)), int(rng.integers(1, 5)), int(rng.integers(1, 6))
    X = rng.standard_normal((n, D)) * rng.choice([0.2, 1.0, 5.0])
    y = np.where(X @ rng.standard_normal(D) + rng.standard_normal(n) > 0, 1.0, -1.0)
    radius, rate = float(rng.choice([0.3, 2.0, 10.0])), float(rng.choice([0.1, 1.0, 4.0]))
    schedule = str(rng.choice(SCHEDULES))
    kind = str(rng.choice(["dogd", "doeg", "other"]))
    algorithm = {
        "dogd": ddol.dogd(l2=0.0, radius=radius, rate=rate),
        "doeg": ddol.doeg(radius=radius, rate=rate),
        "other": ddol.dual_averaging(rate=rate),
    }[kind]
    if kind == "other":
        radius = 1.0
    conditions = Conditions(
        speed="1..5",
        latency="exponential:2",
        drop_messages=0.2,
        delay=int(rng.integers(0, 9)),
        churn=(20, 4),
    )
    topology = ddol.ring(N) if N > 2 else ddol.complete(N)
    trace = ddol.run(
        algorithm,
        (X, y),
        topology,
        schedule=schedule,
        conditions=conditions,
        seed=int(rng.integers(99)),
    )
    U = comparators(X, y, radius, 1 if kind == "doeg" else 2, rng)
    return trace, float(trace.loss.sum() - hinge_sums(X, y, U).min())


@pytest.mark.parametrize("seed", range(10))
def test_certificate_is_never_below_the_regret(seed):
    rng = np.random.default_rng(seed)
    for _ in range(30):
        trace, regret = random_run(rng)
        made = trace.certificate
        assert made.total >= regret - 1e-9 * abs(regret)
        assert made.total == pytest.approx(made.serial + made.drift)
        assert made.agent_drift.sum() == pytest.approx(made.drift, abs=1e-9)


def test_certificate_with_an_l2_term_is_never_below_the_regret():
    rng = np.random.default_rng(0)
    for _ in range(30):
        n, l2, radius = 80, 0.2, 3.0
        X = rng.standard_normal((n, 3))
        y = np.where(X[:, 0] + 0.5 * rng.standard_normal(n) > 0, 1.0, -1.0)
        trace = ddol.run(
            ddol.dogd(l2=l2, radius=radius), (X, y), ddol.ring(4), schedule="async",
            conditions=Conditions(delay=int(rng.integers(0, 9)), latency=2),
        )  # fmt: skip
        U = comparators(X, y, radius, 2, rng)
        best = (hinge_sums(X, y, U) + n * l2 / 2 * (U * U).sum(axis=0)).min()
        assert trace.certificate.total >= trace.loss.sum() - best


def test_one_agent_alone_has_no_drift():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    y = np.sign(X[:, 0])
    for algorithm in (ddol.dogd(l2=0.0, radius=2.0), ddol.dogd(l2=0.3), ddol.doeg(radius=2.0)):
        trace = ddol.run(algorithm, (X, y), 1, schedule="async")
        assert trace.certificate.drift == pytest.approx(0.0, abs=1e-9)
        rounds = ddol.run(algorithm, (X, y), 1, schedule=Schedule(certificate=True))
        assert rounds.certificate.total == pytest.approx(trace.certificate.total)


def test_drift_is_that_of_its_definition():
    """A serial learner in NumPy, fed with the gradients of all plays in the order of the list."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((150, 3))
    y = np.sign(X[:, 0] + 0.3 * rng.standard_normal(150))
    radius = 1.5
    trace = ddol.run(
        ddol.dogd(l2=0.0, radius=radius), (X, y), ddol.ring(5), schedule="async", record=True,
        conditions=Conditions(latency=2, delay="0..3"),
    )  # fmt: skip
    from ddol.schedules.events import PREDICT, Event, Events
    from ddol.schedules.reference import EventReference

    played = EventReference(ddol.dogd(l2=0.0, radius=radius).on(ddol.ring(5)), X, y)
    shadow, drift, plays, rated = np.zeros(3), 0.0, 0, 0.0
    for place, event in enumerate(trace.events):
        if event.kind == PREDICT and event.row >= 0:
            plays += 1
            x = played.weights()[event.agent, 0]
            row, answer = X[event.row], y[event.row]
            g = -answer * row if answer * (x @ row) < 1 else 0.0 * row
            drift += g @ (x - shadow)
            eta = 1.0 / np.sqrt(plays)
            rated += eta * g @ g
            shadow = shadow - eta * g
            shadow *= min(1.0, radius / max(np.linalg.norm(shadow), 1e-300))
        played._play(place, Event(*event))
    assert isinstance(trace.events, Events)
    assert trace.certificate.drift == pytest.approx(drift)
    sums = trace.moments[-1].shadow
    assert sums.rated_squares == pytest.approx(rated)
    far = 0.5 * (radius + sums.longest) ** 2
    assert trace.certificate.serial == pytest.approx(far * np.sqrt(plays) + rated / 2)


def test_certificate_grows_with_the_run():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 3))
    trace = ddol.run(
        ddol.dogd(l2=0.0, radius=2.0), (X, np.sign(X[:, 0])), ddol.ring(4), schedule="async"
    )
    curve = certificate_curve(trace.moments)
    assert curve["examples"][-1] == 500
    assert (np.diff(curve["serial"]) >= 0).all()
    assert curve["agent_drift"].shape == (len(curve["time"]), 4)
    assert trace.to_dict()["certificate"]["total"] == trace.certificate.total


@pytest.mark.parametrize("topology", [ddol.ring(5), ddol.complete(4)], ids=str)
@pytest.mark.parametrize(
    "algorithm", [ddol.dogd(), ddol.dogd(l2=0.0, radius=2.0), ddol.doeg(), ddol.dogd(outputs=3)]
)
def test_rounds_have_the_certificate_of_their_events(algorithm, topology):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((203, 4))
    y = np.sign(X[:, 0]) if algorithm.outputs == 1 else rng.integers(0, 3, 203).astype(float)
    events = ddol.run(algorithm, (X, y), topology, conditions=Conditions(latency=1))
    for engine in ("local", "threads"):
        rounds = ddol.run(algorithm, (X, y), topology, certificate=True, engine=engine, workers=2)
        assert rounds.certificate.drift == pytest.approx(
            events.certificate.drift, rel=1e-9, abs=1e-9
        )
        assert rounds.certificate.serial == pytest.approx(events.certificate.serial)
        assert certificate_curve(rounds.moments)["examples"][-1] == 203
    plain = ddol.run(algorithm, (X, y), topology)
    assert np.array_equal(plain.weights, rounds.weights) or engine == "threads"
    batches = ddol.run(algorithm, (X, y), topology, schedule=Schedule(), certificate=True, batch=3)
    assert batches.moments[-1].shadow.plays == 203


def test_threads_without_a_barrier_have_the_certificate_of_their_recording():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 4))
    data = X, np.sign(X[:, 0])
    for algorithm in (ddol.dogd(), ddol.doeg(radius=3.0), ddol.adaptive()):
        first = ddol.run(
            algorithm,
            data,
            ddol.ring(5),
            schedule="async",
            engine="threads",
            workers=2,
            record=True,
        )
        again = ddol.run(algorithm, data, ddol.ring(5), replay=first.events)
        assert first.certificate.total == pytest.approx(again.certificate.total, rel=1e-9)
        bare = ddol.run(
            algorithm, data, ddol.ring(5), schedule="async", engine="threads", workers=2
        )
        assert bare.moments[-1].shadow.plays == 500


def test_a_loss_that_is_not_convex_has_none():
    """The ramp loss: what is far on the wrong side costs no more than what is near."""
    X = np.random.default_rng(0).standard_normal((50, 3))
    ramp = ddol.Loss(
        "ramp",
        lambda z, y, p: max(0.0, min(1.0, 0.5 - 0.5 * y * z)),
        lambda z, y, p: -0.5 * y if abs(z) < 1.0 else 0.0,
    )
    data = X, np.sign(X[:, 0])
    assert ddol.run(ddol.dogd(loss=ramp), data, 3, schedule="async").certificate is None


def test_experts_and_plain_rounds_have_none():
    rng = np.random.default_rng(0)
    advice = rng.choice([-1.0, 1.0], (100, 5))
    y = advice[:, 0]
    assert ddol.run(ddol.dwm_i(), (advice, y), ddol.ring(4), schedule="async").certificate is None
    rounds = ddol.run(ddol.dogd(), (advice, y), ddol.ring(4))
    assert rounds.certificate is None
    assert "certificate" not in rounds.to_dict()


def test_numbers_out_of_range_give_no_certificate():
    sums = ShadowSums(False, 1.0, 1, 10, np.inf, 0.1, 1.0, 0.0, np.zeros(2))
    assert certificate_of(sums) is None


def test_a_bound_above_the_whole_loss_is_not_shown():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2_000, 3))
    y = np.sign(X @ [1.0, -2.0, 0.5])
    far, near = (
        ddol.run(algorithm, (scale * X, y), ddol.ring(4), certificate=True)
        for algorithm, scale in ((ddol.adaptive(), 1_000.0), (ddol.dogd(l2=0.0, radius=0.5), 1.0))
    )
    assert far.certificate.total > far.loss.sum() and far.binding_certificate is None
    assert near.binding_certificate is near.certificate
    said = ["\n".join(summary(trace)) for trace in (far, near)]
    assert " serial, " not in said[0] and " serial, " in said[1]
    assert "against any linear model u of its standardised rows" in said[0]


def local_losses(X, y, W, loss, outputs):
    """Σ_s loss of linear models on standardised rows: W (models, outputs, 1 + D)."""
    spread = X.std(axis=0)
    Z = (X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    scores = np.einsum("ij,mkj->mik", np.hstack([np.ones((len(X), 1)), Z]), W)
    if outputs == 1:
        return np.array([loss.values(s[:, 0], y).sum() for s in scores])
    return np.array([sum(loss.compare(z, t)[0] for z, t in zip(s, y, strict=True)) for s in scores])


@pytest.mark.parametrize("seed", range(6))
def test_local_certificates_are_never_below_the_regret_of_their_agent(seed):
    rng = np.random.default_rng(seed)
    N, D, outputs = int(rng.choice([1, 3, 4])), 3, int(rng.choice([1, 1, 3]))
    X = rng.standard_normal((120 * N, D)) * [1.0, 100.0, 0.01] + [0.0, 1e6, 0.0]
    margin = (X - [0.0, 1e6, 0.0]) @ [1.0, 0.02, 30.0] + rng.standard_normal(len(X))
    y = np.where(margin > 0, 1.0, -1.0) if outputs == 1 else np.digitize(margin, [-1.0, 1.0]) * 1.0
    numbers = outputs == 1 and rng.random() < 0.3
    loss = "squared" if numbers else str(rng.choice(["logistic", "hinge"]))
    if rng.random() < 0.3:
        X[rng.random(X.shape) < 0.5] = 0.0
    rows = csr_matrix(X) if rng.random() < 0.4 else X
    preset = (ddol.adaptive, ddol.coin, ddol.newton)[int(rng.integers(3))]
    algorithm = ddol.safe(preset(loss)) if rng.random() < 0.3 else preset(loss)
    where = {"delay": int(rng.choice([0, 0, 5]))} if rng.random() < 0.5 else {"schedule": "async"}
    answers = margin if numbers else y
    network = ddol.ring(N) if N > 2 else 1
    trace = ddol.run(
        algorithm, (rows, answers), network, outputs=outputs, certificate=True, **where
    )
    assert len(trace.local_certificates) == N
    for a, made in enumerate(trace.local_certificates):
        W = rng.standard_normal((200, outputs, 1 + D)) * rng.choice([0.1, 1.0, 5.0], (200, 1, 1))
        W[0] = 0.0
        found = local_losses(X[a::N], answers[a::N], W, trace.algorithm.loss, outputs)
        bound = made.fixed + made.per_norm * np.sqrt((W**2).sum(axis=(1, 2)))
        assert np.all(bound >= (made.loss - found) * (1.0 - 1e-9) - 1e-6)
    told = trace.to_dict()["local_certificates"]
    assert [one["loss"] for one in told] == trace.loss.tolist()
