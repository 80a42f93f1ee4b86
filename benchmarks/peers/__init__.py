"""Contestants, a file for each peer: all files of this folder take part."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from types import ModuleType

ORDER = ("ddol", "sklearn", "vw", "river", "numpy", "limit")


def peers() -> tuple[dict[str, ModuleType], dict[str, str]]:
    """Modules of the peers that are installed, and what is missing of the others."""
    found, missing = {}, {}
    names = {module.name for module in pkgutil.iter_modules(__path__)}
    for name in sorted(names, key=lambda n: (ORDER.index(n) if n in ORDER else len(ORDER), n)):
        try:
            found[name] = import_module(f"{__name__}.{name}")
        except ImportError as error:
            missing[name] = str(error)
    return found, missing
