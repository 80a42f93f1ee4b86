"""Sites of a model and sites of the data, matched by their names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.learner import Learner
from ddol.engines.state import grow, start_state
from ddol.knowledge import Knowledge
from ddol.model import Model
from ddol.reference import mean_of_copies
from ddol.streams.coding.labels import listed

Copies = tuple[np.ndarray, np.ndarray]
"""What agents keep: theta (copies, outputs, rows, D) and scalars (copies, outputs, scalars)."""


def copies_for(known: Knowledge, before: tuple[str, ...], now: tuple[str, ...]) -> Copies | None:
    """What each site of a run begins with: its own, or the mean of all if the model does not know it.

    Parameters
    ----------
    known : Knowledge
        Of the model.
    before, now : tuple of str
        Names of the model's sites, and of the run's; none if agents have no names.

    Returns
    -------
    tuple of arrays, or None
        None if no names are to be matched.
    """
    if not now:
        return None
    mean = mean_of(known)
    own = [
        one_of(known, before.index(name)) if name in before and len(known.theta) > 1 else mean
        for name in now
    ]
    return np.concatenate([theta for theta, _ in own]), np.concatenate([few for _, few in own])


def mean_of(known: Knowledge) -> Copies:
    """What all agents know together, as one copy."""
    if len(known.theta) == 1:
        return known.theta, known.scalars
    return mean_of_copies(known.algorithm, known.theta, known.scalars)


def one_of(known: Knowledge, number: int) -> Copies:
    """The state of one agent, as one copy."""
    place = number if len(known.theta) > 1 else 0
    return known.theta[place : place + 1], known.scalars[place : place + 1]


def with_absent_sites(model: Model, initial: Model | None) -> Model:
    """The model of a run, and the sites of the model it went on from that were not there, as they were.

    Parameters
    ----------
    model : Model
        That the run left.
    initial : Model or None
        That it went on from.
    """
    now = model.encoding.sites
    before = () if initial is None else initial.encoding.sites
    absent = tuple(name for name in before if name not in now)
    if initial is None or not now or not absent:
        return model
    assert (
        model.known is not None and initial.known is not None
    )  # else the run could not go on from it
    theirs = [one_of(initial.known, before.index(name)) for name in absent]
    algorithm, width = model.known.algorithm, model.known.theta.shape[3]
    grown = [_as_wide(algorithm, theta, few, width) for theta, few in theirs]
    ours = [one_of(model.known, k) for k in range(len(now))]
    weights = [_weights(algorithm, copy) for copy in grown]
    theta, few = (np.concatenate(parts) for parts in zip(*ours, *grown, strict=True))
    n = len(now) + len(absent)
    joint = (model.weights * len(now) + sum(weights)) / n
    return replace(
        model,
        weights=joint,
        encoding=replace(model.encoding, sites=(*now, *absent)),
        training={**model.training, "agents": n},
        known=Knowledge(algorithm, theta, few),
    )


def matches(initial: Model, now: tuple[str, ...]) -> str:
    """One line: which sites continue from a model, start anew, or are absent.

    Examples
    --------
    >>> from ddol.streams.coding.encoding import Encoding
    >>> model = Model(np.zeros((1, 1)), Encoding(sites=("bern", "rome")))
    >>> matches(model, ("rome", "lyon"))
    'rome goes on; lyon is new and begins with the mean; bern is not there and keeps its state'
    """
    before = initial.encoding.sites
    if not before or not now:
        return "all agents begin with the mean of the model's" if before else ""
    groups = [
        ([name for name in now if name in before], "goes on", "go on"),
        (
            [name for name in now if name not in before],
            "is new and begins with the mean",
            "are new and begin with the mean",
        ),
        (
            [name for name in before if name not in now],
            "is not there and keeps its state",
            "are not there and keep their states",
        ),
    ]
    return "; ".join(
        f"{listed(names, 5)} {one if len(names) == 1 else many}"
        for names, one, many in groups
        if names
    )


def _as_wide(algorithm: Algorithm, theta: np.ndarray, few: np.ndarray, width: int) -> Copies:
    """A copy with room for features that were met since."""
    start = start_state(algorithm.on(1), theta.shape[3], 0)
    state = grow(algorithm.on(1), replace(start, theta=theta, scalars=few), width)
    return state.theta, state.scalars


def _weights(algorithm: Algorithm, copy: Copies) -> np.ndarray:
    """Primal weights (outputs, D) of one agent."""
    theta, few = copy
    alone = algorithm.on(1)
    start = start_state(alone, theta.shape[3], 0)
    learner = Learner(alone, state=replace(start, theta=theta.copy(), scalars=few.copy()))
    try:
        return np.asarray(learner.weights()[0])
    finally:
        learner.close(keep=False)
