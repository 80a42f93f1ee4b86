"""Columns as a frame of whichever library is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

LIBRARIES = ("pandas", "polars")


def frame_of(columns: Mapping[str, Sequence[Any]], library: str) -> Any:
    """A DataFrame of pandas or polars.

    Examples
    --------
    >>> frame_of({"a": [1, 2]}, "pandas").shape
    (2, 1)
    """
    if library not in LIBRARIES:
        raise ValueError(f"`library` is {library!r}; use {' or '.join(LIBRARIES)}")
    try:
        frames = import_module(library)
    except ImportError as error:
        raise ImportError(f"install {library} for frames: pip install {library}") from error
    return frames.DataFrame(columns)
