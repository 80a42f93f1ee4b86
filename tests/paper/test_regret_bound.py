"""Mirror descent: the lemma, and that the regret bound is never exceeded on convex problems."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddol.measure.theorems import DOMD, Bound, Setting, applicable, on_regret

many = settings(max_examples=300, deadline=None)
SEEDS = st.integers(0, 2**32 - 1)
RATES = {
    "paper": lambda t: 1 / np.sqrt(t),
    "constant": lambda t: np.full(len(t), 0.3),
    "fast": lambda t: 2 / t,
    "steps": lambda t: 0.5 ** (t // 10),
}
LOSSES = {
    "linear": lambda score, y: (y * score, y),
    "hinge": lambda score, y: (max(0.0, 1 - y * score), -y if y * score < 1 else 0.0),
    "absolute": lambda score, y: (abs(score - y), np.sign(score - y)),
    "squared": lambda score, y: (0.5 * (score - y) ** 2, score - y),
}


def random_loss(rng, mirror, rounds, n_agents, kind, hostile):
    """Losses ℓ(⟨w, x⟩, y) of random examples, or of those that hurt most; some agents have none."""
    half = mirror.dim // 2 if mirror.name == "signed entropy" else mirror.dim
    x = rng.normal(size=(rounds, n_agents, half)) * rng.choice([0.1, 1.0, 3.0])
    y = rng.choice([-1.0, 1.0], size=(rounds, n_agents))
    absent = rng.random((rounds, n_agents)) < 0.1
    if mirror.name == "signed entropy":
        x = np.concatenate([x, -x], axis=2)

    def loss(t, i, w):
        if absent[t, i]:
            return 0.0, np.zeros(mirror.dim)
        score = float(w @ x[t, i])
        label = -np.sign(score) or 1.0 if hostile else y[t, i]
        if kind == "linear" and hostile:
            label = -label
        value, slope = LOSSES[kind](score, label)
        memory[t, i] = label
        return value, slope * x[t, i]

    def again(t, i, w):
        """The same function at another point: what was the label stays the label."""
        if absent[t, i]:
            return 0.0
        return LOSSES[kind](float(w @ x[t, i]), memory[t, i])[0]

    memory = np.zeros((rounds, n_agents))
    return loss, again


def play_and_compare(play_mirror, mirror, seed, n_agents, kind, rate, hostile, rounds=30):
    """Regret after every round, against several w*, and the bound that goes with each."""
    rng = np.random.default_rng(seed)
    loss, again = random_loss(rng, mirror, rounds, n_agents, kind, hostile)
    rates = RATES[rate](np.arange(1, rounds + 1))
    run = play_mirror(mirror, loss, rates, n_agents)
    total = run.gradients.sum(axis=1)
    norms = np.array([mirror.dual_norm(g) for g in total])
    for w_star in comparators(rng, mirror, total):
        best = np.array([[again(t, i, w_star) for i in range(n_agents)] for t in range(rounds)])
        regret = np.cumsum((run.losses - best).sum(axis=1))
        far = np.maximum.accumulate([mirror.divergence(w_star, theta) for theta in run.duals])
        yield regret, on_regret(far, np.cumsum(rates * norms**2), rates, n_agents, mirror.convexity)


def comparators(rng, mirror, gradients):
    """The w* that the subgradients of the run point to, the start, and one at random."""
    yield mirror.worst(gradients.sum(axis=0))
    yield mirror.to_primal(mirror.start)
    yield mirror.to_primal(mirror.project(rng.normal(size=mirror.dim)))


@many
@given(
    SEEDS,
    st.sampled_from(["euclidean", "signed entropy"]),
    st.sampled_from([0.5, 2.0, 20.0]),
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from(sorted(LOSSES)),
    st.sampled_from(sorted(RATES)),
    st.booleans(),
)
def test_regret_bound(play_mirror, mirrors, seed, name, radius, dim, n_agents, kind, rate, hostile):
    assert applicable(Setting("mirror-descent", n_agents)).holds
    mirror = mirrors[name](dim, radius)
    for regret, bound in play_and_compare(play_mirror, mirror, seed, n_agents, kind, rate, hostile):
        assert bound.exceeded(regret) == ""


@many
@given(SEEDS, st.integers(1, 4), st.sampled_from(["linear", "hinge", "absolute"]), st.booleans())
def test_regret_bound_in_all_of_space(play_mirror, mirrors, seed, n_agents, kind, hostile):
    mirror = mirrors["euclidean"](3, np.inf)
    for regret, bound in play_and_compare(
        play_mirror, mirror, seed, n_agents, kind, "paper", hostile
    ):
        assert bound.exceeded(regret) == ""


@pytest.mark.parametrize("name", ["euclidean", "signed entropy"])
def test_regret_per_round_falls_like_one_over_root_t(play_mirror, mirrors, name):
    mirror = mirrors[name](4, 2.0)
    runs = play_and_compare(play_mirror, mirror, 0, 3, "hinge", "paper", False, rounds=1600)
    regret, _ = next(runs)
    root_t = np.sqrt(np.arange(1, 1601))
    assert np.all(regret[100:] <= 3 * 6 * root_t[100:])
    assert regret[1599] / 1600 < 0.5 * regret[99] / 100


def lemma_slack(mirror, v, w, u, comparator_first=True):
    """Right side minus left side of the lemma at duals v, w; the paper swaps ψ's arguments."""
    new = mirror.project(w - u)  # P_w(u), the argmin over the domain of ⟨u, z⟩ + ψ(z, w)
    gap = mirror.to_primal(w) - mirror.to_primal(v)

    def psi(a, b):
        a, b = (a, b) if comparator_first else (b, a)
        return mirror.divergence(mirror.to_primal(a), b)

    return psi(v, w) - psi(v, new) + mirror.dual_norm(u) ** 2 / (2 * mirror.convexity) - u @ gap


def points(rng, mirror):
    return (mirror.project(rng.normal(size=mirror.dim)) for _ in range(2))


@many
@given(SEEDS, st.sampled_from(["euclidean", "signed entropy"]), st.sampled_from([0.5, 2.0]))
def test_lemma_with_the_comparator_first(mirrors, seed, name, radius):
    rng = np.random.default_rng(seed)
    mirror = mirrors[name](3, radius)
    v, w = points(rng, mirror)
    u = rng.normal(size=mirror.dim) * rng.choice([0.1, 1.0, 5.0])
    assert lemma_slack(mirror, v, w, u) >= -1e-9


def test_lemma_as_printed_is_false_for_entropy(mirrors):
    rng = np.random.default_rng(0)
    mirror = mirrors["signed entropy"](3, 2.0)
    slacks = []
    for _ in range(300):
        v, w = points(rng, mirror)
        u = rng.normal(size=mirror.dim) * 0.3
        slacks.append(lemma_slack(mirror, v, w, u, comparator_first=False))
    assert min(slacks) < -0.01


def test_distance_between_agents_cannot_be_the_d_of_the_theorem(play_mirror, mirrors):
    """sup ψ(w_i^t, w_j^t) is 0 on the complete graph; regret against a far w* is not."""
    mirror = mirrors["euclidean"](1, np.inf)
    run = play_mirror(
        mirror, lambda t, i, w: (abs(w[0] - 9), np.sign(w - 9)), 1 / np.sqrt(np.arange(1, 6)), 2
    )
    norms = np.abs(run.gradients.sum(axis=1)[:, 0]) ** 2 / np.sqrt(np.arange(1, 6))
    regret = run.losses.sum()
    assert Bound(DOMD, on_regret(0, norms.sum(), 1 / np.sqrt(5), 2).value).exceeded(regret)
    far = 0.5 * np.max((9 - run.duals) ** 2)
    assert on_regret(far, norms.sum(), 1 / np.sqrt(5), 2).exceeded(regret) == ""


def test_regret_against_each_agents_own_best_is_not_covered(play_mirror, mirrors):
    """Two agents that want opposite things share one w: their own regrets grow like T."""
    mirror = mirrors["euclidean"](1, 1.0)
    rates = 1 / np.sqrt(np.arange(1, 1001))
    goal = np.array([0.9, -0.9])
    run = play_mirror(mirror, lambda t, i, w: (abs(w[0] - goal[i]), np.sign(w - goal[i])), rates, 2)
    norms = np.cumsum(rates * run.gradients.sum(axis=1)[:, 0] ** 2)
    bound = on_regret(2.0, norms[-1], rates[-1], 2)
    assert "violated" in bound.exceeded(run.losses.sum())
    common = run.losses.sum() - 2 * 0.9 * 1000  # any w between the two goals is best
    assert bound.exceeded(common) == ""
