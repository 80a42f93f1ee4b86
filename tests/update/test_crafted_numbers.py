"""Loops end whatever finite numbers a state from elsewhere holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.hostile.layouts import crafted_layouts

import ddol
from ddol.engines.local import advance
from ddol.engines.state import State, layout_of
from ddol.engines.state_checks import check_state
from ddol.streams.dealing import table_round_robin
from ddol.streams.errors import DataError
from ddol.streams.rows import Block, Rows
from ddol.update import linear

D = 6


def _changed(state: State, algorithm: ddol.Algorithm, name: str, feature: int) -> State:
    """The state with a number of a feature set to 0."""
    theta = state.theta.copy()
    row = [field.name for field in layout_of(algorithm, D).row_fields].index(name)
    theta[:, :, row, feature] = 0.0
    return replace(state, theta=theta)


@pytest.mark.parametrize("preset", [ddol.adaptive, ddol.coin], ids=lambda preset: preset.__name__)
def test_a_centred_feature_without_values_is_looked_at_once(preset) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, D)), rng.choice([-1.0, 1.0], 200)
    algorithm = preset().on(3)
    crafted = _changed(ddol.run(algorithm, (X, y), 3).state, algorithm, "filled", 4)
    check_state(algorithm, crafted)
    found = advance(algorithm, crafted, Block(Rows.from_dense(X, y), table_round_robin(200, 3, 1)))
    assert found.rounds > crafted.rounds


def test_experts_have_positive_weights() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.choice([-1.0, 1.0], (50, D)), rng.choice([-1.0, 1.0], 50)
    algorithm = ddol.dwm_i().on(2)
    crafted = _changed(ddol.run(algorithm, (X, y), 2).state, algorithm, "v", 2)
    with pytest.raises(DataError, match="for `v`"):
        check_state(algorithm, crafted)


def test_weights_whose_sum_overflows_are_projected() -> None:
    w, p = np.full(D, 1e308), np.zeros(8)
    p[linear.RADIUS] = 1.0
    s = np.array([1.0, 0.0, 0.0])
    with np.errstate(all="ignore"):
        linear._project_onto_l1(w, s, p, D, False)
    assert np.isfinite(w).all()


@pytest.mark.parametrize("seed", [102_543, 123_993])
def test_a_full_list_of_moved_features_does_not_grow(seed) -> None:
    assert crafted_layouts(seed, 1) == {}
