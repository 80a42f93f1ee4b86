"""A job as a value: one description of a run, which every interface fills in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib import import_module
from typing import Any

from ddol.job.options import (
    AlgorithmOptions,
    DataOptions,
    NetworkOptions,
    OutputOptions,
    RunOptions,
    agents_for,
)
from ddol.job.schedule import ScheduleOptions
from ddol.parameters import NotAParameterError, Parameter, parameters_of

GROUPS: dict[type, str] = {
    AlgorithmOptions: "Algorithm",
    NetworkOptions: "Network",
    ScheduleOptions: "Schedule (D: a number, a..b, exponential:m or geometric:m)",
    DataOptions: "Data",
    RunOptions: "Run",
    OutputOptions: "Output",
}
"""What a job is made of, and the heading of each part on the help page."""


@dataclass(frozen=True)
class Job:
    """Description of a run: data, algorithm, network, schedule, where it runs, outputs.

    Parameters
    ----------
    data : DataOptions
    algorithm : AlgorithmOptions
    network : NetworkOptions
    schedule : ScheduleOptions
    run : RunOptions
    output : OutputOptions

    Examples
    --------
    >>> job = Job.of(data=("votes.csv",), algorithm="dogd", rate=0.5, agents=8, topology="ring")
    >>> job.algorithm.parameters, job.network.agents, job.n_agents
    ({'rate': 0.5}, 8, 8)
    >>> job.but(agents=2, label="vote").data.label
    'vote'
    >>> Job.of(colour="red")
    Traceback (most recent call last):
    ddol.parameters.NotAParameterError: colour does not go with the algorithm adaptive, which has ...
    """

    data: DataOptions = field(default_factory=DataOptions)
    algorithm: AlgorithmOptions = field(default_factory=AlgorithmOptions)
    network: NetworkOptions = field(default_factory=NetworkOptions)
    schedule: ScheduleOptions = field(default_factory=ScheduleOptions)
    run: RunOptions = field(default_factory=RunOptions)
    output: OutputOptions = field(default_factory=OutputOptions)

    @classmethod
    def of(cls, **given: Any) -> Job:
        """A job from options by name, whichever part they are of; None is "not given"."""
        return cls().but(**given)

    def but(self, **given: Any) -> Job:
        """The same job with other values for some options."""
        parts: dict[str, dict[str, Any]] = {}
        own: dict[str, Any] = {}
        of_presets = preset_parameters()
        for name, value in given.items():
            if name in places():
                part, parameter = places()[name]
                checked = value if parameter is None else parameter.checked(value)
                if checked is None and parameter is not None:
                    checked = parameter.default
                parts.setdefault(part, {})[name] = checked
            elif name in of_presets:
                own[name] = value
            else:
                raise self._strange(name, given)
        if own:
            merged = {**self.algorithm.parameters, **own}
            kept = {name: value for name, value in merged.items() if value is not None}
            parts.setdefault("algorithm", {})["parameters"] = kept
        made = {name: replace(getattr(self, name), **more) for name, more in parts.items()}
        return replace(self, **made)

    def _strange(self, name: str, given: Mapping[str, Any]) -> NotAParameterError:
        """Error for an unknown option, with the algorithm's parameters and similar options."""
        chosen = given.get("algorithm", self.algorithm.algorithm)
        from difflib import get_close_matches

        presets = import_module("ddol.presets")
        plain = str(chosen).replace("-", "_") if isinstance(chosen, str) else ""
        own = presets.PRESETS[plain].parameters if plain in presets.PRESETS else ()
        called = chosen if isinstance(chosen, str) else chosen.name
        options = [known for known, (_, parameter) in places().items() if parameter is not None]
        similar = get_close_matches(name, options)
        return NotAParameterError(name, f"the algorithm {called}", [*own, *similar])

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Job:
        """Read a job from a TOML file."""
        from ddol.job.toml import read_job

        return read_job(path)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the job as a TOML file, from which `read` makes the same job."""
        from ddol.job.toml import write_job

        write_job(self, path)

    def to_toml(self) -> str:
        """The job as TOML."""
        from ddol.job.toml import as_toml

        return as_toml(self)

    @property
    def known_agents(self) -> int | None:
        """Number of agents, if the network gives it."""
        if self.network.agents is not None:
            return self.network.agents
        found = getattr(self.network.topology, "n_agents", None)
        return None if found is None else int(found)

    @property
    def n_agents(self) -> int:
        """Number of agents: as given, or as the graph, the algorithm or the data say."""
        if self.known_agents is not None:
            return self.known_agents
        own = getattr(self.algorithm.algorithm, "n_agents", 1)
        return int(own) if own > 1 else self._streams

    @property
    def _streams(self) -> int:
        data = self.data.data
        if not self.data.in_files:
            pair = isinstance(data, tuple) and len(data) in (2, 3) and not hasattr(data[0], "read")
            return len(data) if isinstance(data, list | tuple) and data and not pair else 1
        # With labels in a file of their own, several files are one log, which is dealt in turn.
        return agents_for(data if self.data.answers is None else data[:1])

    def identity(self) -> dict[str, Any]:
        """What decides the result: a checkpoint with another identity is of another run.

        Where the run takes place (engine, workers) and what it leaves does not.
        """
        chosen = {
            **vars(self.algorithm),
            **self.algorithm.parameters,
            **vars(self.network),
            **vars(self.data),
            **vars(self.schedule),
            "agents": self.n_agents,
            "topology": self.network.topology or "complete",
            "batch": self.network.batch or 1,
            "period": self.network.period or 1,
            "delay": self.schedule.delay or "0",
            "intercept": self.data.with_intercept,
            "passes": self.run.passes,
            "seed": self.run.seed,
            "initial": self.run.initial,
        }
        left = {"data", "parameters", "conditions", "events", "known", "labelled", "chunk_bytes"}
        return {
            f"--{name.replace('_', '-')}": _plain(value)
            for name, value in chosen.items()
            if name not in left
        }

    def progress(self) -> dict[str, Any]:
        """What decides when a run shows, saves or stops, which all of its processes must share."""
        output = {
            name: getattr(self.output, name) for name in ("checkpoint", "every", "resume", "quiet")
        }
        options = output | {"on_lost": self.run.on_lost}
        return {f"--{name}": value for name, value in options.items()}


def preset_parameters() -> dict[str, Parameter]:
    """Parameters of the presets; imported when a job is made, as `ddol --help` makes none."""
    found: dict[str, Parameter] = import_module("ddol.presets").preset_parameters()
    return found


@cache
def places() -> dict[str, tuple[str, Parameter | None]]:
    """Part and declaration of every option by its name."""
    found: dict[str, tuple[str, Parameter | None]] = {}
    for part in fields(Job):
        kind = part.default_factory
        known = parameters_of(kind, GROUPS[kind])  # type: ignore[index, arg-type]
        for each in fields(kind):  # type: ignore[arg-type]
            found[each.name] = part.name, known.get(each.name)
    return found


def declared_in(part: str) -> dict[str, Parameter]:
    """Options of one part of a job, by name."""
    return {
        k: parameter
        for k, (where, parameter) in places().items()
        if where == part and parameter is not None
    }


def _plain(value: Any) -> Any:
    """A value as a checkpoint can keep it."""
    if isinstance(value, tuple):
        return list(value)
    if value is None or isinstance(value, bool | int | float | str | list):
        return value
    recipe = getattr(value, "recipe", None)
    if isinstance(recipe, Mapping):
        return dict(recipe)
    return str(getattr(value, "name", None) or value)
