"""Packages whose names are imported when they are first used."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def home_of(homes: Mapping[str, str]) -> dict[str, str]:
    """The module of every name, from the names of every module.

    Examples
    --------
    >>> home_of({"math": "pi tau"})
    {'pi': 'math', 'tau': 'math'}
    """
    return {name: module for module, names in homes.items() for name in names.split()}


def lookup(package: str, home_of: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package: it imports the module that a name lives in.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    home_of : dict
        The module of every name.
    """

    def find(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return find


def moved(old: str, new: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module that stands elsewhere now: its names still work, with a warning.

    Parameters
    ----------
    old, new : str
        The module's name before this version, and its name now.
    """

    def find(name: str) -> Any:
        value = getattr(import_module(new), name)
        message = f"{old} is {new} now; the old name goes with the next version"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return value

    return find
