"""Going on from a model: its names, its classes and what its agents knew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.state import State, start_state
from ddol.job.options import DataOptions
from ddol.model import Knowledge, Model
from ddol.reference import mean_of_copies
from ddol.streams.coding.encoding import Encoding
from ddol.streams.coding.labels import listed
from ddol.streams.errors import DataError
from ddol.update.rates import later


def encoding_to_go_on(model: Model, options: DataOptions, path: str) -> Encoding:
    """The encoding of a model, which may learn new names; options that say another are refused."""
    encoding = model.encoding
    for option, has in _contradictions(encoding, options):
        raise DataError(f"--{option}: the model {path} {has}; leave it out, or train anew")
    numbered = encoding.columns is None and encoding.bits is None and encoding.stumps is None
    return replace(encoding, n_features=None) if numbered else encoding


def _contradictions(encoding: Encoding, options: DataOptions) -> Iterator[tuple[str, str]]:
    """Options that say something else than the encoding, and what it says."""
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
    if encoding.intercept and not options.intercept:
        yield "no-intercept", "has an intercept"


def state_to_go_on(model: Model, algorithm: Algorithm, seed: int, path: str) -> State:
    """The state before round 1 of agents that know what the model's agents knew.

    As many agents as the model has go on each with its own weights; otherwise all of them begin with
    the mean.
    """
    known = _of_the_same_kind(model, algorithm, path)
    width = known.theta.shape[3]
    start = start_state(algorithm, width, seed)
    theta, scalars = known.theta, known.scalars
    copies = len(start.theta)
    if len(theta) != copies:
        if len(theta) > 1:
            theta, scalars = mean_of_copies(known.algorithm, theta, scalars)
        theta, scalars = np.repeat(theta, copies, axis=0), np.repeat(scalars, copies, axis=0)
    if theta.shape != start.theta.shape or scalars.shape != start.scalars.shape:
        raise DataError(f"{path}: found weights of another algorithm, expected {algorithm.name}'s")
    return replace(start, theta=theta.copy(), scalars=scalars.copy())


def algorithm_to_go_on(model: Model, algorithm: Algorithm) -> Algorithm:
    """The algorithm with the rates that it would have had after the model's rounds."""
    return replace(algorithm, rate=later(algorithm.rate, int(model.training.get("rounds", 0))))


def _of_the_same_kind(model: Model, algorithm: Algorithm, path: str) -> Knowledge:
    known = model.known
    if known is None:
        raise DataError(f"{path}: found a model without a state, from which training cannot go on")
    if known.algorithm.name != algorithm.name:
        name = known.algorithm.name.replace("_", "-")
        raise DataError(
            f"{path}: found a model of {name}, expected one of {algorithm.name.replace('_', '-')}; "
            f"add --algorithm {name}"
        )
    if model.loss != algorithm.loss.name:
        raise DataError(
            f"{path}: found a model of the loss {model.loss}, expected {algorithm.loss.name}; "
            f"add --loss {model.loss.replace('_', '-')}"
        )
    return known
