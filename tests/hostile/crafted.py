"""Models and checkpoints whose checksum is right and that lie: refused in one line, or used as they are."""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner
from safetensors import safe_open

from ddol.cli.app import app
from ddol.storage import write_arrays

File = tuple[dict[str, Any], dict[str, np.ndarray]]
LIES: tuple[Any, ...] = (
    None, True, 0, 1, -1, 2, 7, 2**31, 2**34, 2**63 - 1, 2**63, -(2**63), 10**30, float("nan"),
    float("inf"), 0.5, 1e308, "", "x", "0", "\x1b[31m", 10**5 * "a", [], {}, [0], [[]], ["x"], {"a": 1},
)  # fmt: skip
NUMBERS = (np.nan, np.inf, 0.0, -1.0, 1e308, 2.0**62, 0.5)
COUNTS = (0, -1, 1, 2, 5, 2**31, 2**62, 2**63 - 1, -(2**63))
TABLE = "a,b,town,label\n" + "".join(
    f"{7 * k % 5},{k % 3},{'xyz'[k % 3]},{('no', 'yes', 'maybe')[k % 3 if k % 5 else 0]}\n"
    for k in range(120)
)
TEXT = "".join(f"{1 if k % 3 else -1} 1:{k % 5} 3:{k % 7}\n" for k in range(120))
RUNS = (
    "t.csv --algorithm adaptive --agents 4 --topology ring --loss logistic",
    "t.libsvm --algorithm dogd --agents 4 --topology path --schedule async --latency exponential:2",
    "t.libsvm --algorithm dwm-i --agents 4 --topology ring --experts 3",
    "t.csv --algorithm dogd --agents 2 --passes 2 --shuffle --holdout 0.2 --bits 6",
    "t.libsvm --algorithm dogd --agents 4 --topology ring --query 0.5 --delay 2",
    "t.libsvm --algorithm newton --agents 2",
    "t.csv --statistics own --agents 2 --safe --memory auto",
    "t.libsvm --privacy epsilon:4,public:5 --agents 3 --topology ring",
)


def crafted_models(first: int, tries: int) -> dict[str, str]:
    """Predict with them, look at them, go on from them."""

    def made(run: str, name: str) -> Path:
        assert _said(f"train {run} --model {name}") == ""
        return Path(name)

    def used(run: str, draw: random.Random) -> str:
        Path("bad.kept").rename("bad")
        data = run.split()[0]
        agent = f"predict bad {data} --agent {draw.choice(('0', '3', '999999', 'x'))}"
        ways = (f"predict bad {data}", agent, "inspect bad", f"evaluate bad {data}")
        return _said(draw.choice((*ways, f"train {run} --initial bad")))

    return _tried(first, tries, made, used)


def crafted_checkpoint_files(first: int, tries: int) -> dict[str, str]:
    """Resume from them."""

    def made(run: str, name: str) -> Path:
        assert _said(f"train {run} --checkpoint {name} --every 40") == ""
        return min(Path(name).glob("*.safetensors"), key=lambda path: path.stat().st_mtime_ns)

    def used(run: str, draw: random.Random) -> str:
        shutil.rmtree("folder", ignore_errors=True)
        Path("folder").mkdir()
        Path("bad.kept").rename("folder/checkpoint-10.safetensors")
        return _said(f"train {run} --checkpoint folder --every 40 --resume")

    return _tried(first, tries, made, used)


def _tried(
    first: int,
    tries: int,
    made: Callable[[str, str], Path],
    used: Callable[[str, random.Random], str],
) -> dict[str, str]:
    wrong = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("t.csv").write_text(TABLE)
        Path("t.libsvm").write_text(TEXT)
        whole = [_parts(made(run, f"whole{k}")) for k, run in enumerate(RUNS)]
        for number in range(first, first + tries):
            print("at", number, flush=True)
            draw, k = random.Random(number), number % len(RUNS)
            (header, arrays), said = _lying(whole[k], draw)
            kind = str(header.pop("kind", "model"))
            write_arrays("bad.kept", kind, arrays, header)
            if found := used(RUNS[k], draw):
                wrong[f"{number} {said}"] = found
        os.chdir("/")
    return wrong


def _parts(path: Path) -> File:
    with safe_open(path, framework="numpy") as file:
        header = json.loads(file.metadata()["ddol"])
        return header, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def _said(command: str) -> str:
    """What is wrong with the end of a command, if anything."""
    done = CliRunner().invoke(app, command.split() + ["--quiet"] * command.startswith("train"))
    lines = [line for line in done.stderr.splitlines() if line.startswith("ddol: ")]
    if "\x1b" in done.output or "Traceback" in done.stderr:
        return f"an escape or a traceback: {done.stderr[-200:]}"
    # A number that is very large is still a number.
    if done.exit_code == 0 or (done.exit_code == 1 and "left the range of numbers" in done.stderr):
        return ""
    if done.exit_code == 2 and len(lines) == 1 and len(lines[0]) < 5000:
        return ""
    return f"exit code {done.exit_code}: {done.stderr[-200:]}{done.exception!r}"


def _lying(whole: File, draw: random.Random) -> tuple[File, str]:
    """A file in which one to three things are others, and which they are."""
    header, arrays = copy.deepcopy(whole[0]), dict(whole[1])
    said = []
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        if draw.random() < 0.5:
            said.append(_lie(header, draw))
        else:
            name = draw.choice(sorted(arrays))
            arrays[name] = _other(arrays[name], draw)
            said.append(name)
    return (header, arrays), ", ".join(said)


def _lie(header: dict[str, Any], draw: random.Random) -> str:
    """Put another value somewhere into a header, or nothing."""
    owner, name = header, draw.choice(sorted(set(header) - {"kind", "format"}))
    place = name
    while isinstance(owner[name], dict | list) and owner[name] and draw.random() < 0.8:
        owner = owner[name]
        name = draw.choice(sorted(owner) if isinstance(owner, dict) else range(min(len(owner), 8)))
        place = f"{place}.{name}"
    old = owner[name]
    if isinstance(owner, dict) and draw.random() < 0.1:
        del owner[name]
    elif draw.random() < 0.1:
        owner[name] = json.loads(300 * "[" + 300 * "]")
    elif type(old) is int and draw.random() < 0.4:
        owner[name] = old + draw.choice((-1, 1, 100))
    elif isinstance(old, list) and draw.random() < 0.5:
        owner[name] = draw.choice((old[:-1], old + old[:1], old[::-1], 3 * old))
    else:
        owner[name] = copy.deepcopy(draw.choice(LIES))
    return place


def _other(array: np.ndarray, draw: random.Random) -> np.ndarray:
    """An array of another shape, of another type, or with other numbers."""
    axis = draw.randrange(max(array.ndim, 1))
    kinds = ("float64", "int64", "uint8", "bool", "uint32")
    ways: tuple[Callable[[], np.ndarray], ...] = (
        lambda: np.zeros((2**34, *(0 for _ in array.shape[1:]), 0), array.dtype),
        lambda: np.nan_to_num(array).astype(draw.choice(kinds)),
        lambda: np.repeat(array, 2, axis),
        lambda: np.take(array, range(max(0, array.shape[axis] - 1)), axis),
        lambda: array.reshape(-1),
        lambda: array[None],
    )
    if array.size and draw.random() < 0.5:
        changed = array.copy()
        values = (
            NUMBERS
            if array.dtype.kind == "f"
            else COUNTS
            if array.dtype == np.int64
            else (0, 1, 27)
        )
        changed.reshape(-1)[draw.randrange(array.size)] = draw.choice(values)
        return changed
    return np.ascontiguousarray(draw.choice(ways)())
