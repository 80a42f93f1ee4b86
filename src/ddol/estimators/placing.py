"""Parameters of the presets as parameters of a class, and from those of an estimator to its algorithm."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from dataclasses import replace
from typing import Any

from ddol.algorithm import Algorithm
from ddol.job.algorithm import build
from ddol.job.job import Job, declared_in
from ddol.parameters import documented_further
from ddol.presets import PRESETS, preset_parameters
from ddol.update.losses import LOSSES, Loss, loss_named, zero_one


class Registered(Set):
    """Names in a registry, looked up at each use.

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


def network_of(model: Any, seed: int) -> Job:
    """A job with the network of an estimator and nothing else; random graphs are drawn with the seed."""
    return Job.of(
        data=[], agents=model.n_agents, topology=model.topology, mixing=model.mixing, seed=seed
    )


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


def takes_presets(experts: bool, but: Collection[str] = ()) -> Callable[[type], type]:
    """Give a class the parameters of all presets, with or without experts, and those of every algorithm.

    Each is an attribute, None if it is not given, and explained in the docstring. A preset that is registered
    later has its parameters accepted and listed from then on.

    Parameters
    ----------
    experts : bool
        Whether of the presets with experts, or of the others.
    but : names
        Of parameters that the class decides itself.
    """

    def own_names() -> list[str]:
        return [name for name in preset_parameters(experts) if name not in but]

    def all_names() -> list[str]:
        return [*own_names(), *(name for name in every_algorithm() if name not in but)]

    def bind(kind: Any) -> Any:
        plain = kind.__init__
        before = inspect.signature(plain)

        def more() -> list[str]:
            return [name for name in all_names() if name not in before.parameters]

        listed = more()

        @functools.wraps(plain)
        def initialise(self: Any, *args: Any, **given: Any) -> None:
            names = dict.fromkeys([*listed, *more()])  # a preset may have been removed since
            vars(self).update({name: given.pop(name, None) for name in names})
            plain(self, *args, **given)

        initialise.__signature__ = _extended(before, listed)  # type: ignore[attr-defined]
        initialise.more = more  # type: ignore[attr-defined]
        kind.__init__ = initialise
        kind.preset_names = classmethod(lambda _: own_names())
        known = {**declared_in("schedule"), **declared_in("algorithm"), **declared_in("network")}
        known |= preset_parameters(experts)
        taken = [*before.parameters, *listed]
        kind.__doc__ = documented_further(kind.__doc__, [known[k] for k in taken if k in known])
        return kind

    return bind


def every_algorithm() -> list[str]:
    """Options that every algorithm has, beside its network."""
    fields_of_all = {field.name for field in dataclasses.fields(Algorithm)} - {"mixing"}
    names = [*declared_in("algorithm"), *declared_in("network"), "delay"]
    return [name for name in names if name in fields_of_all]


def exchanges_of(model: Any) -> dict[str, Any]:
    """Options of every algorithm that a model was given: active learning, delays, communication, and more."""
    found = {name: getattr(model, name, None) for name in every_algorithm()}
    return {
        name: value for name, value in found.items() if value is not None and value is not False
    }


def _extended(signature: inspect.Signature, names: Collection[str]) -> inspect.Signature:
    more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in names]
    return signature.replace(parameters=[*signature.parameters.values(), *more])


def later_names(kind: Any) -> list[str]:
    """Parameters of presets that the signature of a class does not list: those registered later."""
    more = getattr(kind.__init__, "more", None)
    if more is None:
        return []  # a class of the user's own, whose signature is whole
    listed = inspect.signature(kind.__init__).parameters
    return [name for name in more() if name not in listed]


def given_parameters(model: Any) -> dict[str, Any]:
    """Parameters of presets that a model was given."""
    found = {name: getattr(model, name, None) for name in model.preset_names()}
    return {name: value for name, value in found.items() if value is not None}
