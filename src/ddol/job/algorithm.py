"""From options to an algorithm; an option that the algorithm has no use for is an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from ddol.algorithm import Algorithm
from ddol.communicate.topologies import topology
from ddol.job.job import Job, declared_in
from ddol.job.options import AlgorithmOptions, NetworkOptions
from ddol.parameters import NotAParameterError, Parameter, check_given
from ddol.presets import PRESETS, preset_name
from ddol.streams.coding.labels import Label, listed
from ddol.streams.errors import DataError
from ddol.update.contract import DUAL, PRIMAL
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
    ddol.parameters.NotAParameterError: radius does not go with the algorithm coin, which has loss, ...
    """
    found = preset_name(name)
    return PRESETS[found].named(found, given or {})


def build(job: Job, n_classes: int = 2, named: int | None = None) -> Algorithm:
    """The algorithm of a job, placed on its network.

    Parameters
    ----------
    job : Job
    n_classes : int
        More than 2: one against all.
    named : int, optional
        Number of agents that rows name, where the job leaves it open.

    Examples
    --------
    >>> build(Job.of(algorithm="dogd", agents=3, C=0.5)).C
    0.5
    >>> build(Job.of(data=[], algorithm="adaptive", outputs=3)).outputs
    3
    """
    algorithm = _made(job, n_classes)
    options = {**vars(job.network), **vars(job.algorithm)}
    changes = {name: options[name] for name, default in _EVERY.items() if options[name] != default}
    if job.schedule.delay is not None:
        changes["delay"] = job.schedule.whole_delay
    if "average" in changes:
        changes["average"] = _average(job, algorithm)
    if n_classes > 2 and algorithm.outputs == 1:
        check_two_classes(algorithm, n_classes)
        changes["outputs"] = n_classes
    placed = on_network(algorithm, job, named)
    return replace(placed, **changes) if changes else placed


_EVERY = {
    each.name: each.default
    for part in (NetworkOptions, AlgorithmOptions)
    for each in fields(part)
    if each.name in {field.name for field in fields(Algorithm)} - {"mixing"}
}
"""Options that are fields of every algorithm, with their defaults."""


def on_network(algorithm: Algorithm, job: Job, named: int | None = None) -> Algorithm:
    """Place the algorithm on the network of a job; unchanged if the job has none.

    Parameters
    ----------
    algorithm : Algorithm
    job : Job
    named : int, optional
        Number of agents that rows name, where the job leaves it open.

    Examples
    --------
    >>> on_network(algorithm_named("dogd"), Job.of(data=[], topology="ring"), named=5).mixing.name
    'metropolis'
    """
    network, n = job.network, job.known_agents
    if n is None and algorithm.n_agents == 1:
        n = named or (job.n_agents if job.n_agents > 1 or job.data.in_files else None)
    if n is None and network.topology is None and network.mixing is None:
        return algorithm
    if n is None and isinstance(network.topology, str) and algorithm.n_agents == 1:
        raise ValueError(
            f"topology={network.topology!r} does not say how many agents there are; set the number of "
            "agents, or name the agents of the rows"
        )
    n = algorithm.n_agents if n is None else n
    given = "complete" if network.topology is None else network.topology
    return algorithm.on(topology(given, n, job.run.seed), network.mixing)


def algorithm_of(given: Mapping[str, Any], n_classes: int = 2) -> Algorithm:
    """The algorithm that a plain table describes: its name, and parameters beside it, as in a TOML file.

    Parameters
    ----------
    given : dict
        ``algorithm`` (or ``name``), any parameter of its preset, and any option that all algorithms have.
    n_classes : int
        More than 2: one against all.

    Examples
    --------
    >>> made = algorithm_of({"algorithm": "dogd", "loss": "logistic", "rate": 0.5, "batch": 4})
    >>> made.name, made.loss.name, made.batch, made.n_agents
    ('dogd', 'logistic', 4, 1)
    >>> algorithm_of({"algorithm": "dogd", "colour": "red"})
    Traceback (most recent call last):
    ddol.parameters.NotAParameterError: colour does not go with the algorithm dogd, which has ...
    """
    options = dict(given)
    if "name" in options:
        options["algorithm"] = options.pop("name")
    every = declared_in("algorithm") | declared_in("network")
    own = PRESETS[preset_name(str(options.get("algorithm", "adaptive")))].parameters
    for name in options:
        if name not in own and name not in every:
            whose = f"the algorithm {options.get('algorithm', 'adaptive')}"
            raise NotAParameterError(name, whose, [*own, *every])
    return build(Job.of(data=[], **options), n_classes)


def _made(job: Job, n_classes: int) -> Algorithm:
    """The algorithm before it is placed: by name, or one of the user's own with its changes."""
    given = job.algorithm.algorithm
    if isinstance(given, Algorithm):
        return replace(given, **changes_of(given, job.algorithm.parameters))
    name = preset_name(given)
    parameters = _parameters(job.algorithm, name)
    if n_classes > 2 and job.data.advised and "n_classes" in PRESETS[name].parameters:
        parameters = {"n_classes": n_classes} | parameters
    return algorithm_named(name, parameters)


def changes_of(algorithm: Algorithm, given: Mapping[str, Any]) -> dict[str, Any]:
    """What may be changed of an algorithm of the user's own, which has its update already."""
    known = {
        name: Parameter(name, (float, str), others=(object,)) for name in ("loss", "rate", "C")
    }
    changes = check_given(given, known, f"the algorithm {algorithm.name} of your own")
    if "loss" in changes:
        changes["loss"] = loss_named(changes["loss"])
    if not callable(changes.get("rate", len)):
        raise ValueError(
            f"`rate` of an algorithm of your own must be a function, it is {changes['rate']}"
        )
    return changes


def two_classes_only(algorithm: Algorithm) -> bool:
    """Whether the algorithm knows two classes only: stumps vote −1 or +1, Winnow is one-sided."""
    preset = PRESETS.get(algorithm.name)
    return algorithm.update.experts or (preset is not None and preset.two_classes)


def check_two_classes(algorithm: Algorithm, found: int) -> None:
    """Refuse several classes where there can be two only."""
    if two_classes_only(algorithm):
        raise DataError(
            f"found {found} classes, expected two for the algorithm {algorithm.name.replace('_', '-')}; "
            "use another algorithm, such as adaptive, which learns one against all"
        )


def check_data(job: Job, algorithm: Algorithm) -> None:
    """Refuse options about data that the algorithm has no use for."""
    data, name = job.data, job.algorithm.name
    if data.experts is not None and not algorithm.update.experts:
        raise DataError(
            f"--experts does not go with --algorithm {name}, which has none; "
            "leave it out, or use dwm-i, dwm-a or drwm"
        )
    if data.bits is not None and algorithm.update.experts:
        raise DataError(
            f"--bits does not go with --algorithm {name}, whose experts look at the "
            "columns themselves; leave it out"
        )


def _parameters(options: AlgorithmOptions, name: str) -> dict[str, Any]:
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


def _average(job: Job, algorithm: Algorithm) -> Any:
    asked, preset = job.network.average, PRESETS.get(algorithm.name)
    spaces = asked in (DUAL, PRIMAL)
    if preset is not None and preset.own_average and spaces and asked != algorithm.average:
        raise DataError(
            f"--average {asked} does not go with --algorithm {job.algorithm.name}, which averages in "
            f"the {algorithm.average}; use dwm-i for dual and dwm-a for primal"
        )
    return asked


def all_classes(algorithm: Algorithm, classes: Iterable[Label]) -> tuple[Label, ...]:
    """Labels in rising order, completed by classes that the algorithm has and the data lack.

    Examples
    --------
    >>> all_classes(algorithm_named("dwm-i", {"n_classes": 3}), [0.0, 2.0])
    (0.0, 1.0, 2.0)
    """
    found = tuple(sorted(c if isinstance(c, str) else float(c) for c in classes))
    known = range(getattr(algorithm.update, "n_classes", 0))
    return tuple(map(float, known)) if set(found) < set(known) else found


def check_classes(algorithm: Algorithm, classes: Sequence[Label]) -> tuple[Label, ...]:
    """Refuse labels that the algorithm cannot tell apart.

    Examples
    --------
    >>> from ddol.presets import dogd
    >>> check_classes(dogd(), [0.0, 1.0])
    (0.0, 1.0)
    >>> check_classes(dogd(), [1.0, 2.0, 3.0])
    Traceback (most recent call last):
    ddol.streams.errors.DataError: found 3 classes (1, 2, 3), expected 2 for ...
    """
    found = all_classes(algorithm, classes)
    n_classes = getattr(algorithm.update, "n_classes", None)
    expected = n_classes or (2 if algorithm.outputs == 1 else algorithm.outputs)
    if len(found) == expected:
        return found
    if not found:
        raise DataError("found no example; expected at least one")
    names = listed(found, 10)
    noun = "class" if len(found) == 1 else "classes"
    hint = (
        "learn from data that has both"
        if len(found) == 1
        else f"for more classes use outputs={len(found)}, for numbers a regression loss"
    )
    raise DataError(
        f"found {len(found)} {noun} ({names}), expected {expected} for {algorithm.name} with the "
        f"loss {algorithm.loss.name}; {hint}"
    )
