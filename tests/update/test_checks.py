"""What a layout declares is checked in states and messages from elsewhere: compiled loops trust them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ddol
from ddol.compiled import column
from ddol.engines.state_checks import check_state
from ddol.model import load, model_of
from ddol.streams import DataError
from ddol.streams.coding.encoding import Encoding
from ddol.update import coordinates as at
from ddol.update.checks import check_message, check_vectors
from ddol.update.contract import (
    COUNT,
    INDEX,
    INTEGER,
    LARGEST,
    LOCAL,
    LOG,
    UNBOUNDED,
    FeatureList,
    Field,
    Interpreted,
    Layout,
    Loops,
    Update,
)

RNG = np.random.default_rng(0)
X = RNG.standard_normal((200, 5)) + 3.0
Y = np.where(X @ RNG.standard_normal(5) > X.mean() * 0.3, 1.0, -1.0)
STANDARDISING = (ddol.adaptive(), ddol.coin(), ddol.newton(), ddol.newton(rank=2))


def learned(algorithm):
    return ddol.run(algorithm, (X, Y)).state


def with_scalar(state, place, value):
    scalars = state.scalars.copy()
    scalars[..., place] = value
    return replace(state, scalars=scalars)


def with_entry(state, row, column, value):
    theta = state.theta.copy()
    theta[..., row, column] = value
    return replace(state, theta=theta)


CRAFTED = {
    "count of centred": lambda s: with_scalar(s, at.N_CENTRED, 1e7),
    "a little more centred": lambda s: with_scalar(s, at.N_CENTRED, 6.0),
    "half of a centred": lambda s: with_scalar(s, at.N_CENTRED, 2.5),
    "fewer centred": lambda s: with_scalar(s, at.N_CENTRED, 2.0),
    "no centred": lambda s: with_scalar(s, at.N_CENTRED, np.nan),
    "count of due": lambda s: with_scalar(s, at.N_DUE, 1e5),
    "negative count": lambda s: with_scalar(s, at.N_DUE, -1.0),
    "a column of 10⁹": lambda s: with_entry(s, at.CENTRED, 0, 1e9),
    "a negative column": lambda s: with_entry(s, at.CENTRED, 1, -1.0),
    "a column twice": lambda s: with_entry(s, at.CENTRED, 1, s.theta[0, 0, at.CENTRED, 0]),
    "between columns": lambda s: with_entry(s, at.CENTRED, 1, 0.5),
    "due of 10⁹": lambda s: with_scalar(with_entry(s, at.DUE, 0, 1e9), at.N_DUE, 1.0),
    "NaN": lambda s: with_entry(s, at.OWN, 0, np.nan),
    "infinite": lambda s: with_entry(s, at.CENTRE, 0, np.inf),
}


@pytest.mark.parametrize("craft", CRAFTED.values(), ids=CRAFTED)
@pytest.mark.parametrize("algorithm", STANDARDISING, ids=lambda a: f"{a.name}{a.update.family}")
def test_a_state_whose_lists_lead_elsewhere_is_refused_at_every_door(algorithm, craft, tmp_path):
    trace = ddol.run(algorithm, (X, Y))
    assert trace.state.scalars[0, 0, at.N_CENTRED] == 5.0  # else this would try nothing
    state = craft(trace.state)
    with pytest.raises(DataError, match="expected"):
        check_state(algorithm, state)
    with pytest.raises((DataError, ValueError), match="expected"):
        ddol.TicketLearner(algorithm, state=state).predict(0, X[0])
    model = model_of(trace, Encoding(n_features=5, classes=("no", "yes")))
    known = replace(model.known, theta=state.theta, scalars=state.scalars)
    replace(model, known=known).save(tmp_path / "m.ddol")
    with pytest.raises(DataError, match=r"m\.ddol: .*expected"):
        load(tmp_path / "m.ddol")


@pytest.mark.parametrize("algorithm", STANDARDISING, ids=lambda a: f"{a.name}{a.update.family}")
def test_what_a_run_leaves_is_good(algorithm):
    state = ddol.run(algorithm.on(ddol.ring(4)), (X, Y)).state
    check_state(algorithm.on(ddol.ring(4)), state)
    assert np.isinf(state.scalars).any() or np.isinf(state.theta).any()  # allowed where declared


def test_a_list_that_waits_to_be_made_anew_may_lag():
    state = with_scalar(with_scalar(learned(ddol.adaptive()), at.N_CENTRED, 2.0), at.STALE, 1.0)
    check_state(ddol.adaptive().on(1), state)


def test_messages_before_the_end_of_a_round_never_fill_the_list_of_due_features():
    """Each message lets a feature be listed again before the round is over."""
    update = ddol.adaptive().update
    loops, vector = Interpreted(update, "dual", 1), update.start(1)
    for k in range(50):
        loops.observe(vector, np.array([float(k % 7) + 1.0]))
        rows, scalars = loops.to_message(vector)
        rows[0] = 0.0  # a neighbour that has seen nothing: nothing is settled by its counts
        loops.from_message(vector, rows, scalars)
        vector.rows[at.FILLED] = 1e3 * (k + 1.0)
    assert vector.scalars[at.N_DUE] <= 1.0
    assert set(vector.rows[at.MARK]) == {0.0}


# --- a user's own ---------------------------------------------------------------------------------


def ring_score(w, s, p, x, index, n, D, which):
    total = 0.0
    for j in range(n):
        total += w[column(index, j)] * x[j]
    return total + 0.0 * w[int(s[0])]


def ring_step(w, s, p, x, index, n, D, g, eta, weight):
    for j in range(n):
        w[column(index, j)] -= eta * weight * g * x[j]
    w[D + int(s[0])] += 1.0
    s[0] = (s[0] + 1.0) % D


class Turning(Update):
    """Keeps a place that it goes round with."""

    grows = False

    def layout(self, space, n_features):
        return Layout(
            rows=("w", Field("uses", LOCAL)), scalars=(Field("place", LOCAL, holds=INDEX),)
        )

    def loops(self, space):
        return Loops(ring_score, ring_step)


def test_an_update_of_ones_own_is_covered_by_its_declaration():
    algorithm = ddol.Algorithm("turning", Turning(), ddol.dogd().loss, ddol.dogd().rate).on(1)
    state = ddol.run(algorithm, (X, Y)).state
    check_state(algorithm, state)
    for wrong in (5.0, -1.0, 1e18, 0.5, np.nan, np.inf):
        crafted = replace(state, scalars=np.full_like(state.scalars, wrong))
        with pytest.raises(DataError, match="`place`, expected a whole number from 0 to 4"):
            check_state(algorithm, crafted)


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        (Field("a"), (-1e308, 0.0), (np.nan, np.inf, -np.inf)),
        (Field("a", holds=UNBOUNDED), (np.inf, -np.inf, 3.5), (np.nan,)),
        (Field("a", holds=UNBOUNDED, least=0.0), (np.inf, 0.0), (-1.0, np.nan)),
        (Field("a", least=0.0, most=2.0), (0.0, 2.0), (-0.1, 2.1, np.nan)),
        (Field("a", holds=INDEX), (0.0, 3.0), (4.0, -1.0, 0.5, np.nan, 1e300)),
        (Field("a", holds=COUNT), (0.0, 4.0), (5.0, -1.0, 0.5, np.nan, np.inf)),
        (Field("a", holds=INTEGER, least=-1.0, most=9.0), (-1.0, 9.0), (10.0, 0.5, np.nan)),
        (Field("a", holds=INTEGER), (-5.0,), (1e300, np.inf)),
    ],
)
def test_each_kind_of_field(field, good, bad):
    row, scalar = Layout(rows=("w", field)), Layout(rows=("w",), scalars=(field,))
    for value in (*good, *bad):
        theta, zeros = np.zeros((3, 2, 4)), np.zeros((3, 1, 4))
        theta[2, 1, 3] = value
        scalars = np.array([[0.0], [0.0], [value]])
        for layout, arrays in ((row, (theta, np.empty((3, 0)))), (scalar, (zeros, scalars))):
            if value in good:
                check_vectors(layout, *arrays)
            else:
                with pytest.raises(DataError, match=r"peer: found .* for `a`, expected"):
                    check_vectors(layout, *arrays, "peer")


def test_a_list_must_name_fields_of_the_layout():
    with pytest.raises(ValueError, match="'used'"):
        Layout(rows=("w",), scalars=("n",), lists=(FeatureList("used", "n"),))


def test_a_message_is_checked_by_what_the_layout_sends():
    layout = Layout(
        rows=("w", Field("noise", LOCAL)),
        scalars=("seen", Field("top", LARGEST), Field("own", LOCAL)),
    )
    check_message(layout, np.ones((1, 4)), np.ones(2))
    for rows, scalars in (
        (np.ones((2, 4)), np.ones(2)),
        (np.ones((1, 4)), np.ones(3)),
        (np.ones((1, 4), np.float32), np.ones(2)),
        (np.ones(4), np.ones(2)),
        (np.full((1, 4), np.nan), np.ones(2)),
        (np.ones((1, 4)), np.array([0.0, np.inf])),
    ):
        with pytest.raises(DataError, match="peer eu: found"):
            check_message(layout, rows, scalars, "peer eu")


def test_what_messages_of_its_own_hold_can_be_declared():
    layout = Layout(rows=("w",), message=(Field("counts", least=0.0), LOG))
    assert layout.message_rows == (0, LOG)
    check_message(layout, np.zeros((2, 3)), np.empty(0))
    with pytest.raises(DataError, match="`counts`"):
        check_message(layout, np.full((2, 3), -1.0), np.empty(0))
