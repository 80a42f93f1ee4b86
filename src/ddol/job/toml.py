"""Jobs as TOML files.

data = ["a.csv", "b.csv"]       # none for the built-in data set

[reading]
label = "vote"

[algorithm]
name = "dogd"                   # any preset, its parameters beside it
rate = 0.5

[network]
agents = 8
topology = "ring"

[schedule]
name = "gossip"

[run]
passes = 2

[output]
model = "vote.ddol"
"""

from __future__ import annotations

import glob
import json
import math
import os
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from ddol.job.job import Job, declared_in, places
from ddol.parameters import Parameter
from ddol.presets import PRESETS, preset_name, preset_parameters
from ddol.storage import write_text
from ddol.streams.coding.columns import one_of
from ddol.streams.errors import DataError

_TABLES = {
    "reading": "data",
    "algorithm": "algorithm",
    "network": "network",
    "schedule": "schedule",
    "run": "run",
    "output": "output",
}
"""Tables of a file, and the part of a job that each of them is."""


def read_job(path: str | os.PathLike[str]) -> Job:
    """Read a file. Errors are a `DataError` that names file, table and key.

    Parameters
    ----------
    path : path
        Data that are not found from the working directory are looked for beside it.
    """
    try:
        given = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: {reason}; expected a job in TOML") from None
    return job_of_tables(given, os.fspath(path))


def job_of_tables(given: Mapping[str, Any], where: str = "job") -> Job:
    """The job that plain tables describe.

    Examples
    --------
    >>> job_of_tables({"algorithm": {"name": "dogd", "rate": 0.5}, "network": {"agents": 2}}).n_agents
    2
    >>> job_of_tables({"network": {"agnets": 2}})
    Traceback (most recent call last):
    ddol.streams.errors.DataError: job: [network]: found `agnets`, expected 'agents'
    """
    tables = dict(given)
    options: dict[str, Any] = {"data": _files(tables.pop("data", []), where)}
    for name, table in _checked_tables(tables, _TABLES, where):
        known = _known(name, table, where)
        for key, value in table.items():
            parameter = _parameter(known, key, f"{where}: [{name}]")
            options[parameter.name] = _value(parameter, value, f"{where}: [{name}] {key}")
    return Job.of(**options)


_SWEEP = "sweep"


def sweep_of_tables(
    given: Mapping[str, Any], where: str = "sweep"
) -> tuple[Job, dict[str, dict[str, Any]]]:
    """A job, and the options that have several values, each with its values by the names that tables show.

    A list of values may stand in place of every value. The table ``[sweep]`` takes all options, whatever
    table they are of; ``seed = 5`` there is five seeds.

    Examples
    --------
    >>> job, axes = sweep_of_tables({"algorithm": {"rate": [0.1, 1.0]}, "sweep": {"seed": 2}})
    >>> axes
    {'rate': {0.1: 0.1, 1.0: 1.0}, 'seed': {0: 0, 1: 1}}
    """
    tables, axes = dict(given), dict[str, dict[str, Any]]()
    options: dict[str, Any] = {"data": _files(tables.pop("data", []), where)}
    for name, table in _checked_tables(tables, (*_TABLES, _SWEEP), where):
        if name == "output" and table:
            raise DataError(
                f"{where}: [output] {next(iter(table))}: every run would write it; leave it out, and use "
                "ddol sweep --out TABLE"
            )
        known = _known(name, table, where)
        for key, value in table.items():
            parameter = _parameter(known, key, f"{where}: [{name}]")
            place = f"{where}: [{name}] {key}"
            if name == _SWEEP and key == "seed" and isinstance(value, int):
                value = list(range(value))
            if not _is_several(parameter, value):
                options[parameter.name] = _value(parameter, value, place)
                continue
            found = [_value(parameter, each, place) for each in value]
            axes[parameter.name] = {_shown(each): each for each in found}
            if not value or len(axes[parameter.name]) < len(value):
                raise DataError(f"{place}: found {value}, expected values that differ")
    return Job.of(**options), axes


def _is_several(parameter: Parameter, value: Any) -> bool:
    """Whether a list is of values; that of an option which may be repeated is one value."""
    if not isinstance(value, list):
        return False
    return not (parameter.many or parameter.read) or any(isinstance(each, list) for each in value)


def _shown(value: Any) -> Any:
    """What a table calls a value."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else value


def _checked_tables(
    tables: Mapping[str, Any], known: Collection[str], where: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, table in tables.items():
        if name not in known:
            expected = ", ".join(f"[{each}]" for each in known)
            raise DataError(f"{where}: found `{name}`, expected one of data, {expected}")
        if not isinstance(table, Mapping):
            raise DataError(f"{where}: found {name} = {table!r}, expected a table [{name}]")
        yield name, table


def _files(given: Any, where: str) -> tuple[str, ...]:
    paths = [given] if isinstance(given, str) else given
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise DataError(f"{where}: found data = {given!r}, expected a list of files")
    return tuple(_found(path, Path(where).parent) for path in paths)


def _found(path: str, folder: Path) -> str:
    """A file or a pattern from the working directory, or else beside the job."""
    beside = str(folder / path)
    return beside if not _is_there(path) and _is_there(beside) else path


def _is_there(path: str) -> bool:
    return Path(path).exists() or bool(glob.glob(path))  # noqa: PTH207, as data are found


def _known(name: str, table: Mapping[str, Any], where: str) -> dict[str, Parameter]:
    """Parameters that a table may have, by their keys."""
    if name == _SWEEP:
        parts = [declared_in(part) for part in _TABLES.values() if part != "output"]
        return {key: each for part in (preset_parameters(), *parts) for key, each in part.items()}
    if name != "algorithm":
        return _keys(name)
    chosen = table.get("name", "adaptive")
    if isinstance(chosen, list):
        return {**preset_parameters(), **_keys(name)}
    if not isinstance(chosen, str):
        raise DataError(f"{where}: [algorithm] name: found {chosen!r}, expected a name")
    try:
        own = PRESETS[preset_name(chosen)].parameters
    except ValueError as error:
        found = str(error).replace("algorithm:", "name:", 1)
        raise DataError(f"{where}: [algorithm] {found}") from None
    return {**own, **_keys(name)}


def _parameter(known: Mapping[str, Parameter], key: str, where: str) -> Parameter:
    if key not in known:
        raise DataError(f"{where}: found `{key}`, expected {one_of(known, key)}")
    return known[key]


def _keys(table: str) -> dict[str, Parameter]:
    """Declared options of a table by their keys."""
    return {each.key or each.name: each for each in declared_in(_TABLES[table]).values()}


def _value(parameter: Parameter, value: Any, where: str) -> Any:
    try:
        if isinstance(value, list) and (parameter.many or parameter.read is not None):
            return tuple(_item(parameter, item) for item in value)
        if not isinstance(value, bool | int | float | str):
            raise DataError(f"{where}: found {value!r}, expected {parameter.expected}")
        if isinstance(value, str) and parameter.read is not None:
            return parameter.read(value)
        return parameter.checked(value, where)
    except DataError:
        raise
    except ValueError as error:
        text = str(error)
        raise DataError(text if text.startswith(where) else f"{where}: {text}") from None


def _item(parameter: Parameter, item: Any) -> Any:
    if isinstance(item, int | float) and not (isinstance(item, bool) or parameter.many):
        return float(item)
    if isinstance(item, str):
        return parameter.read(item) if parameter.many and parameter.read is not None else item
    expected = "text" if parameter.many else "numbers or text"
    raise ValueError(f"found {item!r} in the list, expected {expected}")


def write_job(job: Job, path: str | os.PathLike[str]) -> None:
    """Write a job; `read_job` reads the same job again."""
    write_text(os.fspath(path), as_toml(job))


def as_toml(job: Job) -> str:
    """A job as TOML: what differs from the defaults.

    Examples
    --------
    >>> print(as_toml(Job.of(data=("a.csv",), algorithm="dogd", rate=0.5, label="vote")), end="")
    data = ["a.csv"]
    <BLANKLINE>
    [reading]
    label = "vote"
    <BLANKLINE>
    [algorithm]
    name = "dogd"
    rate = 0.5
    """
    if not job.data.in_files:
        raise ValueError("a job with data in memory cannot be written; give the names of files")
    pieces = [f"data = {_toml(list(job.data.data), 'data')}\n"] if job.data.data else []
    for table in _TABLES:
        lines = [f"{_key(key)} = {_toml(value, key)}\n" for key, value in _told(job, table)]
        if lines:
            pieces.append("".join([f"[{table}]\n", *lines]))
    return "\n".join(pieces)


def _told(job: Job, table: str) -> Iterator[tuple[str, Any]]:
    """Keys and values of a table that differ from the defaults."""
    part = getattr(job, _TABLES[table])
    for key, parameter in _keys(table).items():
        value = getattr(part, parameter.name)
        if value != parameter.default:
            yield key, value
    if table == "algorithm":
        yield from job.algorithm.parameters.items()
    for each in fields(part):
        in_file = each.name in ("data", "parameters") or places()[each.name][1] is not None
        if not in_file and getattr(part, each.name) != each.default:
            raise ValueError(f"a job with `{each.name}` cannot be written: it is for Python only")


def _key(name: str) -> str:
    return name if name.replace("_", "").isalnum() and name.isascii() else json.dumps(name)


def _toml(value: Any, name: str) -> str:
    """A plain value in TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(item, name) for item in value)}]"
    raise ValueError(
        f"a job whose `{name}` is a {type(value).__name__} cannot be written; give its name"
    )
