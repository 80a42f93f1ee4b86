"""Functions are known by what they say: the same text is the same code, an edit is another."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ddol.compiled import inner
from ddol.compiled.digest import UnknownError, digest


def made(source, **names):
    """The function `f` of some source, with globals of its own."""
    found = {"math": math, "inner": inner, **names}
    exec(source, found)
    return found["f"]


PLAIN = "def f(z, p):\n    return z * FACTOR\n"
CALLING = "@inner\ndef g(z):\n    return z + {}\n\ndef f(z, p):\n    return g(z)\n"


def test_the_same_text_at_another_place_is_the_same():
    below = "\n\n# a remark\n" + PLAIN
    assert digest(made(PLAIN, FACTOR=2.0)) == digest(made(below, FACTOR=2.0))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (made(PLAIN, FACTOR=2.0), made(PLAIN, FACTOR=3.0)),
        (made(PLAIN, FACTOR=2.0), made(PLAIN, FACTOR=2)),
        (made(PLAIN, FACTOR=np.ones(2)), made(PLAIN, FACTOR=np.ones(3))),
        (made(CALLING.format(1)), made(CALLING.format(2))),
        (made("f = lambda z, p: math.sinh(z)"), made("f = lambda z, p: math.asinh(z)")),
    ],
    ids=["a constant", "its type", "an array", "a function that it calls", "a name"],
)
def test_an_edit_is_another_function(one, other):
    assert digest(one) != digest(other)


def test_closures_differ_by_what_they_hold():
    def scaled(factor):
        return lambda z: factor * z

    assert digest(scaled(1.0)) == digest(scaled(1.0)) != digest(scaled(2.0))


def test_functions_that_call_each_other_end():
    source = (
        "@inner\ndef g(z):\n    return h(z)\n\n@inner\ndef h(z):\n    return g(z)\n\n"
        "def f(z):\n    return g(z)\n"
    )
    assert digest(made(source)) == digest(made(source))


def test_what_cannot_be_told_is_said():
    with pytest.raises(UnknownError):
        digest(made(PLAIN, FACTOR=object()))


def test_circumstances_count():
    function = made(PLAIN, FACTOR=1.0)
    assert digest(function, "avx2") != digest(function, "avx512")
