"""Runs and ranks that are killed at any moment: what is done is whole, and going on gives the same."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from tests.patience import LONG

DDOL = [sys.executable, "-m", "ddol"]
OPTIONS = ["data.libsvm", "--agents", "4", "--topology", "ring", "--passes", "60", "--quiet"]
_SAME = ("mistakes", "examples", "final_weights_norm", "mean_loss")


def _data(folder: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 8)).round(3)
    lines = [
        f"{1 if x[0] > x[1] else -1} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(x))
        for x in X
    ]
    (folder / "data.libsvm").write_text("\n".join(lines) + "\n")


def _result(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text())
    return {name: found[name] for name in _SAME if name in found}


def _ran(arguments: list[str], folder: str) -> tuple[float, str]:
    began = time.monotonic()
    done = subprocess.run([*DDOL, *arguments], cwd=folder, capture_output=True, text=True)
    return time.monotonic() - began, done.stderr if done.returncode else ""


def killed_runs(first: int, tries: int) -> dict[str, str]:
    """One process with a checkpoint, killed at any moment, then resumed: the same to the last digit."""
    wrong = {}
    with tempfile.TemporaryDirectory() as folder:
        _data(Path(folder))
        for number in range(first, first + tries):
            draw = np.random.default_rng(number)
            algorithm = str(draw.choice(["adaptive", "dogd", "newton", "coin"]))
            run = ["train", *OPTIONS, "--algorithm", algorithm]
            seconds, failed = _ran([*run, "--json", "whole"], folder)
            kept = f"kept{number}"
            run += ["--checkpoint", kept, "--every", "5000", "--json", f"again{number}"]
            job = subprocess.Popen([*DDOL, *run], cwd=folder, stderr=subprocess.DEVNULL)
            time.sleep(float(draw.uniform(0.2, 1.0)) * seconds)
            job.kill()
            ended = job.wait() == 0
            if not ended:
                Path(folder, kept).mkdir(exist_ok=True)
                _, failed = _ran([*run, "--resume"], folder)
            if failed:
                wrong[f"{number} {algorithm}"] = failed[-300:]
            elif _result(Path(folder, f"again{number}")) != _result(Path(folder, "whole")):
                wrong[f"{number} {algorithm}"] = "another result"
            elif list(Path(folder).glob(f"{kept}/.*.tmp")):
                wrong[f"{number} {algorithm}"] = "a temporary file is left"
    return wrong


COLD = """
import sys
from pathlib import Path
from ddol.compiled import store
store.SHIPPED = Path("nowhere")
from ddol.__main__ import main
sys.argv[0] = "ddol"
main()
"""
ALGORITHMS = (
    "newton",
    "adaptive",
    "coin",
    "dogd",
    "doeg",
    "p_norm",
    "dual_averaging",
    "drwm",
    "dwm_a",
)


def cold_runs(first: int, tries: int) -> dict[str, str]:
    """A run with nothing compiled before, which is killed and resumed: the bits of a later run."""
    wrong = {}
    for number in range(first, first + tries):
        algorithm = ALGORITHMS[number % len(ALGORITHMS)]
        with tempfile.TemporaryDirectory() as folder:
            _data(Path(folder))
            run = ["train", *OPTIONS, "--algorithm", algorithm]
            cold = [*run, "--checkpoint", "kept", "--every", "5000", "--model", "cold.ddol"]
            _with_empty_cache(cold, folder, until="kept/checkpoint-*")
            _with_empty_cache([*cold, "--resume"], folder)
            _with_empty_cache([*run, "--model", "warm.ddol"], folder)
            found = [Path(folder, f"{name}.ddol").read_bytes() for name in ("cold", "warm")]
            if found[0] != found[1]:
                wrong[f"{number} {algorithm}"] = "other bits"
    return wrong


def _with_empty_cache(arguments: list[str], folder: str, until: str = "") -> None:
    """Run a command with a cache that began empty and no shipped code; kill it when a file appears."""
    job = subprocess.Popen(
        [sys.executable, "-c", COLD, *arguments],
        cwd=folder,
        env={**os.environ, "DDOL_CACHE_DIR": str(Path(folder, "cache"))},
        stderr=subprocess.PIPE,
        text=True,
    )
    while until and job.poll() is None and not any(Path(folder).glob(until)):
        time.sleep(0.01)
    if until:
        job.kill()
    _, said = job.communicate()
    assert until or job.returncode == 0, said[-500:]


def killed_ranks(first: int, tries: int) -> dict[str, str]:
    """One of three ranks, killed at any moment: the others end the job with the same result."""
    wrong = {}
    with tempfile.TemporaryDirectory() as folder:
        _data(Path(folder))
        run = ["train", *OPTIONS, "--algorithm", "dogd", "--period", "16"]
        _, failed = _ran([*run, "--json", "whole"], folder)
        seconds, failed = _ran(["launch", "-n", "3", *run, "--json", "first"], folder)
        if failed:
            return {"the first": failed[-300:]}
        for number in range(first, first + tries):
            draw = np.random.default_rng(number)
            said = _one_killed(folder, [*run, "--json", f"again{number}"], draw, seconds)
            if said is not None:
                wrong[str(number)] = said
            elif Path(folder, f"again{number}").exists():
                found, whole = (_result(Path(folder, name)) for name in (f"again{number}", "whole"))
                if not all(np.allclose(found[name], whole[name], 1e-9, 0.0) for name in whole):
                    wrong[str(number)] = f"another result: {found} and {whole}"
    return wrong


def _one_killed(
    folder: str, run: list[str], draw: np.random.Generator, seconds: float
) -> str | None:
    """Kill a rank of a job; what is wrong with its end, if anything."""
    job = subprocess.Popen(
        [*DDOL, "launch", "-n", "3", *run], cwd=folder, stderr=subprocess.PIPE, text=True
    )
    time.sleep(float(draw.uniform(0.3, 1.0)) * seconds)
    ranks = _ranks(run[-1])
    if ranks:
        with contextlib.suppress(ProcessLookupError):
            os.kill(ranks[int(draw.integers(len(ranks)))], signal.SIGKILL)
    try:
        _, said = job.communicate(timeout=LONG)
    except subprocess.TimeoutExpired:
        job.kill()
        return "it hangs"
    if job.returncode == 0 or "died while the job was starting" in said:
        return None
    return f"exit code {job.returncode}: {said[-300:]}"


def _ranks(marker: str) -> list[int]:
    """Processes that learn, by a word of their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            words = (entry / "cmdline").read_bytes().decode().split("\0")
            if marker in words and words[3:4] == ["train"]:
                found.append(int(entry.name))
    return found
