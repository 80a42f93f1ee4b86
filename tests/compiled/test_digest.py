"""Functions are known by what they say: the same text is the same code, an edit is another."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest

from ddol.compiled import inner
from ddol.compiled.digest import UnknownError, digest


def made(source, **names):
    """The function `f` of some source, with globals of its own."""
    found = {"math": math, "inner": inner, "__name__": "somewhere", **names}
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


# --- what is called counts, however it is decorated ---------------------------------------------

DECORATED = {
    "register_jitable": "@register_jitable\ndef g(z):\n    return {}\n",
    "register_jitable with options": "@register_jitable(fastmath=True)\ndef g(z):\n    return {}\n",
    "overload": (
        "def g(z):\n    pass\n"
        "@overload(g)\ndef o(z):\n    def made(z):\n        return {}\n    return made\n"
    ),
    "vectorize": "@vectorize(['float64(float64)'])\ndef g(z):\n    return {}\n",
    "vectorize when called": "@vectorize\ndef g(z):\n    return {}\n",
    "njit": "@njit\ndef g(z):\n    return {}\n",
    "inner": "@inner\ndef g(z):\n    return {}\n",
    "plain": "def g(z):\n    return {}\n",
    "cfunc": "@cfunc('float64(float64)')\ndef g(z):\n    return {}\n",
    "an intrinsic": "@intrinsic\ndef g(typing, z):\n    return {}\n",
    "another that it calls": (
        "@njit\ndef h(z):\n    return {}\n@register_jitable\ndef g(z):\n    return h(z)\n"
    ),
}
CALLER = "\ndef f(z, y, p):\n    return g(z)\n"


def numba_names():
    import numba
    from numba import extending

    names = {name: getattr(numba, name) for name in ("njit", "vectorize", "cfunc")}
    return names | {n: getattr(extending, n) for n in ("register_jitable", "overload", "intrinsic")}


@pytest.mark.parametrize("source", DECORATED.values(), ids=DECORATED)
def test_what_is_called_counts(source):
    names = numba_names()
    one, again, other = (
        made(source.format(said) + CALLER, **names) for said in ("z+1", "z+1", "z+2")
    )
    assert digest(one) == digest(again) != digest(other)


def test_options_of_a_decorator_count():
    source = "@njit{}\ndef g(z):\n    return z\n" + CALLER
    names = numba_names()
    assert digest(made(source.format(""), **names)) != digest(
        made(source.format("(fastmath=True)"), **names)
    )


def test_a_class_that_numba_compiles_is_not_told_by_its_name():
    from numba.experimental import jitclass

    source = "@jitclass([])\nclass g:\n    def __init__(self):\n        pass\n" + CALLER
    with pytest.raises(UnknownError):
        digest(made(source, jitclass=jitclass))


def test_members_of_an_enumeration_and_modules_in_modules_count():
    import enum
    import types

    def within(value):
        outer, sub = types.ModuleType("outer"), types.ModuleType("outer.sub")
        outer.sub, sub.FACTOR = sub, value
        return made("def f(z):\n    return z * outer.sub.FACTOR\n", outer=outer)

    assert digest(within(1.0)) == digest(within(1.0)) != digest(within(2.0))
    kinds = [enum.IntEnum("Kind", {"A": k}) for k in (1, 1, 2)]
    found = [digest(made("def f(z):\n    return z * Kind.A\n", Kind=kind)) for kind in kinds]
    assert found[0] == found[1] != found[2]


LOSS = """
import json, sys
sys.path.insert(0, sys.argv[1])
import ctypes
from ddol.compiled import scalar
import one, two
kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_double, ctypes.c_void_p)
print(json.dumps([kind(scalar(m.f, "f(z, y, p)"))(1.0, 0.0, None) for m in (one, two)]))
"""


@pytest.mark.parametrize("way", ["register_jitable", "overload", "vectorize"])
def test_code_is_that_of_the_helper_in_its_module_in_one_process_and_from_the_cache(way, tmp_path):
    """Two modules with helpers of one name; then one of them is edited."""
    start = "from numba import njit, vectorize\nfrom numba.extending import overload, register_jitable\n"

    def written(name, said):
        text = DECORATED[way].format(said)
        (tmp_path / f"{name}.py").write_text(start + text + CALLER)

    def ran():
        command = [sys.executable, "-B", "-c", LOSS, str(tmp_path)]
        around = {**os.environ, "DDOL_CACHE_DIR": str(tmp_path / "cache")}
        done = subprocess.run(command, capture_output=True, text=True, env=around, check=True)
        return json.loads(done.stdout)

    written("one", "z + 1.0")
    written("two", "z + 2.0")
    assert ran() == [2.0, 3.0]
    written("two", "z + 3.0")
    assert ran() == [2.0, 4.0]


def test_declaring_a_function_inner_later_changes_no_digest():
    """Another algorithm may do so in the same process: shipped code would not be found any more."""
    called = made(PLAIN, FACTOR=2.0)
    called.__module__ = "ddol.update.made"
    caller = made("def f(z, p):\n    return called(z, p)\n", called=called)
    before = digest(caller)
    inner(called)
    assert digest(caller) == before
