"""Mirror maps and their projections."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from ddol.testing import check_mirror
from ddol.update.contract import DUAL, Interpreted
from ddol.update.domains import Domain, l1_ball, l2_ball, norm_ball, simplex
from ddol.update.mirrors import (
    MirrorDescent,
    entropy,
    euclidean,
    p_norm_mirror,
    separable_mirror,
    signed_entropy,
)
from oracles import project


def to_primal(theta, p):
    return p[0] * math.sinh(theta / p[0])


def to_dual(w, p):
    return p[0] * math.asinh(w / p[0])


own = separable_mirror("hypentropy", to_primal, to_dual, (0.5,))
MIRRORS = [euclidean, entropy, signed_entropy, p_norm_mirror(1.5), p_norm_mirror(2.0), own]
numbers = st.floats(-3, 3).filter(lambda x: x == 0 or abs(x) > 1e-3)
vectors = arrays(float, 4, elements=numbers)


@pytest.mark.parametrize("mirror", MIRRORS, ids=lambda mirror: mirror.name)
def test_every_mirror_keeps_the_contract(mirror):
    check_mirror(mirror)


@pytest.mark.parametrize(
    "mirror", [m for m in MIRRORS if m is not signed_entropy], ids=lambda mirror: mirror.name
)
@given(theta=vectors)
def test_round_trip(mirror, theta):
    np.testing.assert_allclose(mirror.dual(mirror.primal(theta[None]))[0], theta, atol=1e-9)


@pytest.mark.parametrize("mirror", MIRRORS[:5], ids=lambda mirror: mirror.name)
@given(one=arrays(float, (2, 4), elements=numbers), other=arrays(float, (2, 4), elements=numbers))
def test_divergence_is_not_negative_and_zero_only_at_home(mirror, one, other):
    sides = 2 if mirror is signed_entropy else 1
    u = mirror.primal(one[:sides])
    assert mirror.divergence(u, other[:sides]) >= -1e-9
    if mirror is not signed_entropy:
        assert abs(mirror.divergence(u, one[:1])) < 1e-9


PROJECTIONS = [
    (euclidean, l2_ball(1.0)),
    (euclidean, l1_ball(1.0)),
    (euclidean, simplex(1.5)),
    (entropy, l1_ball(1.0)),
    (entropy, simplex(1.5)),
    (p_norm_mirror(1.5), norm_ball(1.0)),
]


@pytest.mark.parametrize(("mirror", "domain"), PROJECTIONS, ids=str)
@given(theta=vectors)
def test_projections_are_feasible_and_as_near_as_can_be(mirror, domain, theta):
    update = MirrorDescent(mirror, domain)
    loops = Interpreted(update, DUAL, 4)
    state = mirror.vector(theta[None].copy())
    loops.from_message(state, theta[None], np.empty(0))
    loops.finish(state, 1, 1.0)
    w = loops.weights(state)
    np.testing.assert_allclose(w, mirror.primal(project(mirror, theta[None], domain)), atol=1e-9)
    size = {
        "l2_ball": np.linalg.norm(w),
        "l1_ball": np.abs(w).sum(),
        "simplex": w.sum(),
        "norm_ball": np.linalg.norm(w, 1.5),
    }[domain.kind]
    assert size <= domain.radius * (1 + 1e-9)
    if domain.kind == "simplex":
        assert (w >= 0).all() and size == pytest.approx(domain.radius)
    # No other point of the domain is nearer: try mixtures with its corners.
    here = mirror.divergence(w, theta[None])
    for d in range(4):
        for sign in (1.0,) if domain.kind == "simplex" or mirror is entropy else (1.0, -1.0):
            corner = np.zeros(4)
            corner[d] = sign * domain.radius
            for share in (0.001, 0.1, 1.0):
                other = (1 - share) * w + share * corner
                assert mirror.divergence(other, theta[None]) >= here - 1e-9 * (1 + here)


def test_the_signed_projection_rescales_both_sides():
    theta = np.log([[1.0, 2.0], [3.0, 4.0]])
    for radius, factor in ((5.0, 0.5), (11.0, 1.0)):
        loops = Interpreted(MirrorDescent(signed_entropy, l1_ball(radius)), DUAL, 2)
        state = signed_entropy.vector(theta)
        loops.finish(state, 1, 1.0)
        np.testing.assert_allclose(np.exp(loops.to_message(state)[0]), factor * np.exp(theta))


def test_the_step_is_the_argmin_of_the_paper():
    """argmin_z η⟨g, z⟩ + ψ(z, w), over all of space."""
    rng = np.random.default_rng(0)
    w, g, eta = rng.standard_normal(3), rng.standard_normal(3), 0.3
    for mirror in (euclidean, p_norm_mirror(1.5)):
        loops, theta = Interpreted(MirrorDescent(mirror), DUAL, 3), mirror.dual(w)
        state = loops.update.start(3)
        loops.from_message(state, theta, np.empty(0))
        loops.step(state, g, 1.0, eta, 1.0)
        best = minimize(lambda z, m=mirror, v=theta: eta * g @ z + m.divergence(z, v), w, tol=1e-12)
        np.testing.assert_allclose(loops.weights(state), best.x, atol=1e-4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: l2_ball(0.0), "`radius` of l2_ball must be a positive number, it is 0.0"),
        (lambda: l1_ball(-1.0), "must be a positive number, it is -1.0"),
        (lambda: simplex(math.inf), "must be a positive number, it is inf"),
        (lambda: Domain("norm_ball", math.nan), "must be a positive number, it is nan"),
        (lambda: MirrorDescent(entropy, l2_ball()), "entropy has no projection onto l2_ball; use"),
        (lambda: MirrorDescent(own, l1_ball()), "hypentropy has no projection onto l1_ball"),
        (lambda: MirrorDescent(l2=-1.0), "`l2` must be at least 0, it is -1.0"),
        (lambda: p_norm_mirror(1.0), r"must lie in \(1, 2\], it is 1.0"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_link_with_a_wrong_signature():
    with pytest.raises(TypeError, match=r"takes 1 arguments, expected 2: to_primal\(theta, p\)"):
        separable_mirror("own", lambda theta: theta, lambda w, p: w)
