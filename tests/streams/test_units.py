"""Columns of one site in other units than those of the others."""

import numpy as np
import pytest

import ddol


def test_cells_of_very_other_units_are_reported_and_numpy_says_nothing(tmp_path):
    rng = np.random.default_rng(0)
    paths = [str(tmp_path / f"s{k}.csv") for k in range(3)]
    for k, path in enumerate(paths):
        X = rng.standard_normal((600, 2))
        X[:300, 0] *= 1e140 if k == 1 else 1.0
        np.savetxt(path, np.c_[X, X[:, 1] > 0], delimiter=",", header="a,b,label", comments="")
    with pytest.warns(UserWarning) as told:
        trace = ddol.run(ddol.adaptive(), paths)
    assert trace.error < 0.2 and {warning.category for warning in told} == {UserWarning}
    assert "s1: column 'a' has mean" in str(told[0].message)
