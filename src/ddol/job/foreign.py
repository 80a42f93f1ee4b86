"""Models to begin with: ddol's own, or a linear model of another program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.state import State, start_state
from ddol.model import Model, load
from ddol.storage import on_disk
from ddol.streams.errors import DataError
from ddol.update.contract import PRIMAL, Interpreted
from ddol.update.mirrors import MirrorDescent

_LABEL = "label"
"""Name of the column of labels, where a model does not say and --label does not either."""


def model_to_begin_with(path: str, loss: str, label: str | None = None) -> Model:
    """A model of ``ddol train``, JSON of ``ddol export``, or text of ``vw --invert_hash``.

    Parameters
    ----------
    path : str
    loss : str
        Of this run; VW's text does not say which it has.
    label : str, optional
        Name of the column of labels, which models of other programs do not know.
    """
    model = _read(path, loss)
    encoding = model.encoding
    if model.known is not None or not encoding.columns or encoding.label is not None:
        return model
    return replace(model, encoding=replace(encoding, label=label or _LABEL))


def _read(path: str, loss: str) -> Model:
    place = on_disk(path)
    if place is None or not place.is_file():
        return load(path)
    with Path(place).open("rb") as file:
        start = file.read(64)
    if start.lstrip().startswith(b"{") and b'"' in start:
        from ddol.linear.json_file import read_json

        return Model.of_linear(read_json(path))
    if start.startswith(b"Version "):
        from ddol.linear.vw_text import read_vw

        return Model.of_linear(read_vw(path, loss.replace("-", "_")))
    return load(path)


def state_of_weights(model: Model, algorithm: Algorithm, seed: int, path: str) -> State:
    """The state before round 1 of agents that all begin with the weights of a model.

    Raises
    ------
    DataError
        The algorithm keeps more than weights, which a linear model does not have.
    """
    update = algorithm.update
    if not isinstance(update, MirrorDescent):
        raise DataError(
            f"{path}: found weights only, and {algorithm.name.replace('_', '-')} needs more than that to "
            "go on; add --algorithm dogd"
        )
    if len(model.weights) != algorithm.outputs:
        raise DataError(
            f"{path}: found {len(model.weights)} outputs, expected {algorithm.outputs} for this task"
        )
    width = model.weights.shape[1]
    start = start_state(algorithm, width, seed)
    theta, scalars = start.theta.copy(), start.scalars.copy()
    loops = Interpreted(update, PRIMAL, width)
    for k, weights in enumerate(model.weights):
        vector = update.start(width)
        sent = loops.layout.linear_scalars + loops.layout.largest_scalars
        loops.from_message(vector, weights[None, :], vector.scalars[:sent].copy())
        if not np.allclose(loops.weights(vector), weights, rtol=1e-9, atol=1e-12):
            raise DataError(
                f"{path}: found weights that {algorithm.name} cannot have, such as those below 0"
            )
        theta[:, k], scalars[:, k] = vector.rows, vector.scalars
    return replace(start, theta=theta, scalars=scalars)
