"""Linking without LLVM: the same code as with it, and never what is not understood."""

from __future__ import annotations

import ctypes
import math
import platform
import sys

import pytest

from ddol.compiled import INTERPRETED, linking, store
from ddol.compiled.linking import NotSimpleError, link
from ddol.compiled.target import level_of, target

pytestmark = [
    pytest.mark.skipif(INTERPRETED, reason="nothing is compiled"),
    pytest.mark.skipif(
        sys.platform != "linux" or platform.machine() != "x86_64", reason="LLVM links there"
    ),
]
KIND = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_double, ctypes.c_void_p)
CALLS = [
    lambda z, y, p: math.exp(z) * y + 0.25,
    lambda z, y, p: math.log1p(z) + math.pow(y, z) if z > 0.5 else -y,
]


@pytest.fixture(params=CALLS, ids=["exp", "pow"], scope="module")
def stored(request):
    """A function, and its symbol and object code."""
    from ddol.compiled import compiler

    arguments = ("double", "double", "double*")
    made = compiler.compile_function(request.param, "double", arguments, part=True)
    return request.param, made.symbol, made.machine_code


def test_the_code_is_the_one_that_llvm_links(stored):
    function, symbol, code = stored
    ours, theirs = link(symbol, code), store._linked_by_llvm("a name", symbol, code)
    for z in (0.0, 0.7, 3.25):
        found = KIND(ours.address)(z, 2.5, None)
        assert found == KIND(theirs.address)(z, 2.5, None)
        assert found == pytest.approx(function(z, 2.5, None))


def test_what_is_not_understood_is_left_to_llvm(stored, monkeypatch):
    function, symbol, code = stored
    with pytest.raises(NotSimpleError, match="another processor"):
        link(symbol, code[:18] + b"\xb7\x00" + code[20:])
    with pytest.raises(NotSimpleError, match="another format"):
        link(symbol, b"\xcf\xfa\xed\xfe" + code[4:])
    with pytest.raises(NotSimpleError):
        link("another symbol", code)
    monkeypatch.setattr(linking, "_WHOLE_ADDRESS", 2)
    with pytest.raises(NotSimpleError, match="part of an address"):
        link(symbol, code)
    loaded = store.load("a name", symbol, code)
    assert KIND(loaded.address)(0.25, 2.0, None) == pytest.approx(function(0.25, 2.0, None))


def test_code_that_was_cut_is_not_linked(stored):
    _, symbol, code = stored
    for length in (0, 10, 70, len(code) // 2, len(code) - 1):
        with pytest.raises(NotSimpleError):
            link(symbol, code[:length])


def test_linux_tells_of_the_processor_what_llvm_does():
    import llvmlite.binding as llvm

    present = {name for name, here in llvm.get_host_cpu_features().items() if here}
    assert target().cpu == level_of(present) and target().triple == llvm.get_process_triple()
