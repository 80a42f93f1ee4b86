"""Labels that contradict each other, or are no classes, are a question for arrays and frames as for files."""

import numpy as np
import pandas as pd
import pytest

import ddol
from ddol.streams.errors import DataError

X = np.random.default_rng(0).standard_normal((300, 3))
TRUE = X @ [1.0, -2.0, 0.5] > 0


def arrays(low, high):
    return X, np.where(TRUE, high, low)


def frame(low, high):
    return pd.DataFrame(X).assign(label=np.where(TRUE, high, low))


@pytest.mark.parametrize("given", [arrays, frame])
@pytest.mark.parametrize(("low", "high"), [("nein", "ja"), ("No", "Yes"), ("no", "ja")])
def test_sites_in_memory_that_spell_labels_differently_are_a_question(given, low, high):
    sites = [given("no", "yes"), given(low, high)]
    with pytest.raises(DataError, match=r"sites have different labels.*of agent 1 has"):
        ddol.run(ddol.adaptive(), sites)
    spelled = tuple(f"{one}={other}" for one, other in (("no", low), ("yes", high)) if one != other)
    mapped = ddol.run(ddol.adaptive(), sites, labels_map=spelled)
    assert mapped.error == ddol.run(ddol.adaptive(), [given("no", "yes")] * 2).error


def test_numbers_of_sites_contradict_each_other_as_words_do():
    sites = [arrays(-1, 1), arrays(0, 1)]
    with pytest.raises(DataError, match="X of agent 0 has -1, 1; X of agent 1 has 0, 1"):
        ddol.run(ddol.adaptive(), sites)
    assert ddol.run(ddol.adaptive(), sites, labels=(-1, 0, 1)).error > 0.1
    assert ddol.run(ddol.adaptive(), sites, labels_map=("-1=0",)).error < 0.1
    halves = [(X[TRUE], np.ones(TRUE.sum())), (X[~TRUE], -np.ones((~TRUE).sum()))]
    assert ddol.run(ddol.adaptive(), halves).algorithm.outputs == 1  # no doubt which two there are


def test_measurements_are_no_classes():
    with pytest.raises(
        DataError, match=r"expected classes as whole numbers or text.*`loss` squared"
    ):
        ddol.run(ddol.adaptive(), (X, X[:, 0]))
