"""Object code on disk: found again, never trusted when damaged, and no Numba where all is there."""

from __future__ import annotations

import math
import os
import stat
import subprocess
import sys

import pytest

from ddol.compiled import INTERPRETED, scalar, store
from ddol.compiled import folder as folder_module
from ddol.compiled.folder import Folder

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
    kept = folder / "compiled"
    return list(kept.iterdir()) if kept.exists() else []


def test_a_second_process_loads_and_imports_no_compiler(tmp_path):
    assert play(tmp_path) == ["3.0", "True"]
    assert play(tmp_path) == ["3.0", "False"]
    assert play(tmp_path, more=2.0) == ["4.0", "True"]
    assert len(files(tmp_path)) == 2


def test_a_first_run_loads_what_it_has_stored(tmp_path, monkeypatch):
    """Code that was compiled in memory may round otherwise."""
    monkeypatch.setenv("DDOL_CACHE_DIR", str(tmp_path))
    put, load, seen = store.put, store.load, []
    monkeypatch.setattr(store, "put", lambda *given: seen.append(given) or put(*given))
    monkeypatch.setattr(store, "load", lambda *given: seen.append(given) or load(*given))
    scalar(lambda z, y, p: math.exp(z) * y + 0.123, "value(z, y, p)")
    stored, loaded = seen
    assert stored == loaded and stored[2]


@pytest.mark.parametrize("damage", ["empty", "short", "changed"])
def test_what_is_damaged_is_compiled_anew(tmp_path, damage):
    play(tmp_path)
    (file,) = files(tmp_path)
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes({"empty": b"", "short": bytes(data[:-100]), "changed": bytes(data)}[damage])
    assert play(tmp_path) == ["3.0", "True"]
    assert play(tmp_path) == ["3.0", "False"]


posix = pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
as_root = pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() != 0, reason="gives files to another user"
)
SOMEBODY = 12345


@posix
@pytest.mark.parametrize("place", [".", "compiled"])
def test_a_folder_that_others_can_write_to_is_not_used(tmp_path, place):
    cache = tmp_path / "cache"
    play(cache)
    (cache / place).chmod(stat.S_IRWXU | stat.S_IWOTH)
    assert play(cache) == ["3.0", "True"]


@as_root
@pytest.mark.parametrize("place", [".", "cache", "cache/compiled"])
def test_whoever_owns_a_folder_above_cannot_bring_his_own_code(tmp_path, place):
    play(tmp_path / "cache")
    os.chown(tmp_path / place, SOMEBODY, SOMEBODY)
    assert play(tmp_path / "cache") == ["3.0", "True"]


@as_root
def test_code_that_somebody_else_wrote_is_compiled_anew(tmp_path):
    play(tmp_path)
    (file,) = files(tmp_path)
    os.chown(file, SOMEBODY, SOMEBODY)
    assert play(tmp_path) == ["3.0", "True"]


@posix
def test_a_folder_is_held_while_another_takes_its_name(tmp_path):
    folder = Folder(tmp_path / "own")
    folder.write("code", b"mine")
    (tmp_path / "own").rename(tmp_path / "moved")
    Folder(tmp_path / "own").write("code", b"theirs")
    assert folder.read("code") == b"mine"


def test_without_a_place_everything_works(tmp_path):
    (tmp_path / "file").write_text("")
    assert play(tmp_path / "file") == ["3.0", "True"]


@posix
def test_without_a_home_there_is_a_temporary_cache(tmp_path):
    elsewhere = {"HOME": "/dev/null", "TMPDIR": str(tmp_path)}
    unset = dict.fromkeys(("DDOL_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"), "")
    code = PART.format(more=1.0)
    assert run(code, **elsewhere, **unset) == ["3.0", "True"]
    assert run(code, **elsewhere, **unset) == ["3.0", "False"]
    assert len(files(tmp_path / f"ddol-{os.getuid()}")) == 1


ENTRY = """
import resource, sys
from ddol.compiled import entry, floats

@entry("double(int64)")
def first(address):
    return floats(address)[0] + 1.0

if {limit}:
    resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
import numpy as np
sys.stderr = sys.stdout
numbers = np.ones(1)
print(first(numbers.ctypes.data))
"""


@posix
def test_a_full_disk_leaves_nothing_and_is_told(tmp_path):
    said = " ".join(run(ENTRY.format(limit=50), DDOL_CACHE_DIR=str(tmp_path)))
    assert "compiled code cannot be kept" in said and said.endswith("2.0")
    assert files(tmp_path) == []


@posix
def test_what_is_promised_about_later_runs_is_true(tmp_path):
    cache = tmp_path / "cache"
    said = " ".join(run(ENTRY.format(limit=0), DDOL_CACHE_DIR=str(cache)))
    assert "later runs start at once" in said
    assert run(ENTRY.format(limit=0), DDOL_CACHE_DIR=str(cache)) == ["2.0"]
    cache.chmod(0o777)
    said = " ".join(run(ENTRY.format(limit=0), DDOL_CACHE_DIR=str(cache)))
    assert "in memory only (other users can write to" in said and "later runs" not in said


def test_what_a_killed_process_left_is_removed_after_a_while(tmp_path):
    folder = Folder(tmp_path)
    for name in ("old.1.part", "new.2.part", "code"):
        folder.write(name, b"")
    os.utime(tmp_path / "old.1.part", (0, 0))
    assert folder.names() == ["code"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["code", "new.2.part"]


def test_shipped_code_needs_no_compiler(tmp_path):
    """As if the package had been built with this function in it."""
    ship = f"""
import os
from pathlib import Path
from ddol.compiled import store
store.SHIPPED = Path({str(tmp_path)!r}) / "shipped"
store.SHIPPED.mkdir(exist_ok=True)
"""
    keep = """
from ddol.compiled import parts
for name in list(parts._loaded):
    assert store.ship(name, store.SHIPPED)
"""
    code = ship + PART.format(more=1.0)
    assert run(code + keep, DDOL_CACHE_DIR=str(tmp_path / "one")) == ["3.0", "True"]
    assert run(code, DDOL_CACHE_DIR=str(tmp_path / "other")) == ["3.0", "False"]


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


@posix
def test_two_processes_compile_a_function_once(tmp_path):
    """As the ranks of a job would: the second waits, and finds it."""
    code = ENTRY.format(limit=0) + "\nprint('numba' in sys.modules)"
    jobs = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, "DDOL_CACHE_DIR": str(tmp_path)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    said = [job.communicate()[0].split()[-2:] for job in jobs]
    assert sorted(said) == [["2.0", "False"], ["2.0", "False"], ["2.0", "True"]]
    assert len(files(tmp_path)) == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_nobody_waits_for_a_pipe_or_for_somebody_who_was_stopped(tmp_path, monkeypatch):
    folder = Folder(tmp_path)
    os.mkfifo(tmp_path / "code", 0o600)
    assert folder.read("code") is None
    monkeypatch.setattr(folder_module, "_LONGEST_WAIT", 0.05)
    with folder.alone("code"), Folder(tmp_path).alone("code"):
        pass
