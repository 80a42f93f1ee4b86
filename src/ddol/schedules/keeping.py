"""State dicts for checkpoints: arrays by name, taken from an object and restored to one like it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ddol.storage import Expected, check_arrays
from ddol.streams.errors import DataError

Kept = dict[str, np.ndarray]


def kept_of(owner: Any, names: Iterable[str]) -> Kept:
    """Copies of some arrays of an object.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> kept_of(SimpleNamespace(turns=np.arange(2)), ["turns"])
    {'turns': array([0, 1])}
    """
    return {name: getattr(owner, name).copy() for name in names}


def load_arrays(
    owner: Any, names: Iterable[str], kept: Mapping[str, np.ndarray], where: str
) -> None:
    """Give an object the arrays that another one had: of the same types, and as long as they may be."""
    found = {name: kept[name] for name in names if name in kept}
    expected = {}
    for name in names:
        own = getattr(owner, name)
        expected[name] = Expected(str(own.dtype), (None, *own.shape[1:]))
    check_arrays(where, found, expected)
    for name, array in found.items():
        setattr(owner, name, np.array(array, order="C"))


def check_range(where: str, name: str, array: np.ndarray, least: int, most: int) -> None:
    """Refuse numbers that would point outside of memory."""
    if array.size and not (array.min() >= least and array.max() <= most):
        raise DataError(
            f"{where}: found {array.min()} to {array.max()} for `{name}`, expected {least} to {most}; the "
            "file is damaged or something else, write it again"
        )


def check_length(where: str, name: str, array: np.ndarray, length: int) -> None:
    """Refuse an array that is not as long as it must be."""
    if len(array) != length:
        raise DataError(
            f"{where}: found {len(array)} numbers for `{name}`, expected {length}; the file is damaged or "
            "something else, write it again"
        )


def below(prefix: str, kept: Mapping[str, np.ndarray]) -> Kept:
    """The arrays of one part, without its name before theirs.

    Examples
    --------
    >>> below("clock", under("clock", {"turns": np.arange(2)}))
    {'turns': array([0, 1])}
    """
    start = f"{prefix}."
    return {name.removeprefix(start): a for name, a in kept.items() if name.startswith(start)}


def under(prefix: str, kept: Mapping[str, np.ndarray]) -> Kept:
    """Arrays with the name of their part before theirs."""
    return {f"{prefix}.{name}": array for name, array in kept.items()}


def words_of(value: Any) -> np.ndarray:
    """A plain value as bytes.

    Examples
    --------
    >>> value_of(words_of({"state": 3}), "the checkpoint")
    {'state': 3}
    """
    return np.frombuffer(json.dumps(value).encode(), np.uint8).copy()


def value_of(words: np.ndarray, where: str) -> Any:
    """The value that bytes say."""
    try:
        return json.loads(words.tobytes())
    except ValueError:
        raise DataError(
            f"{where}: found names that are not known here; the file is damaged, use an earlier checkpoint"
        ) from None
