"""Figures as small TOML files: what is run and what is shown."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from ddol.lab.experiments.sources import DATASETS, VARIANTS
from ddol.presets import PRESETS
from ddol.streams.errors import DataError

SHOWN = ("mistakes", "objective", "total mistakes", "best expert", "total objective")


@dataclass(frozen=True)
class Figure:
    """One figure: what is run, and what of it is drawn.

    Parameters
    ----------
    name : str
        Of its file.
    number : int
        In the paper.
    title : str
    show : str
        One of `SHOWN`.
    data : str
        ``svmguide1``, ``cod-rna`` or ``covtype``.
    variants : tuple of str
        Orders and scales of the data, each a panel.
    algorithms : tuple of str
        Names of presets.
    agents : tuple of int
    parameters : dict
        Of the presets.
    experts : int or None
        Decision stumps P.
    rows : int or None
        Rows of the shuffled data that are used.
    regret : bool
        Whether the regret against the best weights in hindsight is measured, too.
    """

    name: str
    number: int
    title: str
    show: str
    data: str
    variants: tuple[str, ...]
    algorithms: tuple[str, ...]
    agents: tuple[int, ...]
    parameters: dict[str, Any]
    experts: int | None = None
    rows: int | None = None
    regret: bool = False


def known_figures() -> list[Figure]:
    """The figures of the paper, in its order.

    Examples
    --------
    >>> [figure.number for figure in known_figures()]
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    """
    folder = files("ddol.lab.experiments") / "figures"
    found = [
        _figure(place.name.removesuffix(".toml"), place.read_text(encoding="utf-8"))
        for place in folder.iterdir()
        if place.name.endswith(".toml")
    ]
    return sorted(found, key=lambda figure: figure.number)


def choose(names: Sequence[str]) -> list[Figure]:
    """Figures by name, by number, or by the file of one's own; all of the paper's without any.

    Examples
    --------
    >>> [figure.name for figure in choose(["3", "doeg-total-covtype"])]
    ['dwm-total-svmguide1', 'doeg-total-covtype']
    """
    known = known_figures()
    if not names:
        return known
    by_name = {figure.name: figure for figure in known}
    by_name |= {str(figure.number): figure for figure in known}
    chosen = []
    for name in names:
        if name in by_name:
            chosen.append(by_name[name])
        elif name.endswith(".toml") and Path(name).is_file():
            chosen.append(_figure(Path(name).stem, Path(name).read_text(encoding="utf-8")))
        else:
            every = ", ".join(figure.name for figure in known)
            raise DataError(
                f"found the figure {name!r}, expected a number from 1 to {len(known)}, one of "
                f"{every}, or a .toml file"
            )
    return chosen


def _figure(name: str, text: str) -> Figure:
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{name}.toml: {error}") from None
    known = {field.name for field in fields(Figure)}
    strange = sorted(set(given) - known)
    optional = {"experts", "rows", "parameters", "regret"}
    missing = sorted(known - set(given) - optional - {"name"})
    if strange or missing:
        what = f"an unknown {strange[0]!r}" if strange else f"no {missing[0]!r}"
        raise DataError(f"{name}.toml: found {what}, expected {', '.join(sorted(known))}")
    for key, allowed in (("show", SHOWN), ("data", DATASETS)):
        if given[key] not in allowed:
            wanted = ", ".join(allowed)
            raise DataError(f"{name}.toml: found {key} = {given[key]!r}, expected one of {wanted}")
    for key, every in (("variants", VARIANTS), ("algorithms", PRESETS)):
        for one in given[key]:
            if one not in every:
                wanted = ", ".join(every)
                raise DataError(f"{name}.toml: found {one!r} in {key}, expected some of {wanted}")
    lists = {key: tuple(given[key]) for key in ("variants", "algorithms", "agents")}
    return Figure(**{"name": name, "parameters": {}, **given, **lists})
