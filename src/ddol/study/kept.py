"""Finished runs in a folder: a file for each, named by everything that decides on its result."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ddol.compiled.digest import UnknownError, digest
from ddol.recording import Curves
from ddol.storage import read_arrays, write_arrays
from ddol.streams.errors import DataError
from ddol.version import __version__

_KIND = "run of a sweep"


class RunFolder:
    """Finished runs of a sweep in a folder, so that a stopped sweep continues.

    Parameters
    ----------
    place : folder, made if it is not there
    decisive : list of tuples
        What decides on the result of each run.
    """

    def __init__(self, place: str | os.PathLike[str], decisive: Sequence[tuple[Any, ...]]) -> None:
        Path(place).mkdir(parents=True, exist_ok=True)
        names = (fingerprint((__version__, *values)) for values in decisive)
        self.paths = [Path(place, f"{name}.run") for name in names]

    def finished(self) -> dict[int, tuple[dict[str, Any], Curves | None]]:
        """Figures and curves of the runs that are there; half of one is none."""
        found: dict[int, tuple[dict[str, Any], Curves | None]] = {}
        for index, path in enumerate(self.paths):
            with suppress(DataError, KeyError, TypeError):
                arrays, header = read_arrays(path, _KIND)
                found[index] = header["row"], Curves(**arrays)
        return found

    def keep(self, index: int, row: Mapping[str, Any], curves: Curves) -> None:
        """Keep a run that has been played."""
        arrays = {field.name: getattr(curves, field.name) for field in fields(curves)}
        plain = json.loads(json.dumps(dict(row), default=_plain))
        write_arrays(self.paths[index], _KIND, arrays, {"row": plain, "version": __version__})


def _plain(value: Any) -> Any:
    """A number of NumPy's, as a user's own columns may be, in JSON."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(
        f"found {type(value).__name__} in a row of a sweep with a folder, expected numbers and text"
    )


def fingerprint(value: Any) -> str:
    """A fingerprint of values, the same in every process.

    Examples
    --------
    >>> from ddol import dwm_a
    >>> fingerprint(dwm_a(0.5)) == fingerprint(dwm_a(0.5)), fingerprint(dwm_a(0.5)) == fingerprint(dwm_a())
    (True, False)
    """
    found = hashlib.blake2b(digest_size=16)
    for piece in _pieces(value):
        found.update(b"%d:" % len(piece))
        found.update(piece)
    return found.hexdigest()


def _pieces(value: Any) -> Iterator[bytes]:
    """What a value is made of."""
    if value is None or isinstance(value, str | int | float | bytes | np.generic):
        yield repr(value).encode()
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype.str} {value.shape}".encode()
        yield (
            np.ascontiguousarray(value).tobytes()
            if value.dtype != object
            else repr(value.tolist()).encode()
        )
    elif sp.issparse(value):
        yield b"sparse"
        whole = value.tocsr()
        yield from _pieces((whole.shape, whole.data, whole.indices, whole.indptr))
    elif isinstance(value, Mapping):
        yield from _pieces(sorted(value.items(), key=lambda item: str(item[0])))
    elif isinstance(value, list | tuple | range):
        yield f"{len(value)} of".encode()
        for item in value:
            yield from _pieces(item)
    else:
        yield from _pieces_of_object(value)


def _pieces_of_object(value: Any) -> Iterator[bytes]:
    yield f"{type(value).__module__}.{type(value).__qualname__}".encode()
    if isinstance(value, Path):
        about = value.stat()
        yield from _pieces((str(value), about.st_size, about.st_mtime_ns))
    elif is_dataclass(value):
        yield from _pieces([getattr(value, field.name) for field in fields(value)])
    elif hasattr(value, "to_numpy"):
        yield from _pieces((list(map(str, getattr(value, "columns", ()))), value.to_numpy()))
    elif callable(value):
        try:
            yield digest(value).encode()
        except (UnknownError, TypeError, AttributeError) as error:
            raise ValueError(
                f"what {value!r} computes cannot be derived from its code ({error}), so that finished "
                "runs cannot be recognised; give a function of plain values, or no folder"
            ) from None
    else:
        raise ValueError(
            f"found {type(value).__name__} among the values of a sweep with a folder, expected "
            "numbers, arrays, names, algorithms or functions; give no folder"
        )
