"""What a private site sends, against what its budget allows, and what it must never do."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

import ddol
from ddol.privacy import Budget, Known, Private, PrivateSite, learn_privately, parse_privacy
from ddol.privacy.site import clipped
from ddol.privacy.tree import TreeNoise
from ddol.streams.errors import DataError

D = 3
KNOWN = Known(np.zeros(D), np.ones(D))


def stream(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D))
    return X, np.where(X[:, 0] - 0.5 * X[:, 1] + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0)


# --- the audit -------------------------------------------------------------------------------------------

TRIALS = 400


def messages(budget: Budget, with_canary: bool, deviation: float | None = None) -> np.ndarray:
    """All that a site sends, with a canary in its stream or an example of no effect, over and over."""
    X, y = stream(24)
    X[3], y[3] = [-4.0, -4.0, -4.0], 1.0
    found = []
    for trial in range(TRIALS):
        site = PrivateSite(KNOWN, budget, every=8, rng=np.random.default_rng([trial, with_canary]))
        if deviation is not None:
            site._tree.deviation = deviation
        sent = []
        for k, (x, answer) in enumerate(zip(X, y, strict=True)):
            before = site._gradients.copy()
            site.learn(x, answer)
            if k == 3:  # as long as a gradient can be, or nothing at all
                size = np.linalg.norm(site._gradients - before)
                site._gradients = before + with_canary * (site._gradients - before) / size
            sent.append(site.message())
        found.append(np.array(sent)[[7, 15, 23]])
    return np.array(found)


def advantage(budget: Budget, deviation: float | None = None) -> float:
    """True minus false positives of the best threshold on the first sum along the canary's direction."""
    without, present = (messages(budget, canary, deviation) for canary in (False, True))
    towards = present[:, 0].mean(axis=0) - without[:, 0].mean(axis=0)
    scores = [found[:, 0] @ towards for found in (without, present)]
    levels = np.concatenate(scores)
    return max(float((scores[1] >= t).mean() - (scores[0] >= t).mean()) for t in levels)


@pytest.mark.parametrize("epsilon", (0.5, 2.0))
def test_a_membership_attack_gains_no_more_than_epsilon_allows(epsilon):
    budget, luck = Budget(epsilon, 1e-5, releases=3), 3.0 * math.sqrt(0.5 / TRIALS)
    found = advantage(budget)
    assert found <= math.tanh(epsilon / 2) + budget.delta + luck
    # What the best attack on one sum can gain where the noise is as large as it should be.
    assert found == pytest.approx(math.erf(1 / (math.sqrt(8) * budget.noise)), abs=luck)


def test_the_same_attack_finds_the_canary_where_there_is_no_noise():
    assert advantage(Budget(1.0, releases=3), deviation=0.0) == 1.0


def test_no_gradient_is_longer_than_the_clip():
    known = Known(np.zeros(200), np.ones(200))
    rng = np.random.default_rng(0)
    site = PrivateSite(known, Budget(4.0, releases=6), every=1000)
    for x in 1e9 * rng.standard_normal((50, 200)):
        before = site._gradients.copy()
        site.learn(x, 1.0)
        assert np.linalg.norm(site._gradients - before) <= 1.0 + 1e-12
    assert np.linalg.norm(clipped(1e6 * np.ones(4))) == pytest.approx(1.0)


def test_until_its_release_an_example_changes_nothing_that_is_sent():
    X, y = stream(30)
    other, told = X.copy(), y.copy()
    other[13], told[13] = [1e9, -1e9, 1e9], -y[13]
    sent = []
    for rows, answers in ((X, y), (other, told)):
        site = PrivateSite(KNOWN, Budget(4.0, releases=6), every=10, rng=np.random.default_rng(1))
        sent.append(
            [(site.learn(x, a), site.message())[1] for x, a in zip(rows, answers, strict=True)]
        )
    one, two = np.array(sent)
    assert (one[:19] == two[:19]).all() and (one[19:] != two[19:]).any()


def test_messages_do_not_move_between_releases():
    site = PrivateSite(KNOWN, Budget(4.0, releases=3), every=10)
    sent = []
    for x, answer in zip(*stream(30), strict=True):
        site.learn(x, answer)
        sent.append(site.message())
    assert len(np.unique(np.array(sent), axis=0)) == 4  # nothing, and three releases
    assert all((sent[k] == sent[k - 1]).all() for k in range(1, 30) if k % 10 != 9)


def test_the_data_have_no_say_in_when_something_is_sent():
    """Releases come after so many examples, whatever these are: a count of gradients would give them away."""
    counts = []
    for answer in (1.0, -1.0):
        site = PrivateSite(KNOWN, Budget(4.0, releases=9), every=10)
        for x, _ in zip(*stream(45), strict=True):
            site.learn(x, answer)
        counts.append((site.released, site.examples))
    assert counts[0] == counts[1] == (4, 45)


# --- the tree and the accounts -----------------------------------------------------------------------------


def test_a_prefix_has_the_noise_of_its_nodes():
    rng = np.random.default_rng(0)
    drawn = np.array([[TreeNoise((1,), 1.0, r).next() for _ in range(1)] for r in rng.spawn(50)])
    assert drawn.std() > 0.5
    samples = []
    for child in rng.spawn(3000):
        noise = TreeNoise((1,), 1.0, child)
        samples.append([noise.next()[0] for _ in range(8)])
    variances = np.var(samples, axis=0)
    bits = [bin(k).count("1") for k in range(1, 9)]
    assert np.allclose(variances, bits, rtol=0.15)


def test_noise_follows_from_the_budget():
    small, large = Budget(1.0, releases=64), Budget(8.0, releases=64)
    assert small.noise > 2 * large.noise
    assert Budget(1.0, 1e-8, 64).noise > small.noise
    spent = [small.spent(k) for k in range(65)]
    assert spent[0] == 0.0 and spent[-1] <= 1.0
    assert all(a <= b for a, b in pairwise(spent))


def test_sharing_ends_with_the_budget_and_serving_does_not():
    site = PrivateSite(KNOWN, Budget(2.0, releases=2), every=10)
    X, y = stream(60)
    for x, answer in zip(X[:20], y[:20], strict=True):
        site.learn(x, answer)
    last, own = site.message(), site.own.copy()
    assert site.is_used_up and site.spent <= 2.0
    for x, answer in zip(X[20:], y[20:], strict=True):
        site.learn(x, answer)
    assert (site.message() == last).all() and site.released == 2
    assert (site.own != own).any() and 0.0 < site.predict_proba(X[0]) < 1.0
    site.mix(np.ones(D + 1))  # it still listens
    assert (site.message() == 1.0).all()


def test_what_is_spent_survives_a_restart():
    site = PrivateSite(KNOWN, Budget(2.0, releases=5), every=10)
    X, y = stream(35)
    for x, answer in zip(X, y, strict=True):
        site.learn(x, answer)
    again = PrivateSite(KNOWN, Budget(2.0, releases=5), every=10)
    again.load_state_dict(site.state_dict())
    assert (again.spent, again.released) == (site.spent, 3)
    assert (again.message() == site.message()).all()
    assert again.predict_proba(X[0]) == site.predict_proba(X[0])
    other = PrivateSite(KNOWN, Budget(9.0, releases=5), every=10)
    with pytest.raises(DataError, match="same budget"):
        other.load_state_dict(site.state_dict())


@pytest.mark.parametrize(
    "text", ("epsilon:0", "epsilon:-1", "epsilon:nan", "epsilon", "delta:1e-5", "", "sites:1",
             "epsilon:4,delta:2", "epsilon:1,unit:site")
)  # fmt: skip
def test_budgets_that_mean_nothing_are_refused(text):
    with pytest.raises(DataError, match="privacy"):
        parse_privacy(text)


def test_what_is_not_finite_or_not_known_beforehand_is_refused():
    site = PrivateSite(KNOWN, Budget(4.0), every=10)
    for wrong in (lambda: site.learn([np.nan, 0, 0], 1.0), lambda: site.learn([0, 0, 0], "new"),
                  lambda: site.mix(np.full(D + 1, np.inf)), lambda: site.mix(np.ones(2)),
                  lambda: Known(np.zeros(2), np.array([1.0, 0.0]))):  # fmt: skip
        with pytest.raises(DataError):
            wrong()


# --- together ---------------------------------------------------------------------------------


def test_noise_never_makes_a_site_much_worse_than_alone():
    X, y = stream(3200)
    for epsilon in (0.01, 4.0):
        settings = Private(Budget(epsilon, releases=8), every=50)
        graph = ddol.metropolis(ddol.ring(8))
        found = learn_privately(settings, KNOWN, X, y, graph, np.random.default_rng(0))
        per = len(y) // 8
        assert found.loss_mixed <= found.loss_alone + (math.log(3) + math.log(per + 1)) / per
        assert found.loss_mixed <= found.loss_shared + (math.log(3) + math.log(per + 1)) / per


def test_sharing_privately_helps_where_all_are_alike():
    X, y = stream(16_000)
    graph = ddol.metropolis(ddol.complete(16))
    settings = Private(Budget(8.0, releases=20), every=50)
    found = learn_privately(settings, KNOWN, X, y, graph, np.random.default_rng(0))
    assert found.loss_mixed < found.loss_alone
