"""From options to an algorithm; an option that the algorithm has no use for is an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ddol.algorithm import Algorithm
from ddol.communicate.topologies import topology
from ddol.job.options import DataOptions, LearnOptions
from ddol.presets import PRESETS, preset_name
from ddol.streams.errors import DataError
from ddol.update.losses import REGRESSION, Loss, loss_named


def algorithm_named(name: str, given: Mapping[str, Any] | None = None) -> Algorithm:
    """Make an algorithm by its name; the one place where that is done.

    Parameters
    ----------
    name : str
        Of a preset; dashes are as good as underscores.
    given : dict, optional
        Parameters by name; one that is None keeps its default. One that the algorithm does not have is an
        error that says which it has.

    Examples
    --------
    >>> algorithm_named("dual-averaging", {"l1": 0.1, "radius": None}).update.l1
    0.1
    >>> algorithm_named("coin", {"radius": 2.0})
    Traceback (most recent call last):
    ddol.parameters.NotAParameterError: radius does not go with the algorithm coin, which has loss, C; ...
    """
    found = preset_name(name)
    return PRESETS[found].named(found, given or {})


def build(options: LearnOptions, seed: int, n_classes: int = 2) -> Algorithm:
    """The algorithm that the options describe, placed on its network.

    Parameters
    ----------
    options : LearnOptions
    seed : int
        Of random graphs.
    n_classes : int
        More than 2: one against all.

    Examples
    --------
    >>> build(LearnOptions(algorithm="dogd", agents=3, parameters={"C": 0.5}), seed=0).C
    0.5
    """
    name = preset_name(options.algorithm)
    algorithm = algorithm_named(name, _parameters(options, name))
    places = {each: getattr(options, each) for each in _PLACES}
    if options.average is not None:
        places["average"] = _average(options, name, algorithm)
    if n_classes > 2:
        check_two_classes(options, algorithm, n_classes)
        places["outputs"] = n_classes
    graph = topology(options.topology, options.agents, seed)
    return algorithm.on(graph, options.mixing, **places)


_PLACES = (
    "batch",
    "period",
    "delay",
    "gradient",
    "query",
    "talk",
    "compress",
    "talk_to",
    "teach",
    "safe",
    "trust",
)


def two_classes_only(algorithm: Algorithm) -> bool:
    """Whether the algorithm knows two classes only: stumps vote −1 or +1, Winnow is one-sided."""
    preset = PRESETS.get(algorithm.name)
    return algorithm.update.experts or (preset is not None and preset.two_classes)


def check_two_classes(options: LearnOptions, algorithm: Algorithm, found: int) -> None:
    """Refuse several classes where there can be two only."""
    if two_classes_only(algorithm):
        raise DataError(
            f"found {found} classes, expected two for --algorithm {options.algorithm}; "
            "use another algorithm, such as adaptive, which learns one against all"
        )


def check_data(options: LearnOptions, data: DataOptions, algorithm: Algorithm) -> None:
    """Refuse options about data that the algorithm has no use for."""
    if data.experts is not None and not algorithm.update.experts:
        raise DataError(
            f"--experts does not go with --algorithm {options.algorithm}, which has none; "
            "leave it out, or use dwm-i, dwm-a or drwm"
        )
    if data.bits is not None and algorithm.update.experts:
        raise DataError(
            f"--bits does not go with --algorithm {options.algorithm}, whose experts look at the "
            "columns themselves; leave it out"
        )


def _parameters(options: LearnOptions, name: str) -> dict[str, Any]:
    """Parameters for the preset: those that the user gave, and a loss where the task needs one."""
    given = dict(options.parameters)
    if options.task == REGRESSION and "loss" not in given:
        if "loss" not in PRESETS[name].parameters:
            raise DataError(
                f"--task regression does not go with --algorithm {options.algorithm}, which tells "
                "classes apart; use another algorithm, such as adaptive"
            )
        given["loss"] = "squared"
    if options.tau is not None:
        given["loss"] = _quantile(given.get("loss", "quantile"), options.tau)
    if "loss" in given and "loss" in PRESETS[name].parameters:
        given["loss"] = _loss(given["loss"], options.task)
    return given


def _quantile(loss: str, tau: float) -> Loss:
    if loss != "quantile":
        raise DataError(
            f"--tau does not go with --loss {loss}; use --loss quantile, or leave it out"
        )
    if not 0.0 < tau < 1.0:
        raise DataError(f"--tau: found {tau}, expected a number between 0 and 1, such as 0.9")
    return loss_named("quantile", q=tau)


def _loss(name: str | Loss, task: str | None) -> Any:
    loss = loss_named(name)
    if loss.name == "zero_one":
        raise DataError("--loss zero-one is that of weighted majority; use --algorithm dwm-i")
    if task is not None and (task == REGRESSION) != (loss.task == REGRESSION):
        kind = "regression" if loss.task == REGRESSION else "classification"
        raise DataError(f"--loss {name} is for {kind}, but --task says {task}; leave one out")
    return loss


def _average(options: LearnOptions, name: str, algorithm: Algorithm) -> str:
    asked = str(options.average)
    if PRESETS[name].own_average and asked != algorithm.average:
        raise DataError(
            f"--average {asked} does not go with --algorithm {options.algorithm}, which averages in "
            f"the {algorithm.average}; use dwm-i for dual and dwm-a for primal"
        )
    return asked
