"""Rows in the order of their labels are noticed at every size; rows in a chance order are not."""

from __future__ import annotations

import numpy as np
import pytest

from ddol.streams.coding.order import LabelOrder
from ddol.streams.raw import Text


def order_of(*blocks, classification=True):
    order = LabelOrder(classification)
    for block in blocks:
        order.add(block)
    return order


@pytest.mark.parametrize(
    "labels",
    [
        np.repeat([0.0, 1.0, 2.0], 50),
        np.repeat([1.0, -1.0], 5),
        np.repeat(np.arange(26.0), 40),
        np.repeat([1.0, 0.0, 1.0], [400, 500, 300]),
        Text.of(["no"] * 300 + ["yes"] * 300),
        np.array([True] * 30 + [False] * 30),
    ],
)
def test_rows_that_are_sorted_by_label_are_noticed(labels):
    assert order_of(labels).grouped
    # The same in pieces, as a pipe brings them, and with missing labels between them.
    values = labels.values if isinstance(labels, Text) else None
    whole = labels.codes if isinstance(labels, Text) else np.asarray(labels, float)
    parts = np.array_split(whole, 7)
    found = order_of(*(Text(part, values) if values else np.append(part, np.nan) for part in parts))
    assert found.grouped and found.changes == order_of(labels).changes


def test_rows_in_a_chance_order_are_not_warned_of():
    rng = np.random.default_rng(0)
    assert not any(order_of(rng.integers(0, 2, 100).astype(float)).grouped for _ in range(200))
    assert not any(order_of((rng.random(300) < 0.03).astype(float)).grouped for _ in range(200))
    few = [order_of(rng.integers(0, 2, 12).astype(float)).grouped for _ in range(500)]
    assert sum(few) < 10
    assert not order_of(np.repeat([0.0, 1.0], 3)).grouped  # one in ten orders looks so
    assert not order_of(np.zeros(500)).grouped  # one class is another matter


def test_numbers_that_only_rise_or_fall_are_noticed():
    rng = np.random.default_rng(0)
    assert order_of(np.sort(rng.random(40)), classification=False).grouped
    assert order_of(-np.sort(rng.random(40)), classification=False).grouped
    assert not order_of(rng.random(40), classification=False).grouped
    assert not order_of(np.cumsum(rng.standard_normal(400)), classification=False).grouped


def test_a_long_run_of_one_label_is_warned_of():
    rng = np.random.default_rng(0)
    order = order_of(np.concatenate([np.zeros(1500), rng.integers(0, 2, 3000)]))
    assert not order.grouped and order.suspect
    assert "the first 1,5" in order.doubt("a.csv", "shuffle")
