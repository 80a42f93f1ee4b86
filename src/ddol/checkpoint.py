"""Checkpoints: all that a run must remember, so that one that was killed goes on to the bit."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.earlier import field_names, in_place, lifted
from ddol.engines.feed import Past
from ddol.engines.learner import Learner
from ddol.engines.pace import Stopwatch
from ddol.engines.state import State, layout_of
from ddol.engines.state_checks import check_counts, check_state
from ddol.folders import KeepingPlace, folder_at
from ddol.recording import Recorder
from ddol.storage import Expected, Warn, check_arrays, damaged, read_arrays, shortened, write_arrays
from ddol.streams.errors import DataError
from ddol.streams.rows import Block, Rows
from ddol.streams.stream import Position
from ddol.version import __version__

KIND = "checkpoint"
KEPT = 2
"""Generations kept: should the newest be damaged, the one before serves."""

_NAME = re.compile(r"checkpoint-(\d+)\.safetensors")
_UNFINISHED = re.compile(r"\.?checkpoint-\d+\.safetensors\.\w+\.tmp")
_ROWS = ("data", "indices", "indptr", "y", "weight")


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stood between two blocks of rounds.

    Parameters
    ----------
    state : State
        Of all agents.
    position : Position
        Of the streams, as `Learner` has it.
    recorder : dict of arrays
        The curves so far (`Recorder.to_dict`).
    seconds : float
        Time spent so far.
    run : dict
        Options and data of the run, as plain values: another run is refused.
    facts : dict
        What was found out about the data before round 1, as plain values.
    arrays : dict of arrays
        The same in arrays, such as the experts.
    kept : dict of arrays
        What a schedule has under way: answers, messages, waiting rows, the clock.
    """

    state: State
    position: Position
    recorder: Mapping[str, np.ndarray]
    seconds: float = 0.0
    run: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    kept: Mapping[str, np.ndarray] = field(default_factory=dict)
    layout: Mapping[str, Any] = field(default_factory=dict)
    """Names of the fields that the state has; see `ddol.earlier.in_place`."""

    @property
    def rounds(self) -> int:
        """Rounds played."""
        return self.state.rounds


def take(learner: Learner, copy: bool = True, **known: Any) -> Checkpoint:
    """Checkpoint of a run, between two of its blocks.

    Parameters
    ----------
    learner : Learner
    copy : bool
        Whether it stays as it is when the learner goes on; what is written at once need not.
    **known
        ``run``, ``facts`` and ``arrays`` of `Checkpoint`.

    Examples
    --------
    >>> import ddol
    >>> from ddol.engines.setup import Setup
    >>> learner = Learner(ddol.dogd().on(2), Setup())
    >>> learner.learn(Rows.from_dense(np.eye(4), [1, -1, 1, -1]))
    >>> take(learner).rounds
    2
    """
    past, state = learner.past(), learner.state(copy)
    layout = field_names(layout_of(learner.algorithm, state.n_features))
    return Checkpoint(
        state,
        past.position,
        past.curves,
        learner.stopwatch.seconds,
        kept=past.kept,
        layout=layout,
        **known,
    )


def resume(learner: Learner, saved: Checkpoint, where: str = "the checkpoint") -> None:
    """Take a learner to where a checkpoint was made.

    Raises
    ------
    DataError
        What it holds is not what the learner's algorithm expects.

    Examples
    --------
    >>> import ddol
    >>> from ddol.engines.setup import Setup
    >>> learner = Learner(ddol.dogd().on(2), Setup())
    >>> learner.learn(Rows.from_dense(np.eye(4), [1, -1, 1, -1]))
    >>> again = Learner(learner.algorithm, Setup())
    >>> resume(again, take(learner))
    >>> again.trace().examples
    4
    """
    scheduled = learner.plan.separate
    with damaged(where, KIND):
        saved = replace(saved, state=_in_place(learner.algorithm, saved, where))
        check_state(learner.algorithm, saved.state, where, separate=scheduled)
        check_counts(where, saved.position)
        _check_curves(saved, where)
    if bool(saved.kept) != learner.plan.remembers:
        raise DataError(f"{where}: found a checkpoint of {_other(saved)}, expected one of this run")
    learner.go_back(saved.state, Past(saved.position, saved.recorder, kept=saved.kept), where)
    learner.stopwatch = Stopwatch(saved.seconds)


def _in_place(algorithm: Algorithm, saved: Checkpoint, where: str) -> State:
    """The state in the present layout."""
    state = saved.state
    if not saved.layout or state.theta.ndim != 4 or not state.n_features:
        return state
    layout = layout_of(algorithm, state.n_features)
    theta, scalars = in_place(layout, saved.layout, state.theta, state.scalars, where)
    return replace(state, theta=theta, scalars=scalars)


def _other(saved: Checkpoint) -> str:
    return "a schedule" if saved.kept else "rounds"


def _check_curves(saved: Checkpoint, where: str) -> None:
    """Refuse curves of different lengths, of other agents, or of rounds that were not played."""
    rounds = saved.recorder.get("rounds", np.empty(0))
    n, blank = len(rounds), Recorder(len(saved.state.mistakes)).to_dict()
    expected = {k: Expected(str(v.dtype), (n, *v.shape[1:])) for k, v in blank.items()}
    check_arrays(where, saved.recorder, expected)
    if n and not (rounds[0] > 0 and np.all(np.diff(rounds) > 0) and rounds[-1] <= saved.rounds):
        raise DataError(f"{where}: found curves out of order, expected rounds up to {saved.rounds}")


def save_checkpoint(folder: str | Path, checkpoint: Checkpoint) -> Path | str:
    """Write ``checkpoint-<rounds>.safetensors`` and remove all but the last two.

    Parameters
    ----------
    folder : directory, or address in a store
    checkpoint : Checkpoint

    Returns
    -------
    Path or str
        The new file.

    Examples
    --------
    >>> import tempfile
    >>> import ddol
    >>> from ddol.engines.setup import Setup
    >>> learner = Learner(ddol.dogd().on(2), Setup())
    >>> learner.learn(Rows.from_dense(np.eye(4), [1, -1, 1, -1]))
    >>> save_checkpoint(tempfile.mkdtemp(), take(learner)).name
    'checkpoint-2.safetensors'
    """
    place = folder_at(folder)
    path = place.file(f"checkpoint-{checkpoint.rounds}.safetensors")
    write_checkpoint(path, checkpoint)
    for name in _names_in(place)[:-KEPT]:
        place.remove(name)
    for name in place.names():
        if _UNFINISHED.fullmatch(name):
            place.remove(name)  # of a run that was killed while it wrote
    return path


def load_checkpoint(
    folder: str | Path,
    run: Mapping[str, Any] | None = None,
    warn: Warn = warnings.warn,
    defaults: Mapping[str, Any] | None = None,
) -> Checkpoint | None:
    """The newest checkpoint that is whole, or None where there is none at all.

    Parameters
    ----------
    folder : directory, or address in a store
    run : dict, optional
        Options and data of the present run; a checkpoint of another run is refused.
    warn : function of one line
        Told about damaged files.
    defaults : dict, optional
        Values of options that did not exist when a checkpoint was written.

    Examples
    --------
    >>> import tempfile
    >>> import ddol
    >>> from ddol.engines.setup import Setup
    >>> learner = Learner(ddol.dogd().on(2), Setup())
    >>> learner.learn(Rows.from_dense(np.eye(4), [1, -1, 1, -1]))
    >>> folder = tempfile.mkdtemp()
    >>> load_checkpoint(folder) is None
    True
    >>> path = save_checkpoint(folder, take(learner))
    >>> load_checkpoint(folder).rounds
    2
    """
    found = saved_in(folder)
    for _, path in reversed(found):
        try:
            checkpoint = read_checkpoint(path)
        except DataError as error:
            warn(f"{error}; trying the one before")
            continue
        if run is not None:
            _check_same_run(path, {**(defaults or {}), **checkpoint.run}, run)
        return checkpoint
    if found:
        raise DataError(
            f"{folder}: found {len(found)} checkpoints, none of them whole; start the run anew"
        )
    return None


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Read one checkpoint file."""
    arrays, header = read_arrays(path, KIND)
    with damaged(path, KIND):
        return _unpack(*lifted(KIND, arrays, header))


def write_checkpoint(path: Path | str, checkpoint: Checkpoint) -> None:
    """Write one checkpoint file."""
    write_arrays(path, KIND, *_pack(checkpoint))


def saved_in(folder: str | Path) -> list[tuple[int, Path | str]]:
    """Rounds and path of every checkpoint in a folder, the oldest first."""
    place = folder_at(folder)
    return [(_rounds(name), place.file(name)) for name in _names_in(place)]


def _names_in(place: KeepingPlace) -> list[str]:
    """Names of the checkpoints in a folder, the oldest first."""
    return sorted(filter(_NAME.fullmatch, place.names()), key=_rounds)


def _rounds(name: str) -> int:
    return int(name.split("-")[1].split(".")[0])


def set_aside(folder: str | Path) -> int:
    """Rename the checkpoints of an earlier run to ``….old``; the number of them."""
    place = folder_at(folder)
    found = _names_in(place)
    for name in found:
        place.rename(name, name.replace(".safetensors", ".old"))
    return len(found)


def _check_same_run(path: Path | str, saved: Mapping[str, Any], present: Mapping[str, Any]) -> None:
    for name in sorted({*saved, *present}):
        before, now = saved.get(name), present.get(name)
        if before != now:
            raise DataError(
                f"{path}: this checkpoint is of another run: {name} was {_shown(before)}, now it is "
                f"{_shown(now)}; resume with the same options and data, or use another folder"
            )


def _shown(value: Any) -> str:
    return "not given" if value is None else shortened(str(value))


def _pack(checkpoint: Checkpoint) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    state = checkpoint.state
    values = {f.name: getattr(state, f.name) for f in fields(state)}
    pending = values.pop("pending")
    arrays = {f"state.{k}": v for k, v in values.items() if isinstance(v, np.ndarray)}
    plain = {k: int(v) for k, v in values.items() if not isinstance(v, np.ndarray)}
    if pending is not None:
        rows = pending.rows.plain()
        arrays |= {f"pending.{name}": getattr(rows, name) for name in _ROWS}
        arrays["pending.table"] = pending.table
        plain["pending_features"] = rows.n_features
    arrays |= {f"recorder.{k}": np.asarray(v) for k, v in checkpoint.recorder.items()}
    arrays |= {f"arrays.{k}": v for k, v in checkpoint.arrays.items()}
    arrays |= {f"kept.{k}": v for k, v in checkpoint.kept.items()}
    header = {
        "version": __version__,
        "state": plain,
        "position": checkpoint.position,
        "seconds": checkpoint.seconds,
        "run": dict(checkpoint.run),
        "facts": dict(checkpoint.facts),
        "layout": dict(checkpoint.layout),
    }
    return arrays, header


def _unpack(arrays: Mapping[str, np.ndarray], header: Mapping[str, Any]) -> Checkpoint:
    plain = dict(header["state"])
    width = plain.pop("pending_features", None)
    state = State(**_below("state", arrays), **plain)
    if width is not None:
        parts = _below("pending", arrays)
        table = parts.pop("table")
        state = replace(state, pending=Block(Rows(**parts, n_features=int(width)), table))
    return Checkpoint(
        state=state,
        position=header["position"],
        recorder=_below("recorder", arrays),
        seconds=float(header["seconds"]),
        run=dict(header["run"]),
        facts=dict(header["facts"]),
        arrays=_below("arrays", arrays),
        kept=_below("kept", arrays),
        layout=dict(header.get("layout") or {}),
    )


def _below(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    start = f"{prefix}."
    return {k.removeprefix(start): v for k, v in arrays.items() if k.startswith(start)}
