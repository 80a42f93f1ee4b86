"""Numbers are predicted within the range of the labels that were seen, by every agent of a network."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ddol
from ddol.engines.learner import Learner
from ddol.streams.rows import Rows
from ddol.update.answers import HIGHEST, LOWEST

PRESETS = [ddol.adaptive, ddol.coin, ddol.newton, lambda *a, **k: ddol.newton(*a, rank=2, **k)]
rng = np.random.default_rng(0)
X = rng.standard_normal((300, 3))
Y = X @ [1.0, -2.0, 0.5] + 0.1 * rng.standard_normal(300)
FAR = 20.0 * X


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("network", [1, 3, ddol.ring(4)])
def test_predictions_stay_in_the_range_of_labels(tmp_path, preset, network):
    trace = ddol.run(preset("squared"), (X, Y), network)
    trace.model().save(tmp_path / "m.ddol")
    said = ddol.load(tmp_path / "m.ddol").predict(FAR)
    assert said.min() == pytest.approx(Y.min()) and said.max() == pytest.approx(Y.max())
    free = ddol.run(preset("squared", clip=False), (X, Y), network).model().predict(FAR)
    assert free.min() < 1.2 * Y.min() and free.max() > 1.2 * Y.max()


def test_sparse_rows_are_clipped_too():
    from scipy.sparse import csr_matrix

    model = ddol.run(ddol.adaptive("squared"), (csr_matrix(X), Y)).model()
    np.testing.assert_allclose(model.predict(csr_matrix(FAR)), model.predict(FAR))


def test_before_any_label_nothing_is_clipped_and_a_run_goes_on_with_its_range():
    update = ddol.adaptive("squared").update
    vector = update.start(3)
    assert update.range_of(vector.scalars) == (-math.inf, math.inf)
    learner = Learner(ddol.adaptive("squared").on(2))
    learner.learn(Rows.from_dense(X, Y))
    state = learner.state()
    later = Learner(ddol.adaptive("squared").on(2), state=state)
    later.learn(Rows.from_dense(X[:2], 0.0 * Y[:2]))
    found = later.state().scalars[0, 0]
    assert (-found[LOWEST], found[HIGHEST]) == (Y.min(), Y.max())


def test_what_was_learned_without_a_range_begins_none():
    update = ddol.adaptive("squared").update
    learner = Learner(ddol.adaptive("squared").on(1))
    learner.learn(Rows.from_dense(X, Y))
    state = learner.state()
    state.scalars[..., [HIGHEST, LOWEST]] = -math.inf  # as of a file of an earlier version
    later = Learner(ddol.adaptive("squared").on(1), state=state)
    later.learn(Rows.from_dense(X[:9], Y[:9]))
    assert update.range_of(later.state().scalars[0, 0]) == (-math.inf, math.inf)


def test_a_score_beyond_the_range_comes_back():
    """The slope is that at the clipped score: of a loss that goes on straight beyond the range."""
    y = np.concatenate([rng.choice([-1.0, 1.0], 50), np.full(400, -1.0)])
    x = np.ones((450, 1)) * np.where(np.arange(450) < 50, y, 8.0)[:, None]
    trace = ddol.run(ddol.adaptive("squared"), (x, y))
    assert trace.model().predict([[8.0]])[0] < 0.0
