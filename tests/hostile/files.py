"""Files that were damaged may be refused, in one line, or give what they gave before; nothing else."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
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
from ddol.engines.state import State
from ddol.model import load, model_of
from ddol.schedules.events import FIELDS, Events
from ddol.schedules.recording import load_events, save_events
from ddol.schedules.schedule import Schedule
from ddol.streams import DataError, array_stream
from ddol.streams.coding.encoding import Encoding

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


def _mutated(save: Callable[[Path], None], use: Callable[[Path], bytes], first: int, tries: int):
    """What is found wrong with a file that is damaged again and again."""
    wrong = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "whole")
        save(path)
        content, expected = path.read_bytes(), use(path)
        for number in range(first, first + tries):
            way, data = damaged(content, number)
            said = _try(Path(folder, "damaged"), data, expected, use)
            if said:
                wrong[f"{number} {way}"] = said
    return wrong


def mutated_models(first: int, tries: int) -> dict[str, str]:
    """Models, damaged."""
    numbered = Encoding(n_features=4, classes=("no", "yes"), intercept=False)
    model = model_of(ddol.run(ddol.adaptive().on(ddol.ring(3)), (X, Y)), numbered)
    return _mutated(
        model.save, lambda path: load(path).decision_function(X).tobytes(), first, tries
    )


def mutated_traces(first: int, tries: int) -> dict[str, str]:
    """Traces, damaged."""
    trace = ddol.run(ddol.dogd().on(ddol.ring(3)), (X, Y))

    def read(path: Path) -> bytes:
        found = ddol.Trace.load(path)
        return (
            found.weights.tobytes() + found.curves.loss.tobytes() + repr(found.algorithm).encode()
        )

    return _mutated(trace.save, read, first, tries)


def mutated_recordings(first: int, tries: int) -> dict[str, str]:
    """Recordings of what happened, damaged, and played again."""
    algorithm = ddol.dogd(l2=0.0).on(ddol.ring(3))
    events = ddol.run(algorithm, (X, Y), schedule="async", record=True).events

    def replayed(path: Path) -> bytes:
        trace = ddol.run(algorithm, (X, Y), replay=load_events(path))
        return trace.weights.tobytes() + trace.loss.tobytes()

    return _mutated(lambda path: save_events(path, events), replayed, first, tries)


def crafted_checkpoints(first: int, tries: int) -> dict[str, str]:
    """Checkpoints whose checksum is right and whose arrays have other shapes, types or values."""
    with tempfile.TemporaryDirectory() as folder:
        saved = [read_checkpoint(_checkpoint(Path(folder), a)) for a in ALGORITHMS]

    def go_on(state: State, number: int, draw: np.random.Generator) -> None:
        k = number % len(ALGORITHMS)
        learner = Learner(ALGORITHMS[k], Setup(seed=3))
        resume(learner, replace(saved[k], state=state))
        learner.follow(Feed([array_stream(X, Y)], block_rounds=5), learner.position)
        learner.trace()

    return _crafted([checkpoint.state for checkpoint in saved], go_on, first, tries)


def crafted_event_states(first: int, tries: int) -> dict[str, str]:
    """States with other shapes, types or values, from which a schedule is to go on."""
    algorithm = ddol.dogd(l2=0.1).on(ddol.path(3))
    state = ddol.run(algorithm, (X, Y), schedule="async").state

    def go_on(other: State, number: int, draw: np.random.Generator) -> None:
        schedule = Schedule(str(draw.choice(["async", "gossip", "push-sum"])))
        learner = Learner(algorithm, Setup(schedule=schedule), other)
        learner.follow(Feed([array_stream(X, Y)]))
        learner.trace()

    return _crafted([state], go_on, first, tries)


def _crafted(
    states: Sequence[State],
    go_on: Callable[[State, int, np.random.Generator], None],
    first: int,
    tries: int,
) -> dict[str, str]:
    """Go on from states of which one array is another, each in its turn: what is not one line of ours."""
    wrong = {}
    names = [f.name for f in fields(states[0]) if f.name not in ("pending", "seed", "t")]
    for number in range(first, first + tries):
        draw, state = np.random.default_rng(number), states[number % len(states)]
        name = names[int(draw.integers(len(names)))]
        try:
            go_on(replace(state, **{name: _other(getattr(state, name), draw)}), number, draw)
        except (DataError, FloatingPointError):
            continue
        except Exception as error:
            wrong[f"{number} {name}"] = f"{type(error).__name__}: {error}"
    return wrong


def crafted_recordings(first: int, tries: int) -> dict[str, str]:
    """Recordings whose checksum is right and that tell of what cannot have happened."""
    wrong = {}
    algorithm = ddol.dogd(l2=0.0).on(ddol.ring(3))
    events = ddol.run(algorithm, (X, Y), schedule="async", record=True).events
    for number in range(first, first + tries):
        draw = np.random.default_rng(number)
        arrays = {name: array.copy() for name, array in vars(events).items() if name in FIELDS}
        for _ in range(int(draw.integers(1, 4))):
            column = arrays[str(draw.choice(list(arrays)))]
            column[draw.integers(len(column))] = draw.choice([-1, 0, 1, 2, 7, 119, 120, 127])
        try:
            ddol.run(algorithm, (X, Y), replay=Events(**arrays))
        except DataError as error:
            if "\n" in str(error):
                wrong[str(number)] = "an error of several lines"
        except Exception as error:
            wrong[str(number)] = f"{type(error).__name__}: {error}"
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
