"""Weighted majority: no applicable bound is ever exceeded, whatever the experts say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ddol
from ddol.measure import bounds
from ddol.measure.applicable import applicable_bound
from ddol.measure.theorems import SHARED, Bound, find_theorem, on_mistakes
from ddol.presets import drwm, dwm_a, dwm_i

many = settings(max_examples=400)
SEEDS = st.integers(0, 2**32 - 1)
ALPHAS = st.one_of(st.floats(0.01, 0.99), st.sampled_from([1e-6, 0.5, 0.999]))
HOW = st.sampled_from(["dual", "primal"])


def bound_along(game, alpha, how, randomized=False):
    """The bound of the theorem that applies to a game, after every round."""
    _, n_agents, n_experts = game.advice.shape
    preset = drwm(alpha, average=how) if randomized else (dwm_i if how == "dual" else dwm_a)(alpha)
    found = find_theorem(preset.on(n_agents))
    assert found.holds
    wrong_agents = game.wrong.sum(axis=1)
    if how == "dual":
        lost = np.log(alpha) * wrong_agents / n_agents
    else:
        lost = bounds.log_weight(wrong_agents, n_agents, alpha)
    return on_mistakes(found.theorem, np.cumsum(lost, axis=0), n_experts, n_agents, alpha)


def check(play_experts, game, alpha, how):
    """Compare mistakes, and those of the randomised rule and their expectation, with the bounds."""
    voted = play_experts(game, alpha, how)
    assert bound_along(game, alpha, how).exceeded(np.cumsum(voted.mistakes.sum(axis=1))) == ""
    drawn = play_experts(game, alpha, how, randomized=True)
    bound = bound_along(game, alpha, how, randomized=True)
    assert bound.exceeded(np.cumsum(drawn.mistakes.sum(axis=1))) == ""
    without_luck = Bound(bound.theorem, bound.value)
    assert without_luck.exceeded(np.cumsum(drawn.expected.sum(axis=1))) == ""
    return voted


@many
@given(SEEDS, st.integers(1, 6), st.integers(1, 12), st.integers(2, 4), ALPHAS, HOW)
def test_random_advice(play_experts, games, seed, n_agents, n_experts, n_classes, alpha, how):
    rng = np.random.default_rng(seed)
    game = games.random(rng, 25, n_agents, n_experts, n_classes)
    check(play_experts, game, alpha, how)


@many
@given(
    st.lists(st.booleans(), min_size=1, max_size=6),
    st.integers(1, 40),
    st.integers(0, 3),
    ALPHAS,
    HOW,
)
def test_hostile_advice(play_experts, games, attacked, n_experts, spare, alpha, how):
    game = games.hostile(40, attacked, n_experts, alpha, how, spare=min(spare, n_experts - 1))
    if game.advice.size == 0:
        return
    voted = check(play_experts, game, alpha, how)
    assert voted.mistakes.sum() == len(game.answers) * sum(attacked)


@many
@given(SEEDS, st.integers(2, 5), st.integers(2, 10), ALPHAS, HOW)
def test_advice_against_a_moving_target(play_experts, games, seed, n_agents, n_experts, alpha, how):
    """Hostile rounds, then random ones, so that the best expert of the end was not always best."""
    rng = np.random.default_rng(seed)
    first = games.hostile(15, rng.random(n_agents) < 0.5, n_experts, alpha, how)
    last = games.random(rng, 15, n_agents, n_experts)
    if first.advice.size == 0:
        return
    joined = [
        np.concatenate(p) for p in zip(vars(first).values(), vars(last).values(), strict=True)
    ]
    game = type(first)(*joined)
    check(play_experts, game, alpha, how)


@pytest.mark.parametrize("how", ["dual", "primal"])
def test_bound_is_nearly_reached_by_hostile_advice(play_experts, games, how):
    """A bound that no game comes near would hide a wrong constant."""
    game = games.hostile(10_000, [True] * 4, 2**12 + 1, 0.5, "dual")
    if how == "primal":
        game = games.hostile(10_000, [True, False, False, False], 2**12 + 1, 0.5, how)
    played = play_experts(game, 0.5, how)
    bound = bound_along(game, 0.5, how).value[-1]
    assert 0.85 * bound < played.mistakes.sum() <= bound


@pytest.mark.parametrize("how", ["dual", "primal"])
def test_one_agent_is_weighted_majority(play_experts, games, how):
    game = games.random(np.random.default_rng(3), 200, 1, 9)
    weights, mistakes = np.ones(9), 0
    for advice, (answer,) in zip(game.advice[:, 0], game.answers, strict=True):
        says = 1 if weights[advice == 1].sum() >= weights[advice == -1].sum() else -1
        mistakes += says != answer
        weights[advice != answer] *= 0.8
    assert play_experts(game, 0.8, how).mistakes.sum() == mistakes


@many
@given(SEEDS, st.integers(1, 6), ALPHAS)
def test_best_expert_keeps_at_least_as_much_with_dwm_a(games, play_experts, seed, n_agents, alpha):
    """What is true of "DWM-A's bound is lower": its experts keep at least DWM-I's weight."""
    game = games.random(np.random.default_rng(seed), 15, n_agents, 6)
    geometric = play_experts(game, alpha, "dual").log_weights
    arithmetic = play_experts(game, alpha, "primal").log_weights
    assert np.all(arithmetic >= geometric - 1e-9)


@given(st.floats(0, 1), st.floats(1e-12, 1 - 1e-12))
def test_the_inequality_behind_it(x, alpha):
    lost = -bounds.log_weight(x, n_agents=1, alpha=alpha)
    assert lost <= x * np.log(1 / alpha) * (1 + 1e-12) + 1e-15


# --- shares ---------------------------------------------------------------------------------------

SWITCHES = st.integers(0, 3)
GIVEN = st.one_of(st.just("auto"), st.floats(1e-3, 0.5))


def shared(log_weights, given, t):
    """Log-weights after every expert gave a share to the others."""
    if len(log_weights) == 1:
        return log_weights
    alpha = 1 / (t + 1) if given == "auto" else given
    total = np.logaddexp.reduce(log_weights)
    now = np.exp(log_weights - total)
    return total + np.log((1 - alpha) * now + alpha * (1 - now) / (len(now) - 1))


def play_sharing(game, alpha, how, given):
    """Weighted majority with fixed share, line by line: mistakes, their chances, log of the mean weight."""
    rounds, n_agents, n_experts = game.advice.shape
    log_weights, voted, drawn = np.zeros(n_experts), 0.0, 0.0
    for t in range(rounds):
        now = np.exp(log_weights - np.logaddexp.reduce(log_weights))
        drawn += (now * game.wrong[t]).sum()
        says = np.where((game.advice[t] * now).sum(axis=1) >= 0, 1, -1)
        voted += ((says != game.answers[t]) & game.present[t]).sum()
        wrong = game.wrong[t].sum(axis=0)
        if how == "dual":
            log_weights = log_weights + np.log(alpha) * wrong / n_agents
        else:
            log_weights = log_weights + bounds.log_weight(wrong, n_agents, alpha)
        log_weights = shared(log_weights, given, t + 1)
    return voted, drawn, np.logaddexp.reduce(log_weights) - np.log(n_experts)


def best_sequence(game, alpha, how, switches):
    """Largest log-weight that penalties leave to a sequence of experts with so many changes, or fewer."""
    n_agents, n_experts = game.advice.shape[1:]
    best = np.full((switches + 1, n_experts), -np.inf)
    best[0] = 0.0
    for t, wrong in enumerate(game.wrong.sum(axis=1)):
        for m in range(switches if t > 0 else 0, 0, -1):
            best[m] = np.maximum(best[m], best[m - 1].max())
        lost = np.log(alpha) * wrong / n_agents
        best += lost if how == "dual" else bounds.log_weight(wrong, n_agents, alpha)
    return best.max()


def sharing(alpha, how, given, n_agents, n_experts, randomized=False):
    preset = dwm_i if how == "dual" else dwm_a
    made = drwm(alpha, average=how, share=given) if randomized else preset(alpha, share=given)
    found = applicable_bound(made.on(n_agents), n_experts)
    assert found is not None and found.theorem in SHARED.values()
    return found


@many
@given(SEEDS, st.integers(1, 5), st.integers(2, 8), SWITCHES, ALPHAS, HOW, GIVEN, st.booleans())
def test_with_shares_sequences_of_experts_bound_mistakes(
    games, seed, n_agents, n_experts, switches, alpha, how, given, hostile
):
    """What agents lose is at most what the mean expert says, which is at most what any sequence says."""
    rng = np.random.default_rng(seed)
    game = games.random(rng, 30, n_agents, n_experts)
    if hostile:
        game = games.hostile(30, [True] * n_agents, n_experts, alpha, how)
        if game.advice.size == 0:
            return
    voted, drawn, mean = play_sharing(game, alpha, how, given)
    kept = best_sequence(game, alpha, how, switches)
    for randomized, seen in ((False, voted), (True, drawn)):
        made = sharing(alpha, how, given, n_agents, n_experts, randomized)
        value = made.at(mean).value
        assert seen <= value * (1 + 1e-9) + 1e-9
        prior = np.log(n_experts) + bounds.switching(
            n_experts, len(game.answers), switches, None if given == "auto" else given
        )
        assert value <= made.at(kept - prior).value * (1 + 1e-9) + 1e-9
        if how == "dual":
            mistakes = -n_agents * kept / np.log(1 / alpha)
            before = made.before(mistakes, len(game.answers), switches).value
            assert before == pytest.approx(float(made.at(kept - prior).value))


@settings(max_examples=60)
@given(SEEDS, st.integers(1, 4), st.integers(2, 6), HOW, GIVEN)
def test_the_engine_shows_that_bound(games, seed, n_agents, n_experts, how, given):
    game = games.random(np.random.default_rng(seed), 12, n_agents, n_experts)
    algorithm = (dwm_i if how == "dual" else dwm_a)(0.7, share=given)
    advice = game.advice[game.present.all(axis=1)]
    answers = game.answers[game.present.all(axis=1)]
    if len(np.unique(answers)) < 2:
        return
    whole = type(game)(advice, answers, np.ones_like(answers, bool))
    _, _, mean = play_sharing(whole, 0.7, how, given)
    trace = ddol.run(algorithm, (advice.reshape(-1, n_experts), answers.ravel()), n_agents)
    ((name, bound),) = trace.bounds.items()
    assert bound["holds"] and name.endswith(", shares")
    made = sharing(0.7, how, given, n_agents, n_experts)
    assert bound["value"] == pytest.approx(float(made.at(mean).value))
