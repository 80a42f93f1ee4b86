"""Whether sites differ by more than chance: few false alarms, and differences that cost are found."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from ddol.streams.coding.differing import difference
from ddol.streams.coding.sites import site_sample
from ddol.streams.raw import Table


def samples(columns, labels, n_sites):
    """Rows dealt to the sites in turn."""
    found = []
    for k in range(n_sites):
        table = Table({"y": labels[k::n_sites], **{c: v[k::n_sites] for c, v in columns.items()}})
        kinds = [SimpleNamespace(name=c, kind="number") for c in columns]
        found.append(SimpleNamespace(site=site_sample(table, "y", kinds)))
    return found


def drawn(rng, n):
    """Columns of many shapes: normal, heavy tails, bits, rare bits, counts, one large value, a constant."""
    lonely = np.zeros(n)
    lonely[rng.integers(n)] = 1e6
    return {
        "normal": rng.standard_normal(n),
        "heavy": rng.standard_cauchy(n),
        "bits": (rng.random(n) < 0.5) * 1.0,
        "rare": (rng.random(n) < 0.02) * 1.0,
        "counts": rng.poisson(0.3, n) * 1.0,
        "lonely": lonely,
        "huge": 1e300 * rng.standard_normal(n),
        "constant": np.full(n, 3.0),
    }


@pytest.mark.parametrize("n_sites", [2, 5, 16])
@pytest.mark.parametrize("rows", [12, 60, 400])
def test_sites_that_are_alike_hardly_ever_differ(n_sites, rows):
    alarms, rng, n = 0, np.random.default_rng(rows + n_sites), rows * n_sites
    for _ in range(100):
        found = samples(drawn(rng, n), rng.integers(3, size=n) * 1.0, n_sites)
        alarms += difference(found, [f"s{k}" for k in range(n_sites)], classes=True) is not None
    assert alarms <= 1


def test_the_largest_difference_is_named():
    rng, n = np.random.default_rng(0), 4000
    columns, y = drawn(rng, n), rng.integers(2, size=n) * 1.0
    third = np.arange(n) % 4 == 2
    names = ["a", "b", "c", "d"]
    columns["normal"] = columns["normal"] + 0.5 * third
    found = difference(samples(columns, y, 4), names, classes=True)
    assert found is not None and (found.site, found.what) == ("c", "mean of column 'normal'")
    assert found.here == pytest.approx(0.5, abs=0.1) and abs(found.elsewhere) < 0.1
    columns["bits"] = np.where(third, columns["bits"] * 4.0 - 1.5, columns["bits"])
    columns["normal"] = columns["normal"] - 0.5 * third
    found = difference(samples(columns, y, 4), names, classes=True)
    assert found is not None and found.what == "distance from the mean of column 'bits'"
    columns["bits"] = rng.random(n)
    shares = np.where(third, rng.random(n) < 0.9, y == 1.0) * 1.0
    found = difference(samples(columns, shares, 4), names, classes=True)
    assert found is not None and (found.site, found.what[:18]) == ("c", "share of the label")
    assert difference(samples(columns, shares, 4), names, classes=False) is None


def test_one_site_or_one_without_rows_is_no_difference():
    rng = np.random.default_rng(0)
    columns, y = drawn(rng, 100), np.ones(100)
    assert difference(samples(columns, y, 1), ["a"], classes=True) is None
    lacks = SimpleNamespace(site=None)
    assert difference([*samples(columns, y, 1), lacks], ["a", "b"], classes=True) is None
    assert difference([], [], classes=True) is None
