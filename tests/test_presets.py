"""One agent of every preset is the classic algorithm, written here as the textbooks have it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ddol
from ddol.presets import PRESETS
from ddol.testing import check_update

D = 5
"""Odd: the first rows of scale-free algorithms are all ±1, and their scores must not be 0."""


def data(n=300, seed=0):
    rng = np.random.default_rng(seed)
    scales = np.array([1.0, 30.0, 0.01, 5.0, 1000.0])
    X = rng.standard_normal((n, D)) * scales
    w = rng.standard_normal(D) / scales
    return X, np.where(X @ w + 0.5 * rng.standard_normal(n) > 0, 1.0, -1.0)


def hinge_slope(z, y):
    return -y if y * z < 1 else 0.0


def check(algorithm, X, y, weights, mistakes):
    trace = ddol.run(algorithm, (X, y))
    np.testing.assert_allclose(trace.weights[0, 0], weights, rtol=1e-9, atol=1e-12)
    assert trace.mistakes.tolist() == [mistakes]


@pytest.mark.parametrize("l2", [0.0, 0.3])
@pytest.mark.parametrize("radius", [None, 0.2])
def test_online_gradient_descent(l2, radius):
    X, y = data()
    X /= np.abs(X).max(axis=0)
    w, mistakes = np.zeros(D), 0
    for t, (x, answer) in enumerate(zip(X, y, strict=True), 1):
        z = w @ x
        mistakes += (z >= 0) != (answer > 0)
        w = w - 0.5 / math.sqrt(t) * (hinge_slope(z, answer) * x + l2 * w)
        if radius is not None:
            w *= min(1.0, radius / np.linalg.norm(w)) if w.any() else 1.0
    check(ddol.ogd(l2=l2, rate=0.5, radius=radius), X, y, w, mistakes)


def test_exponentiated_gradient():
    X, y = data()
    X /= np.abs(X).max(axis=0)
    S, mistakes = 5.0, 0
    plus, minus = np.full(D, S / (2 * D)), np.full(D, S / (2 * D))
    for t, (x, answer) in enumerate(zip(X, y, strict=True), 1):
        z = (plus - minus) @ x
        mistakes += (z >= 0) != (answer > 0)
        factor = np.exp(-hinge_slope(z, answer) * x / math.sqrt(t))
        plus, minus = plus * factor, minus / factor
        total = plus.sum() + minus.sum()
        if total > S:
            plus, minus = plus * S / total, minus * S / total
    check(ddol.oeg(radius=S), X, y, plus - minus, mistakes)


def test_weighted_majority():
    rng = np.random.default_rng(0)
    y = rng.choice([-1.0, 1.0], 500)
    advice = np.where(rng.random((500, 6)) < np.linspace(0.1, 0.6, 6), -y[:, None], y[:, None])
    w, mistakes = np.ones(6), 0
    for said, answer in zip(advice, y, strict=True):
        mistakes += (1.0 if w[said > 0].sum() >= w[said < 0].sum() else -1.0) != answer
        w = np.where(said != answer, 0.7 * w, w)
    check(ddol.wma(0.7), advice, y, w / w.sum(), mistakes)


def test_randomised_weighted_majority_counts_the_chance_of_a_mistake():
    rng = np.random.default_rng(0)
    y = rng.choice([-1.0, 1.0], 2_000)
    advice = np.where(rng.random((2_000, 3)) < [0.1, 0.4, 0.5], -y[:, None], y[:, None])
    w, chance = np.ones(3), 0.0
    for said, answer in zip(advice, y, strict=True):
        chance += w[said != answer].sum() / w.sum()
        w = np.where(said != answer, 0.8 * w, w)
    trace = ddol.run(ddol.rwma(0.8), (advice, y), seed=3)
    np.testing.assert_allclose(trace.expected_mistakes, chance, rtol=1e-9)
    assert abs(trace.mistakes.sum() - chance) < 5 * math.sqrt(chance)


def test_winnow_multiplies_on_mistakes_only():
    rng = np.random.default_rng(1)
    X = rng.choice([0.0, 1.0], (400, 6)) - 0.3
    y = np.where(X[:, 0] + X[:, 1] > 0.5, 1.0, -1.0)
    w, mistakes = np.full(6, 1 / 6), 0
    for x, answer in zip(X, y, strict=True):
        if (w @ x >= 0) != (answer > 0):
            mistakes += 1
            w = w * np.exp(answer * x)
            w = w / w.sum()
    check(ddol.winnow(), X, y, w, mistakes)


def test_p_norm_perceptron():
    X, y = data()
    X /= np.abs(X).max(axis=0)
    p, theta, w, mistakes = 1.5, np.zeros(D), np.zeros(D), 0
    q = p / (p - 1)
    for t, (x, answer) in enumerate(zip(X, y, strict=True), 1):
        if (w @ x >= 0) != (answer > 0):
            mistakes += 1
            theta = theta + answer * x / math.sqrt(t)
            norm = np.linalg.norm(theta, q)
            w = np.sign(theta) * np.abs(theta) ** (q - 1) / norm ** (q - 2)
    check(ddol.p_norm(p), X, y, w, mistakes)


@pytest.mark.parametrize("radius", [None, 0.3])
def test_dual_averaging(radius):
    X, y = data()
    X /= np.abs(X).max(axis=0)
    z, w, mistakes = np.zeros(D), np.zeros(D), 0
    for t, (x, answer) in enumerate(zip(X, y, strict=True), 1):
        score = w @ x
        mistakes += (score >= 0) != (answer > 0)
        z = z + hinge_slope(score, answer) * x
        w = -np.sign(z) * np.maximum(np.abs(z) - 0.02 * t, 0) / math.sqrt(t)
        if radius is not None and np.linalg.norm(w) > radius:
            w *= radius / np.linalg.norm(w)
    check(ddol.dual_averaging(l1=0.02, radius=radius), X, y, w, mistakes)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_keeps_the_contract_of_updates(name):
    made = PRESETS[name]()
    assert made.name in (name, f"d{name}", {"wma": "dwm_i", "rwma": "drwm"}.get(name))
    check_update(made.update, made.loss, rate=made.rate, average=made.average, outputs=made.outputs)


@pytest.mark.parametrize("preset", [ddol.adaptive, ddol.coin, ddol.newton])
def test_regression_keeps_the_contract_of_updates(preset):
    made = preset("squared")
    check_update(made.update, made.loss, rate=made.rate)


def test_the_registry_says_what_every_preset_takes():
    assert PRESETS["ogd"].parameters == PRESETS["dogd"].parameters
    assert list(PRESETS["dwm_i"].parameters) == ["alpha", "n_classes", "share"]
    for name, preset in PRESETS.items():
        made = preset()
        assert made.update.experts == preset.experts, name
        assert preset.summary.endswith((".", ")", ":")) or preset.summary, name
        assert preset(**{p.name: p.default for p in preset.parameters.values()}).name == made.name
        assert all(p.help for p in preset.parameters.values()), name


@pytest.mark.parametrize("memory", ["fast", 1.0, -3])
def test_a_memory_that_is_none_is_refused(memory):
    with pytest.raises(ValueError, match="`memory` must be more than 1 round, or 'auto', it is"):
        ddol.adaptive(memory=memory)
