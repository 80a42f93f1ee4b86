"""Campaigns against what is read: each gives the number of tries and what was found wrong.

They run in a process of their own each, so that a crash is one more finding. A file that was damaged may be
refused, in one line, or give what it gave before; nothing else.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
from tests.hostile.mutations import damaged

import ddol
from ddol.checkpoint import read_checkpoint, resume, save_checkpoint, take
from ddol.engines.feed import Feed
from ddol.engines.learner import Learner
from ddol.engines.setup import Setup
from ddol.model import load, model_of
from ddol.streams import DataError, array_stream
from ddol.streams.encoding import Encoding

rng = np.random.default_rng(0)
X = rng.standard_normal((120, 4))
Y = np.where(X @ rng.standard_normal(4) > 0, 1.0, -1.0)
ALGORITHMS = (
    ddol.dogd(l2=0.1).on(ddol.path(3), delay=2),
    ddol.adaptive().on(4),
    ddol.doeg(radius=2.0).on(ddol.ring(5), batch=2),
)


class EnoughError(Exception):
    """The run is stopped here."""


def _checkpoint(folder: Path, algorithm: ddol.Algorithm) -> Path:
    """A checkpoint in the middle of a run."""
    learner = Learner(algorithm, Setup(seed=3))

    def stop(progress) -> None:
        if progress.position is not None:
            raise EnoughError

    learner.on_progress = stop
    with suppress(EnoughError):
        learner.follow(Feed([array_stream(X, Y)], block_rounds=5))
    own = folder / algorithm.name
    own.mkdir()
    return save_checkpoint(own, take(learner))


def _played(algorithm: ddol.Algorithm, path: Path) -> bytes:
    saved = read_checkpoint(path)
    learner = Learner(algorithm, Setup(seed=3))
    resume(learner, saved)
    learner.follow(Feed([array_stream(X, Y)], block_rounds=5), learner.position)
    trace = learner.trace()
    return trace.weights.tobytes() + trace.loss.tobytes() + trace.mistakes.tobytes()


def _try(path: Path, data: bytes, expected: bytes, use: Callable[[Path], bytes]) -> str:
    """What is wrong with the treatment of a damaged file, if anything."""
    path.write_bytes(data)
    try:
        found = use(path)
    except DataError as error:
        return "" if "\n" not in str(error) else "an error of several lines"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "" if found == expected else "another result"


def mutated_checkpoints(first: int, tries: int) -> dict[str, str]:
    """Checkpoints of three algorithms, damaged."""
    wrong = {}
    with tempfile.TemporaryDirectory() as folder:
        whole = [_checkpoint(Path(folder), algorithm) for algorithm in ALGORITHMS]
        results = [_played(a, path) for a, path in zip(ALGORITHMS, whole, strict=True)]
        contents = [path.read_bytes() for path in whole]
        for number in range(first, first + tries):
            k = number % len(ALGORITHMS)
            way, data = damaged(contents[k], number)
            said = _try(
                Path(folder, "damaged"), data, results[k], lambda p, k=k: _played(ALGORITHMS[k], p)
            )
            if said:
                wrong[f"{number} {way}"] = said
    return wrong


def mutated_models(first: int, tries: int) -> dict[str, str]:
    """Models of two kinds, damaged."""
    wrong = {}
    numbered = Encoding(n_features=4, classes=("no", "yes"), intercept=False)
    model = model_of(ddol.run(ddol.dogd(), (X, Y)), numbered)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        model.save(path)
        content = path.read_bytes()

        def predicted(path: Path) -> bytes:
            return repr(load(path).predict(X).tolist()).encode()

        expected = predicted(path)
        for number in range(first, first + tries):
            way, data = damaged(content, number)
            said = _try(Path(folder, "damaged"), data, expected, predicted)
            if said:
                wrong[f"{number} {way}"] = said
    return wrong


def crafted_checkpoints(first: int, tries: int) -> dict[str, str]:
    """Checkpoints whose checksum is right and whose arrays have other shapes, types or values."""
    wrong = {}
    with tempfile.TemporaryDirectory() as folder:
        saved = [read_checkpoint(_checkpoint(Path(folder), a)) for a in ALGORITHMS]
    names = [f.name for f in fields(saved[0].state) if f.name not in ("pending", "seed", "t")]
    for number in range(first, first + tries):
        draw = np.random.default_rng(number)
        k = number % len(ALGORITHMS)
        state, name = saved[k].state, names[int(draw.integers(len(names)))]
        state = replace(state, **{name: _other(getattr(state, name), draw)})
        learner = Learner(ALGORITHMS[k], Setup(seed=3))
        try:
            resume(learner, replace(saved[k], state=state))
            learner.follow(Feed([array_stream(X, Y)], block_rounds=5), learner.position)
            learner.trace()
        except (DataError, FloatingPointError):
            continue
        except Exception as error:
            wrong[f"{number} {name}"] = f"{type(error).__name__}: {error}"
    return wrong


def _other(array: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """An array of another shape, type or order in memory."""
    axis = int(draw.integers(array.ndim))
    ways = (
        lambda: np.repeat(array, 2, axis),
        lambda: np.take(array, np.arange(array.shape[axis] // 2), axis),
        lambda: array.astype(np.int64 if array.dtype.kind == "f" else np.float64),
        lambda: array.astype(np.float32),
        lambda: array.reshape(-1),
        lambda: np.asfortranarray(array)[..., ::-1],
        lambda: np.empty((0,) * array.ndim, array.dtype),
    )
    return ways[int(draw.integers(len(ways)))]()


CAMPAIGNS = {
    each.__name__: each for each in (mutated_checkpoints, mutated_models, crafted_checkpoints)
}


def survey(name: str, tries: int, at_a_time: int = 500) -> tuple[dict[str, str], int]:
    """Findings of a campaign, and how many of its processes crashed."""
    wrong: dict[str, str] = {}
    crashes = 0
    for first in range(0, tries, at_a_time):
        n = min(at_a_time, tries - first)
        code = (
            f"import json; from tests.hostile.campaigns import {name}; "
            f"print(json.dumps({name}({first}, {n})))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        if done.returncode == 0:
            wrong |= json.loads(done.stdout.splitlines()[-1])
        else:
            crashes += 1
            wrong[f"{first} to {first + n}"] = f"exit code {done.returncode}: {done.stderr[-200:]}"
    return wrong, crashes
