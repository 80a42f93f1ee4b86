"""Numba where it is not as expected, and the levels of processors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import ddol
from ddol.compiled import INTERPRETED
from ddol.compiled.target import level_of, target
from ddol.job.stopping import StoppedError

WITHOUT_A_METHOD = """
import numba.core.codegen as module
del module.CodeLibrary._get_compiled_object
import numpy as np, ddol
rng = np.random.default_rng(0)
X = rng.standard_normal((200, 3)); y = np.sign(X @ [1.0, -2.0, 0.5])
print(ddol.run(ddol.dogd(l2=0.0), (X, y), ddol.ring(2)).mistakes.sum())
"""
WITHOUT_A_NAME = """
import ctypes, sys
sys.modules["ddol.compiled.object_code"] = None  # as if one of its imports had failed
from ddol.compiled import scalar
kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_double, ctypes.c_void_p)
for shift in (1.0, 1.0):
    found = kind(scalar(lambda z, y, p: z * y + shift, "value(z, y, p)"))(2.0, 5.0, None)
print(int(found))
"""


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
@pytest.mark.parametrize("code", [WITHOUT_A_METHOD, WITHOUT_A_NAME], ids=["method", "name"])
def test_without_a_private_name_of_numba_there_is_one_warning_and_a_result(tmp_path, code):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    trace = ddol.run(ddol.dogd(l2=0.0), (X, np.sign(X @ [1.0, -2.0, 0.5])), ddol.ring(2))
    assert trace.mistakes.sum() == 11
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "DDOL_CACHE_DIR": str(tmp_path), "NUMBA_OPT": "0"},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "11\n", done.stderr
    assert done.stderr.count("is not as expected") == 1 and "numba.cfunc" in done.stderr
    assert not list((tmp_path / "compiled").iterdir())


def test_a_processor_without_one_feature_of_a_level_has_the_one_below():
    everything = {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "avx512f"}
    everything |= {"cx16", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"}
    assert level_of(everything) == "x86-64-v3"
    assert level_of(everything - {"fma"}) == "x86-64-v2"
    assert level_of(everything - {"ssse3"}) == "x86-64"
    assert target().triple


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
def test_a_signal_while_compiling_is_no_fault_of_numba(monkeypatch):
    from ddol.compiled import compiler, object_code

    def stopped(*arguments):
        raise StoppedError(signal.SIGTERM)

    monkeypatch.setattr(object_code, "compile_object", stopped)
    with pytest.raises(StoppedError):
        compiler.compile_function(lambda z: z, "double", ("double",), part=False)
