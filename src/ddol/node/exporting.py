"""Export the current model of a node to a file, and start a node from a model file."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.state import grow, start_state
from ddol.engines.workers.single import SinglePlayer
from ddol.knowledge import Knowledge
from ddol.model import Model, load
from ddol.node.agent import LiveAgent
from ddol.node.errors import NodeError
from ddol.node.messages import algorithm_digest, loss_name
from ddol.node.node import Node
from ddol.streams.coding.dates import part_names
from ddol.streams.coding.encoding import NUMBER, Column, Encoding
from ddol.together import safe
from ddol.update.layout import Layout
from ddol.version import __version__


def model_bytes(node: Node) -> bytes:
    """The current model as the bytes of a model file, for `ddol predict`."""
    model = node.read(model_of)
    with tempfile.TemporaryDirectory(prefix="ddol-") as folder:
        path = Path(folder, "model.ddol")
        model.save(path)
        return path.read_bytes()


def model_of(agent: LiveAgent) -> Model:
    """An agent as a model; numeric columns come before named features."""
    player, labels, features = agent.learning.player, agent.labels, agent.features
    if player is None or (not labels.regression and len(labels.classes) < 2):
        raise NodeError("this node has not seen two labels yet; there is no model to give")
    order, columns, names = _order(agent)
    theta, weights = player.state.theta, player.weights()[0]
    if order is not None:
        theta, weights = _renumbered(player.layout, theta, order), weights[:, order]
    kept = _outputs(agent)
    encoding = Encoding(
        columns=columns,
        n_features=features.n_values if features.dense else None,
        classes=_classes(agent),
        numbered=not labels.regression and not labels.binary,
        intercept=True,
        bits=features.bits,
        missing="zero",
        means=(),
        names=names,
        sites=(agent.name,),
    )
    algorithm = agent.learning.algorithm
    if kept is not None:
        theta, weights = theta[:, kept], weights[kept]
    scalars = player.state.scalars if kept is None else player.state.scalars[:, kept]
    if not labels.regression:
        algorithm = replace(algorithm, outputs=len(weights))
    return Model(
        weights=np.ascontiguousarray(weights),
        encoding=encoding,
        loss=algorithm.loss.name,
        algorithm={"name": algorithm.name},
        training={"examples": agent.examples, "agents": 1, "sites": [agent.name]},
        version=__version__,
        known=Knowledge(algorithm, np.ascontiguousarray(theta), np.ascontiguousarray(scalars)),
    )


def _renumbered(layout: Layout, theta: np.ndarray, order: np.ndarray) -> np.ndarray:
    """A state whose feature k was order[k]; lists of features name them by their new numbers."""
    found: np.ndarray = theta[..., order]
    now = np.zeros(theta.shape[-1])
    now[order] = np.arange(len(order))
    names = [field.name for field in layout.row_fields]
    for listed in layout.lists:
        row = names.index(listed.row)
        numbers = theta[..., row, : len(order)].astype(np.int64)
        found[..., row, :] = now[np.clip(numbers, 0, len(now) - 1)]
    return found


def _classes(agent: LiveAgent) -> tuple[Any, ...] | None:
    """Labels in rising order, as encodings have them."""
    if agent.labels.regression:
        return None
    plain = [c if isinstance(c, str) else float(c) for c in agent.labels.classes]
    if len({type(c) for c in plain}) > 1:
        plain = [str(c) for c in agent.labels.classes]
    return tuple(sorted(plain))


def _outputs(agent: LiveAgent) -> list[int] | None:
    """The outputs in the order of rising labels; None where there is one."""
    labels = agent.labels
    if labels.regression or labels.binary:
        return None
    mixed = len({isinstance(c, str) for c in labels.classes}) > 1
    shown = [str(c) if mixed else c for c in labels.classes]
    return sorted(range(len(shown)), key=lambda k: shown[k])


def _order(
    agent: LiveAgent,
) -> tuple[np.ndarray | None, tuple[Column, ...] | None, tuple[str, ...]]:
    """Columns of the state in the order of an encoding, its columns, and names of features."""
    features = agent.features
    if features.dense:
        return None, None, ()
    if agent.learning.player is not None and agent.learning.player.layout.whole:
        return np.arange(1 + len(features.names)), (), tuple(features.names)
    parts = {part for date in features.dates for part in part_names(date)}
    kinds = {n: k for n, k in features.kinds.items() if n not in parts}
    if features.bits is not None:
        columns = tuple(Column(n, k) for n, k in kinds.items())
        return None, columns, tuple(features.names)
    numbers = [n for n in features.names if kinds.get(n) == NUMBER]
    others = [n for n in features.names if kinds.get(n) != NUMBER]
    at = {name: k for k, name in enumerate(features.names, 1)}
    order = np.array([0, *(at[n] for n in numbers), *(at[n] for n in others)])
    ordered = sorted(kinds, key=lambda name: at.get(name, len(at) + 1))
    columns = tuple(Column(name, kinds[name]) for name in ordered)
    return order, columns, tuple(others)


def begin_with(node: Node, path: str) -> None:
    """Start a node that has learned nothing from the weights of a model."""
    model = load(path)
    if model.known is None:
        raise NodeError(f"{path}: the model has weights only, expected all that its agents knew")

    def adopt(agent: LiveAgent) -> None:
        _check_same(agent, model, path)
        _adopt(agent, model)

    node.read(adopt)
    if node.journal is not None:
        node.snapshot()


def _check_same(agent: LiveAgent, model: Model, path: str) -> None:
    assert model.known is not None
    if agent.digest not in (
        algorithm_digest(a) for a in (model.known.algorithm, _made_safe(model))
    ):
        theirs, own = (_parameters(a) for a in (model.known.algorithm, agent.learning.algorithm))
        other = [name for name in theirs | own if theirs.get(name) != own.get(name)]
        told = ", ".join(f"{name}={theirs.get(name)!r} (here {own.get(name)!r})" for name in other)
        raise NodeError(
            f"{path}: found a model with {told or 'an algorithm of its own'}, expected the node's "
            "parameters; give the node those that the model was trained with"
        )
    encoding = model.encoding
    if encoding.bits != agent.options.hash_bits or not encoding.intercept or encoding.stumps:
        raise NodeError(
            f"{path}: is hashed to {encoding.bits} bits{'' if encoding.intercept else ' without intercept'}, "
            f"the node to {agent.options.hash_bits}; give the node hash_bits={encoding.bits}"
        )


def _parameters(algorithm: Algorithm) -> dict[str, Any]:
    """What an algorithm was made with, by name."""
    made = {name: value for name, value in (algorithm.recipe or {}).items() if name != "preset"}
    now = {"algorithm": algorithm.name, "loss": loss_name(algorithm), "safe": algorithm.safe}
    return made | now


def _made_safe(model: Model) -> Algorithm:
    """The algorithm of a model, made safe where it is not."""
    assert model.known is not None
    algorithm = model.known.algorithm
    return algorithm if algorithm.safe else safe(algorithm)


def _of_plain(algorithm: Algorithm, known: Knowledge) -> Knowledge:
    """What a safe agent knows whose learners all begin with what one learner knows."""
    update: Any = algorithm.update
    width = known.theta.shape[-1]
    state = start_state(algorithm, width)
    theta, scalars = state.theta.copy(), state.scalars.copy()
    layout = update.layout(algorithm.average, width)
    plain = known.algorithm.update.layout(known.algorithm.average, width)
    for found, given, to, fields in (
        (theta, known.theta, layout.row_fields, plain.row_fields),
        (scalars[..., None], known.scalars[..., None], layout.scalar_fields, plain.scalar_fields),
    ):
        names = [field.name for field in to]
        for k, field in enumerate(fields):
            for learner in ("sent", *update.names):
                name = f"{learner} {field.name}"
                if name in names:
                    found[:, :, names.index(name)] = given[:, :, k].mean(axis=0)
    return Knowledge(algorithm, theta, scalars)


def _adopt(agent: LiveAgent, model: Model) -> None:
    encoding, known, features, labels = model.encoding, model.known, agent.features, agent.labels
    assert known is not None
    if encoding.classes is not None:
        two = len(encoding.classes) == 2 and not encoding.numbered
        if two and not labels.fixed:
            labels.fix(list(encoding.classes))
        labels.learn_classes(list(encoding.classes), labels.fixed)
    if encoding.columns is None:
        features.named, features.n_values = False, encoding.n_features
    else:
        kinds = {c.name: c.kind for c in encoding.columns}
        features.learn_names([*encoding.numbers, *encoding.names], kinds)
    learning = agent.learning
    learning.algorithm = learning.with_outputs(labels.outputs)
    if learning.algorithm.safe and not known.algorithm.safe:
        known = _of_plain(learning.algorithm, known)
    theta = known.theta.mean(axis=0, keepdims=True)
    scalars = known.scalars.mean(axis=0, keepdims=True)
    state = start_state(learning.algorithm, theta.shape[-1])
    state = replace(state, theta=np.ascontiguousarray(theta), scalars=np.ascontiguousarray(scalars))
    state = replace(
        state, t=1 + int(model.training.get("rounds", model.training.get("examples", 0)))
    )
    state = grow(learning.algorithm, state, features.width)
    learning.player = SinglePlayer(learning.algorithm, state, features.dense)
