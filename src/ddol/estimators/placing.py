"""From the parameters of an estimator to an algorithm on its network."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

from ddol.algorithm import Algorithm
from ddol.job.algorithm import build, on_network
from ddol.job.job import Job
from ddol.job.options import DataOptions, NetworkOptions, RunOptions
from ddol.presets import PRESETS
from ddol.update.losses import LOSSES, Loss, loss_named, zero_one


class Registered(Set):
    """Names in a registry, looked up when they are asked for.

    Parameters
    ----------
    names : function that returns them
    """

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self._names = names

    def __contains__(self, name: object) -> bool:
        return name in set(self._names())

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._names()))

    def __len__(self) -> int:
        return len(list(self))

    @classmethod
    def _from_iterable(cls, names: Iterable[str]) -> set[str]:  # type: ignore[override]
        return set(names)


LINEAR_PRESETS = Registered(lambda: (name for name, p in PRESETS.items() if not p.experts))
SCIKIT_LEARNS = {"log_loss": "logistic", "squared_error": "squared"}
"""Losses that scikit-learn has another name for."""


def losses_for(task: str) -> Registered:
    """Names of the losses of a task; that of the experts is not for a linear model.

    Examples
    --------
    >>> ", ".join(losses_for("regression"))
    'absolute, epsilon_insensitive, huber, quantile, squared, squared_error'
    """

    def names() -> Iterator[str]:
        for name, make in LOSSES.items():
            if make().task == task and name != zero_one.name:
                yield name
                yield from (theirs for theirs, ours in SCIKIT_LEARNS.items() if ours == name)

    return Registered(names)


@dataclass(frozen=True)
class Placement:
    """Where the agents are: their number, their graph and its weights; None leaves it open."""

    n_agents: int | None = None
    topology: Any = None
    mixing: Any = None

    def known_agents(self) -> int | None:
        """Number of agents, where the network says it."""
        if self.n_agents is not None:
            return self.n_agents
        found = getattr(self.topology, "n_agents", None)
        return None if found is None else int(found)

    def place(self, algorithm: Algorithm, named: int | None = None, seed: int = 0) -> Algorithm:
        """The algorithm on this network.

        Parameters
        ----------
        algorithm : Algorithm
            Stays where it is if nothing is said about the network.
        named : int, optional
            Number of agents that the rows name, where the network leaves it open.
        seed : int
            Of random graphs.

        Examples
        --------
        >>> from ddol.presets import dogd
        >>> Placement(topology="ring").place(dogd(), named=5).mixing.name
        'metropolis'
        """
        network = NetworkOptions(self.n_agents, self.topology, self.mixing)
        job = Job(DataOptions(data=[]), network=network, run=RunOptions(seed=seed))
        return on_network(algorithm, job, named)


def old_penalty(kind: str | None, alpha: float | None, l1_ratio: float) -> dict[str, float]:
    """`l1` and `l2` from the old parameters ``penalty``, ``alpha`` and ``l1_ratio``, with a warning.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     old_penalty("elasticnet", 0.1, l1_ratio=0.5)
    {'l1': 0.05, 'l2': 0.05}
    """
    if alpha is None:
        if kind is not None:
            _deprecate(
                "`penalty` has no effect without `alpha`, and both are deprecated: use l1 and l2"
            )
        return {}
    share = {None: 0.0, "l2": 0.0, "l1": 1.0, "elasticnet": l1_ratio}[kind]
    found = {"l1": share * alpha} if share > 0.0 else {}
    if share < 1.0:
        found["l2"] = (1.0 - share) * alpha
    given = ", ".join(f"{name}={value:g}" for name, value in found.items())
    _deprecate(f"`alpha`, `penalty` and `l1_ratio` are deprecated: write {given}")
    return found


def _deprecate(message: str) -> None:
    warnings.warn(f"{message}; the old names go with the next version", DeprecationWarning, 8)


def loss_of(name: str | Loss) -> Loss:
    """A loss by ddol's name, by scikit-learn's, or by itself.

    Examples
    --------
    >>> loss_of("log_loss").name
    'logistic'
    """
    return loss_named(SCIKIT_LEARNS.get(name, name) if isinstance(name, str) else name)


def linear_algorithm(
    algorithm: str | Algorithm,
    given: Mapping[str, Any],
    places: Mapping[str, Any],
) -> Algorithm:
    """A linear algorithm by name or by itself, with what is chosen for it.

    Parameters
    ----------
    algorithm : str or Algorithm
    given : dict
        Parameters of the algorithm; None chooses nothing.
    places : dict
        Fields that every algorithm has: ``batch``, ``period``, …

    Examples
    --------
    >>> linear_algorithm("dogd", {"loss": "logistic", "C": 0.1, "l2": None}, {"batch": 4}).batch
    4
    """
    chosen = {name: value for name, value in given.items() if value is not None}
    if "loss" in chosen:
        chosen["loss"] = loss_of(chosen["loss"])
    job = Job.of(data=[], algorithm=algorithm, **places)
    return build(replace(job, algorithm=replace(job.algorithm, parameters=chosen)))
