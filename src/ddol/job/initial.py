"""Going on from a model, of ddol or of another program: its names, its classes and what its agents knew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.state import State, start_state
from ddol.job.options import DataOptions
from ddol.job.sites import copies_for, mean_of
from ddol.job.sources import site_names
from ddol.knowledge import Knowledge
from ddol.model import Model, load
from ddol.storage import on_disk
from ddol.streams.coding.encoding import Encoding
from ddol.streams.coding.labels import listed
from ddol.streams.errors import DataError
from ddol.streams.open import expand, partition_name
from ddol.update.contract import PRIMAL, Interpreted
from ddol.update.mirrors import MirrorDescent
from ddol.update.rates import later


def encoding_to_go_on(model: Model, options: DataOptions, path: str, n_agents: int = 1) -> Encoding:
    """The encoding of a model, which may learn new names; options that contradict it are refused."""
    encoding = replace(model.encoding, sites=_sites_of(options, n_agents, model))
    for option, has in _contradictions(encoding, options):
        raise DataError(f"--{option}: the model {path} {has}; leave it out, or train anew")
    numbered = encoding.columns is None and encoding.bits is None and encoding.stumps is None
    return replace(encoding, n_features=None) if numbered else encoding


def _sites_of(options: DataOptions, n_agents: int, model: Model) -> tuple[str, ...]:
    """Names of the sites of this run; a single file has one if the model has names."""
    alone = n_agents == len(options.data) == 1 and not options.from_stdin
    if alone and model.encoding.sites:
        names: tuple[str, ...] = (partition_name(expand(options.data)[0]),)
    else:
        names = site_names(options, n_agents)
    if not names:
        return ()
    # Where several files had one name, sites of the model are called by their paths.
    known = model.encoding.sites
    paths = expand(options.data)
    return tuple(p if p in known else name for p, name in zip(paths, names, strict=True))


def _contradictions(encoding: Encoding, options: DataOptions) -> Iterator[tuple[str, str]]:
    """Options that contradict the encoding, with its values."""
    if options.bits is not None and options.bits != encoding.bits:
        yield f"bits {options.bits}", f"has {encoding.bits or 'none'}"
    features = {column.name for column in encoding.columns or ()}
    for name in sorted(features.intersection(options.drop)):
        yield f"drop {name}", "learned from this column"
    if options.labels is not None and set(options.labels) != set(encoding.classes or ()):
        yield "labels", f"has the labels {listed(encoding.classes or ())}"
    if options.missing not in ("error", encoding.missing):
        yield f"missing {options.missing}", f"was trained with --missing {encoding.missing}"
    if options.interactions and set(options.interactions) != set(encoding.interactions):
        yield "interactions", f"has {', '.join(encoding.interactions) or 'none'}"
    if encoding.intercept and options.intercept is False:
        yield "no-intercept", "has an intercept"


def state_to_go_on(
    model: Model, algorithm: Algorithm, seed: int, path: str, sites: tuple[str, ...] = ()
) -> State:
    """The state before round 1 of agents that know what the model's agents knew.

    Sites go on from what the site of their name knew, and new ones from the mean. Without names, as many
    agents as the model has go on each with its own weights; otherwise all of them begin with the mean.
    """
    if model.known is None:
        return state_of_weights(_of_this_loss(model, algorithm, path), algorithm, seed, path)
    known = _of_the_same_kind(model, algorithm, path)
    start = start_state(algorithm, known.theta.shape[3], seed)
    copies = len(start.theta)
    found = copies_for(known, model.encoding.sites, sites) or (known.theta, known.scalars)
    named = model.encoding.sites and not sites
    if len(found[0]) != copies or named:
        mean = mean_of(Knowledge(known.algorithm, *found))
        found = np.repeat(mean[0], copies, axis=0), np.repeat(mean[1], copies, axis=0)
    theta, scalars = found
    if theta.shape != start.theta.shape or scalars.shape != start.scalars.shape:
        raise DataError(f"{path}: found weights of another algorithm, expected {algorithm.name}'s")
    return replace(start, theta=theta.copy(), scalars=scalars.copy())


def algorithm_to_go_on(model: Model, algorithm: Algorithm) -> Algorithm:
    """The algorithm with the rates that it would have had after the model's rounds."""
    return replace(algorithm, rate=later(algorithm.rate, int(model.training.get("rounds", 0))))


def _of_the_same_kind(model: Model, algorithm: Algorithm, path: str) -> Knowledge:
    known = model.known
    assert known is not None
    if known.algorithm.name != algorithm.name:
        name = known.algorithm.name.replace("_", "-")
        raise DataError(
            f"{path}: found a model of {name}, expected one of {algorithm.name.replace('_', '-')}; "
            f"add --algorithm {name}"
        )
    _of_this_loss(model, algorithm, path)
    return known


def _of_this_loss(model: Model, algorithm: Algorithm, path: str) -> Model:
    if model.loss != algorithm.loss.name:
        raise DataError(
            f"{path}: found a model of the loss {model.loss}, expected {algorithm.loss.name}; "
            f"add --loss {model.loss.replace('_', '-')}"
        )
    return model


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
