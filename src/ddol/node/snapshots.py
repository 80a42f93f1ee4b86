"""Snapshots: the whole state of an agent in one file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ddol.engines.state import State, start_state
from ddol.engines.workers.single import SinglePlayer
from ddol.node.agent import LiveAgent
from ddol.node.errors import NodeError
from ddol.node.features import LiveRow
from ddol.node.waiting import Pending
from ddol.storage import damaged, read_arrays, write_arrays

KIND = "snapshot of a node"
_COUNTERS = ("number", "since_sent", "examples", "answers", "mistakes", "loss_sum", "window_sum")
_STATE = ("theta", "scalars", "mistakes", "loss", "expected", "examples")


def snapshot_of(agent: LiveAgent) -> Callable[[Path], None]:
    """A copy of the state of an agent, as a function that writes it to a file later."""
    arrays, features, labels = _waiting(agent), agent.features, agent.labels
    header: dict[str, Any] = {
        "name": agent.name,
        "digest": agent.digest,
        "agents": agent.learning.agents,
        "features": {
            "bits": features.bits, "n_values": features.n_values, "named": features.named,
            "kinds": dict(features.kinds),
        },
        "labels": {"classes": list(labels.classes), "fixed": labels.fixed},
        "counters": {name: getattr(agent, name) for name in _COUNTERS},
        "expired": agent.room.expired,
        "heard": dict(agent.heard),
        "t": None,
    }  # fmt: skip
    arrays["names"], arrays["window"] = _text(features.names), np.array(agent.window, float)
    player = agent.learning.player
    if player is not None:
        header["t"] = player.t
        arrays |= {f"state.{name}": getattr(player.state, name).copy() for name in _STATE}
        arrays["touched"] = player.touched.copy()
    return lambda path: write_arrays(path, KIND, arrays, header)


def _waiting(agent: LiveAgent) -> dict[str, np.ndarray]:
    pending, done = agent.room.pending, agent.room.done
    rows = [each.row for each in pending.values()]
    lengths = np.array([len(row.values) for row in rows], np.int64)
    columns = [row.columns for row in rows if row.columns is not None]
    return {
        "waiting.values": np.concatenate([np.empty(0), *(row.values for row in rows)]),
        "waiting.columns": np.concatenate([np.empty(0, np.uint32), *columns]),
        "waiting.lengths": lengths,
        "waiting.sparse": np.array([row.columns is not None for row in rows], bool),
        "waiting.said": np.array([each.said for each in pending.values()], float),
        "waiting.times": np.array([each.time for each in pending.values()], float),
        "waiting.names": _text(list(pending)),
        "done.names": _text(list(done)),
        "done.became": _text(list(done.values())),
    }


def _text(names: list[str]) -> np.ndarray:
    return np.frombuffer(json.dumps(names).encode(), np.uint8)


def _names(array: np.ndarray) -> list[str]:
    found = json.loads(array.tobytes())
    return [str(each) for each in found]


def restore(agent: LiveAgent, path: Path) -> None:
    """Restore a new agent from a snapshot."""
    arrays, header = read_arrays(path, KIND)
    _check_same(agent, path, header)
    with damaged(path, KIND):
        _restore_names(agent, header, arrays)
        for name in _COUNTERS:
            setattr(agent, name, header["counters"].get(name, 0))
        agent.window.extend(arrays["window"].tolist())
        agent.window_sum = float(sum(agent.window))
        _restore_waiting(agent, arrays)
        agent.room.expired = int(header["expired"])
        agent.heard.update(header["heard"])
        if header["t"] is not None:
            _restore_state(agent, int(header["t"]), arrays)
        agent.learning.tell_network(int(header["agents"]))


def _check_same(agent: LiveAgent, path: Path, header: Mapping[str, Any]) -> None:
    """Refuse a snapshot of another algorithm or encoding."""
    if header.get("digest") != agent.digest:
        raise NodeError(
            f"{path}: found a snapshot of another algorithm, expected {agent.learning.algorithm.name} with "
            "the same parameters; use another store, or the parameters of before"
        )
    bits = header.get("features", {}).get("bits")
    if bits != agent.options.hash_bits:
        raise NodeError(
            f"{path}: found hash_bits={bits}, expected {agent.options.hash_bits}; use another store, or the "
            "value of before"
        )


def _restore_names(
    agent: LiveAgent, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
    features, told = agent.features, header["features"]
    names = _names(arrays["names"])
    if names or told["kinds"]:
        features.learn_names(names, told["kinds"])
    features.named, features.n_values = told["named"], told["n_values"]
    classes, fixed = header["labels"]["classes"], header["labels"]["fixed"]
    agent.labels.check_classes(classes, fixed) if classes else None
    agent.labels.learn_classes(classes, fixed)


def _restore_waiting(agent: LiveAgent, arrays: Mapping[str, np.ndarray]) -> None:
    parts = {k.partition(".")[2]: v for k, v in arrays.items() if k.startswith("waiting.")}
    at = sparse_at = 0
    for k, name in enumerate(_names(parts["names"])):
        n, columns = int(parts["lengths"][k]), None
        if parts["sparse"][k]:
            columns = parts["columns"][sparse_at : sparse_at + n]
            sparse_at += n
        row = LiveRow(parts["values"][at : at + n], columns)
        said, time = float(parts["said"][k]), float(parts["times"][k])
        agent.room.pending[name] = Pending(row, said, time)
        at += n
    done = zip(_names(arrays["done.names"]), _names(arrays["done.became"]), strict=True)
    agent.room.done.update(done)


def _restore_state(agent: LiveAgent, t: int, arrays: Mapping[str, np.ndarray]) -> None:
    learning = agent.learning
    learning.algorithm = learning.with_outputs(agent.labels.outputs)
    shape = arrays["state.theta"].shape
    fresh = start_state(learning.algorithm, shape[-1])
    found: dict[str, Any] = {name: arrays[f"state.{name}"].copy() for name in _STATE}
    for name, array in found.items():
        expected = getattr(fresh, name)
        if array.shape != expected.shape or array.dtype != expected.dtype:
            raise ValueError(f"{name} has the shape {array.shape}, not {expected.shape}")
    state: State = replace(fresh, t=t, **found)
    learning.player = SinglePlayer(learning.algorithm, state, agent.features.dense)
    learning.player.touched[:] = arrays["touched"]
