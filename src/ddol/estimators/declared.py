"""Parameters of the presets as parameters of a class, also of presets that are registered later."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Collection
from typing import Any

from ddol.algorithm import Algorithm
from ddol.job.job import declared_in
from ddol.presets import preset_parameters


def takes_presets(experts: bool, but: Collection[str] = ()) -> Callable[[type], type]:
    """Give a class the parameters of all presets, with or without experts, and those of every algorithm.

    Each is an attribute, and None if it is not given. A preset that is registered later has its
    parameters accepted and listed from then on.

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
        return kind

    return bind


def every_algorithm() -> list[str]:
    """Options that every algorithm has, beside its network."""
    fields_of_all = {field.name for field in dataclasses.fields(Algorithm)} - {"mixing"}
    names = [*declared_in("algorithm"), *declared_in("network"), "delay"]
    return [name for name in names if name in fields_of_all]


def exchanges_of(model: Any) -> dict[str, Any]:
    """Options of every algorithm that a model was given: when agents ask, wait and talk, and more."""
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
