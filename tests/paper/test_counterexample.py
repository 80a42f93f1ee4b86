"""Theorems 1 and 2 as printed, for the worst agent, are false; docs/errata.md tells why."""

import numpy as np
import pytest

import ddol
from ddol.measure import bounds

ALPHA, P, N = 0.5, 1025, 4
STATED = np.log(P) / np.log(2 / (1 + ALPHA))
ONE_OF_FOUR = [True, False, False, False]


@pytest.fixture(scope="module", params=[("dual", 76), ("primal", 97)], ids=["DWM-I", "DWM-A"])
def attack(request, play_experts, games):
    how, mistakes = request.param
    game = games.hostile(1000, ONE_OF_FOUR, P, ALPHA, how)
    return how, mistakes, game, play_experts(game, ALPHA, how)


def test_the_stated_bound():
    assert pytest.approx(24.1, abs=0.05) == STATED


def test_one_expert_never_errs(attack):
    _, _, game, _ = attack
    assert not game.wrong[:, :, 0].any()


def test_first_agent_makes_far_more_mistakes_than_stated(attack):
    _, mistakes, _, played = attack
    assert played.mistakes.sum(axis=0).tolist() == [mistakes, 0, 0, 0]
    assert mistakes > 3 * STATED


def test_the_step_of_the_proof_that_fails(attack):
    """ "The total is at most P ((1+α)/2)^M_i": averaging gives back most of what agent i took."""
    how, mistakes, _, played = attack
    total = np.exp(played.log_weights).sum()
    assert total > 1000 * P * ((1 + ALPHA) / 2) ** mistakes
    lost = ((1 + ALPHA) / 2) ** (1 / N) if how == "dual" else 1 - (1 - ALPHA) / (2 * N)
    assert total <= P * lost**mistakes


def test_the_bound_for_all_agents_together_holds(attack):
    how, mistakes, _, _ = attack
    together = bounds.dwm_i(0, P, N, ALPHA) if how == "dual" else bounds.dwm_a(0.0, P, N, ALPHA)
    assert mistakes <= together
    assert together == pytest.approx(96.4 if how == "dual" else 107.4, abs=0.05)


def test_the_same_by_the_public_run(attack):
    how, mistakes, game, _ = attack
    algorithm = {"dual": ddol.dwm_i, "primal": ddol.dwm_a}[how](ALPHA)
    streams = [
        (game.advice[:, i].astype(float), game.answers[:, i].astype(float)) for i in range(N)
    ]
    assert ddol.run(algorithm, streams, ddol.complete(N)).mistakes.tolist() == [mistakes, 0, 0, 0]


def test_one_agent_alone_keeps_the_stated_bound(play_experts, games):
    game = games.hostile(1000, [True], P, ALPHA, "dual")
    assert play_experts(game, ALPHA, "dual").mistakes.sum() == 22
    assert STATED > 22


def test_comparison_of_the_two_theorems_needs_base_two():
    """Eq. (9) of the paper, m log(1/α)/N > (1−α)m/(N − (1−α)m) for α ≥ 1/2, with natural logs."""
    x, alpha = 0.9, 0.5
    right = (1 - alpha) * x / (1 - (1 - alpha) * x)
    assert x * np.log2(1 / alpha) > right
    assert x * np.log(1 / alpha) < right


def test_share_of_agents_up_to_which_the_comparison_holds():
    """1/(1−α) − 1/log(1/α) is at least 0.81 in base 2 below α = 1/2; in natural logs only 1/2."""
    alpha = np.linspace(1e-4, 1 - 1e-4, 9999)
    natural = 1 / (1 - alpha) - 1 / np.log(1 / alpha)
    base_two = 1 / (1 - alpha) - 1 / np.log2(1 / alpha)
    assert base_two[alpha < 0.5].min() == pytest.approx(0.81, abs=0.005)
    assert natural.min() == pytest.approx(0.5, abs=1e-4)
    assert np.all(np.diff(natural) < 1e-9)
