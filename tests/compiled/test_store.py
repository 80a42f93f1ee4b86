"""Object code on disk: found again, never trusted when damaged, and no Numba where all is there."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest

from ddol.compiled import INTERPRETED, store

pytestmark = pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")

PART = """
import ctypes, math, sys
from ddol.compiled import scalar

def value(z, y, p):
    return math.exp(z) * y + {more}

kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_double, ctypes.c_void_p)
found = kind(scalar(value, "value(z, y, p)"))(0.0, 2.0, None)
print(found, "numba" in sys.modules)
"""


def run(code, **variables):
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def play(folder, more=1.0):
    return run(PART.format(more=more), DDOL_CACHE_DIR=str(folder))


def files(folder):
    return list((folder / "compiled").iterdir())


def test_a_second_process_loads_and_imports_no_compiler(tmp_path):
    assert play(tmp_path) == ["3.0", "True"]
    assert play(tmp_path) == ["3.0", "False"]
    assert play(tmp_path, more=2.0) == ["4.0", "True"]
    assert len(files(tmp_path)) == 2


@pytest.mark.parametrize("damage", ["empty", "short", "changed"])
def test_what_is_damaged_is_compiled_anew(tmp_path, damage):
    play(tmp_path)
    (file,) = files(tmp_path)
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes({"empty": b"", "short": bytes(data[:-100]), "changed": bytes(data)}[damage])
    assert play(tmp_path) == ["3.0", "True"]
    assert play(tmp_path) == ["3.0", "False"]


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_a_folder_that_others_can_write_to_is_not_used(tmp_path):
    play(tmp_path)
    (tmp_path / "compiled").chmod(stat.S_IRWXU | stat.S_IWOTH)
    assert play(tmp_path) == ["3.0", "True"]


def test_without_a_place_everything_works(tmp_path):
    (tmp_path / "file").write_text("")
    assert play(tmp_path / "file") == ["3.0", "True"]


ADDRESSES = """
import ctypes, sys
import numba
import numpy as np
from ddol.compiled import scalar

cos = ctypes.CDLL(None).cos
cos.restype, cos.argtypes = ctypes.c_double, [ctypes.c_double]
many = np.full(200_000, 2.0)

def of_the_process(z, y, p):
    return cos(z) + y

@numba.njit
def helper(z):
    return cos(z)

def behind_another(z, y, p):
    return helper(z) + y

def of_memory(z, y, p):
    return many[int(z)] + y

kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_double, ctypes.c_void_p)
print(kind(scalar(SUBJECT, "value(z, y, p)"))(0.0, 2.0, None))
"""


@pytest.mark.parametrize(
    ("subject", "value"),
    [("of_the_process", "3.0"), ("behind_another", "3.0"), ("of_memory", "4.0")],
)
def test_code_with_addresses_of_its_process_is_not_kept(tmp_path, subject, value):
    code = ADDRESSES.replace("SUBJECT", subject)
    for _ in range(2):
        assert run(code, DDOL_CACHE_DIR=str(tmp_path)) == [value]
    assert not files(tmp_path)


def test_the_folder_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setenv("DDOL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(store, "_MOST_FILES", 10)
    for k in range(25):
        store.put(f"function-{k}", "f", b"code")
    assert store.holds("function-24") and not store.holds("function-0")
    assert len(files(tmp_path)) <= 10


def test_a_machine_that_has_run_before_needs_no_compiler(tmp_path):
    """Reading text, learning and writing a model, on every engine but MPI's."""
    (tmp_path / "data.libsvm").write_text("1 1:1 2:0.5\n-1 1:-1 3:2\n" * 50)
    code = f"""
import os, sys
from ddol.cli.app import app
os.chdir({str(tmp_path)!r})
for engine in ("local", "threads"):
    for algorithm in ("adaptive", "dogd"):
        options = ["--engine", engine, "--algorithm", algorithm, "--agents", "2"]
        app(["train", "data.libsvm", "--model", "m.ddol", *options], standalone_mode=False)
print("numba" in sys.modules, "scipy" in sys.modules)
"""
    run(code)
    assert run(code)[-2:] == ["False", "False"]
