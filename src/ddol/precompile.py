"""Compiling beforehand what runs need: ``python -m ddol.precompile``.

By default it goes to the user's cache. ``--ship FOLDER`` puts it into a folder that goes with the package:
whoever installs it on a processor of the same level never waits for a compiler.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import ddol
from ddol.compiled import Entry, loaded_names, on_compiling, store
from ddol.engines.learner import Learner
from ddol.streams.rows import Rows

_FIRST = ("rounds", "events", "libsvm", "clock", "csv", "vw")
"""Modules whose functions take longest: begun first, they do not end last."""


def entries() -> list[tuple[str, str]]:
    """Module and name of every compiled function that Python calls."""
    found = []
    for module in pkgutil.walk_packages(ddol.__path__, "ddol."):
        if module.name in ("ddol.__main__", __name__):
            continue
        try:
            members = vars(importlib.import_module(module.name))
        except ImportError:  # of an extra that is not installed
            continue
        own = [
            n for n, v in members.items() if isinstance(v, Entry) and v.__module__ == module.name
        ]
        found += [(module.name, name) for name in own]
    return sorted(found, key=lambda entry: not any(part in entry[0] for part in _FIRST))


def compile_entry(place: tuple[str, str]) -> set[str]:
    """Compile one of them; the names of all code that is in memory by then."""
    on_compiling(lambda text: None)
    getattr(importlib.import_module(place[0]), place[1]).address  # noqa: B018, compiles it
    return loaded_names()


def compile_preset(name: str, **options: Any) -> set[str]:
    """Compile the parts of a named algorithm, by running it on a few rows."""
    from ddol.presets import PRESETS

    on_compiling(lambda text: None)
    try:
        algorithm = PRESETS[name](**options)
    except TypeError:  # it takes parameters that only its user knows
        return set()
    for agents in (1, 2, ddol.path(3)):
        _run(algorithm, agents)
    return loaded_names()


def compile_loss(name: str) -> set[str]:
    """Compile a loss, and the turns of one agent that learns by it."""
    from ddol.update.losses import LOSSES

    on_compiling(lambda text: None)
    for l2 in (0.0, 1.0):
        algorithm = ddol.dogd(LOSSES[name](), l2=l2)
        _run(algorithm, 1)
        _run_behind_ones(algorithm)
    return loaded_names()


def _run(algorithm: ddol.Algorithm, agents: int | ddol.Topology) -> None:
    """Run an algorithm on a few rows, dense and sparse ones."""
    X = np.where(np.random.default_rng(0).random((8, 3)) < 0.5, -1.0, 1.0)
    ddol.run(algorithm, (X, X[:, 0]), agents)
    if not algorithm.update.experts:
        ddol.run(algorithm, (Rows.from_dense(X, X[:, 0]).to_scipy(), X[:, 0]), agents)


def _run_behind_ones(algorithm: ddol.Algorithm) -> None:
    """The same on rows in front of which a 1 stands that is not stored, as estimators have them."""
    learner, dense = Learner(algorithm), Rows.from_dense(np.eye(3), np.ones(3))
    for rows in (dense, Rows.from_csr(dense.to_scipy(), dense.y)):
        learner.learn(rows.with_intercept(stored=False))


def precompile(ship: Path | None = None, workers: int | None = None) -> int:
    """Compile everything, in several processes; the number of functions.

    Parameters
    ----------
    ship : Path, optional
        Folder to copy the code to.
    workers : int, optional
        Processes; one per core if not given.
    """
    from ddol.presets import PRESETS
    from ddol.update.losses import LOSSES

    names: set[str] = set()
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        more = [
            pool.submit(compile_preset, "newton", rank=2),
            pool.submit(compile_preset, "adaptive", safe=True),  # what nodes and careful sites run
        ]
        names |= _all(pool.map(compile_entry, entries()))
        names |= _all(pool.map(compile_loss, LOSSES))
        names |= _all(pool.map(compile_preset, PRESETS)) | _all(each.result() for each in more)
    if ship is not None:
        ship.mkdir(parents=True, exist_ok=True)
        return sum(store.ship(name, ship) for name in sorted(names))
    return len(names)


def _all(found: Iterable[set[str]]) -> set[str]:
    return set().union(*found)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m ddol.precompile", description=__doc__)
    parser.add_argument("--ship", type=Path, metavar="FOLDER", help="where the package keeps code")
    parser.add_argument("--workers", type=int, help="processes; one per core by default")
    given = parser.parse_args()
    count = precompile(given.ship, given.workers)
    print(f"ddol: {count} functions compiled", file=sys.stderr)


if __name__ == "__main__":
    main()
