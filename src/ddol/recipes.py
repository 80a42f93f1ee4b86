"""How algorithms are made by name: what a preset takes, and how an algorithm remembers its preset."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ddol.algorithm import Algorithm
from ddol.parameters import Parameter, check_given, documented, parameters_of
from ddol.update.losses import LOSSES, Loss, loss_named


@dataclass(frozen=True)
class Preset:
    """A named algorithm, and what the interfaces that offer it must know.

    Parameters
    ----------
    make : function that returns an Algorithm
        Its arguments are the parameters of the algorithm, and its docstring explains them: options of the
        command line, parameters of the estimators and axes of sweeps are read there.
    experts : bool
        It weighs the advice of experts.
    two_classes : bool
        It tells two classes apart, and no more.
    own_average : bool
        Its name says whether it averages in the dual or the primal.

    Examples
    --------
    >>> from ddol.presets import PRESETS
    >>> sorted(PRESETS["dogd"].parameters)
    ['C', 'l2', 'loss', 'radius', 'rate']
    >>> PRESETS["dogd"].parameters["l2"].default
    1.0
    """

    make: Callable[..., Algorithm]
    experts: bool = False
    two_classes: bool = False
    own_average: bool = False

    def __call__(self, *args: Any, **options: Any) -> Algorithm:
        """Make the algorithm."""
        return self.make(*args, **options)

    @functools.cached_property
    def parameters(self) -> dict[str, Parameter]:
        """What it takes, beside the fields of every algorithm."""
        found = parameters_of(self.make, group="Algorithm")
        if "loss" in found:
            found["loss"] = replace(found["loss"], names=loss_names, others=(Loss,))
        return found

    @property
    def summary(self) -> str:
        """What it is, in one line."""
        return (self.make.__doc__ or "").strip().split("\n")[0]

    def named(self, name: str, given: Mapping[str, Any]) -> Algorithm:
        """Make the algorithm from checked values; it remembers by which name.

        Parameters
        ----------
        name : str
            Of this preset in the registry.
        given : dict
            Parameters by name; one that is None keeps its default.

        Raises
        ------
        NotAParameterError
            For a parameter that it does not have.
        """
        own = check_given(given, self.parameters, f"the algorithm {name.replace('_', '-')}")
        made = self.make(**own)
        return replace(made, recipe=recipe_of(name, self.make, made, own))


def loss_names() -> list[str]:
    """Names of the losses that a linear model may have."""
    return [name.replace("_", "-") for name in LOSSES if name != "zero_one"]


def noted(make: Callable[..., Algorithm]) -> Callable[..., Algorithm]:
    """A preset whose algorithms remember, in plain values, how they were made."""
    signature = inspect.signature(make)

    @functools.wraps(make)
    def made(*args: Any, **options: Any) -> Algorithm:
        given = signature.bind(*args, **options).arguments
        given |= given.pop("places", {})
        algorithm = make(*args, **options)
        own = {name: value for name, value in given.items() if name in signature.parameters}
        return replace(algorithm, recipe=recipe_of(make.__name__, make, algorithm, own))

    made.__doc__ = documented(make)
    return made


def recipe_of(
    name: str, make: Callable[..., Algorithm], algorithm: Algorithm, given: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The name and the parameters of an algorithm in plain values; None with a loss of one's own."""
    bound = inspect.signature(make).bind_partial(**given)
    bound.apply_defaults()
    plain = {k: _plain(v) for k, v in bound.arguments.items() if k not in ("places", "options")}
    if "loss" in plain and algorithm.loss.name not in LOSSES:
        return None  # it has no name to find it by
    return {"preset": name, **plain}


def takes(other: Callable[..., Algorithm]) -> Callable[[Callable], Callable[..., Algorithm]]:
    """Give a preset the parameters of another one, which it calls."""

    def bind(make: Callable) -> Callable[..., Algorithm]:
        make.__wrapped__ = other  # type: ignore[attr-defined]
        make.__doc__ = documented(make)
        return make

    return bind


def _plain(value: Any) -> Any:
    if isinstance(value, Loss):
        return {"name": value.name, "parameters": list(value.parameters)}
    return None if callable(value) else value


def given_again(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a recipe; one that was a function is the preset's own again."""
    given = {name: value for name, value in recipe.items() if value is not None}
    given.pop("preset")
    if isinstance(given.get("loss"), Mapping):
        told = given["loss"]
        given["loss"] = replace(loss_named(told["name"]), parameters=tuple(told["parameters"]))
    return given
