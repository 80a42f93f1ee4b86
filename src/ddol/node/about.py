"""The settings of a store's node, in a file beside its journal: a journal can be played with these only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ddol.node.agent import LiveAgent
from ddol.node.errors import NodeError
from ddol.node.options import NodeOptions
from ddol.storage import written_beside
from ddol.streams.errors import DataError

ABOUT = "node.json"
_KEPT = (
    "hash_bits", "n_features", "columns", "classes", "labels", "waiting", "expire", "window", "compress",
    "average",
)  # fmt: skip
_SAME = ("hash_bits", "n_features", "columns", "classes")
"""Options that decide what the numbers in a journal mean."""


def describe(folder: Path, agent: LiveAgent) -> None:
    """Write the settings that a replay needs, if they are not there."""
    algorithm = agent.learning.algorithm
    recipe = None if algorithm.recipe is None else dict(algorithm.recipe)
    told = {
        "name": agent.name,
        "algorithm": recipe,
        "digest": agent.digest,
        "safe": algorithm.safe,
        "privacy": None if algorithm.privacy is None else vars(algorithm.privacy),
        "options": {key: getattr(agent.options, key) for key in _KEPT},
    }
    text = json.dumps(told, indent=1, default=str).encode()
    path = folder / ABOUT
    if not path.exists() or path.read_bytes() != text:
        with written_beside(path) as beside:
            beside.write_bytes(text)


def store_in(folder: str | Path) -> Path:
    """The store of a node: this folder, or the only one in it, which `store` of node.toml names.

    Examples
    --------
    >>> store_in("nowhere").name
    'nowhere'
    """
    place = Path(folder)
    if (place / ABOUT).exists():
        return place
    found = sorted(each.parent for each in place.glob(f"*/{ABOUT}"))
    if len(found) > 1:
        raise DataError(
            f"{place}: found several stores, expected the store of a node, such as {found[0]}"
        )
    return found[0] if found else place


def read_about(folder: Path) -> dict[str, Any]:
    """The settings of the node that a store is of."""
    try:
        told = json.loads((folder / ABOUT).read_bytes())
        if not isinstance(told["options"], dict):
            raise TypeError("`options` is no table")
    except FileNotFoundError:
        raise DataError(f"{folder}: found no {ABOUT}, expected the store of a node") from None
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise DataError(f"{folder / ABOUT}: is damaged ({error})") from None
    found: dict[str, Any] = told
    return found


def check_same(folder: Path, agent: LiveAgent) -> int:
    """Refuse a store whose journal means something else; how many predictions could wait before."""
    if not (folder / ABOUT).exists():
        return agent.options.waiting
    told = read_about(folder)
    if told.get("digest", agent.digest) != agent.digest:
        raise NodeError(
            f"{folder}: found the store of another algorithm, expected {agent.learning.algorithm.name} with "
            "the same parameters; use another store, or the parameters of before"
        )
    options: NodeOptions = agent.options
    for name in _SAME:
        before, now = told["options"].get(name), getattr(options, name)
        now = None if now is None else json.loads(json.dumps(now, default=list))
        known_later = name == "n_features" and None in (before, now)
        if before != now and not known_later:
            raise NodeError(
                f"{folder}: began with `{name}` {_shown(before)}, found {_shown(now)}; use another store, or "
                "the value of before"
            )
    waiting = told["options"].get("waiting")
    return waiting if isinstance(waiting, int) else options.waiting


def _shown(value: Any) -> str:
    text = "not given" if value is None else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
