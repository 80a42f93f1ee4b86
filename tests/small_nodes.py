"""Small live nodes, and examples that they learn from."""

from __future__ import annotations

import numpy as np

import ddol


def examples(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    y = X @ [1.0, -2.0, 0.5] > 0
    return [dict(zip("abc", x, strict=True)) for x in X.tolist()], y.tolist()


def make(name="eu", **options):
    return ddol.Node(name, ddol.adaptive("logistic"), **options)


def taught(name="eu", n=300, seed=0, **options):
    node = make(name, **options)
    node.learn_many(*examples(n, seed))
    return node
