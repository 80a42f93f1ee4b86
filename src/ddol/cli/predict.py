"""``ddol predict``: one line for every example, a block at a time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import numpy as np

from ddol.cli.options import DataOptions
from ddol.cli.sources import read_options
from ddol.cli.table import warn
from ddol.model import Model, load
from ddol.storage import check_writable, written_beside
from ddol.streams.open import open_stream
from ddol.streams.stream import Stream


def predict(path: str, data: DataOptions, out: str | None, what: str) -> None:
    """Write predictions on data to a file or to standard output.

    Parameters
    ----------
    path : str
        Of the model.
    data : DataOptions
    out : str or None
        File name; None is standard output.
    what : "labels", "scores" or "probabilities"
    """
    model = load(path)
    if what == "probabilities":
        model.probability()
    stream = open_stream(data.data, read_options(data))
    if out is not None:
        check_writable(out)
    with _opened(out) as file:
        for lines in _lines(model, stream, what):
            file.write(lines)


@contextmanager
def _opened(out: str | None) -> Iterator[TextIO]:
    if out is None:
        yield sys.stdout
        sys.stdout.flush()
        return
    with written_beside(out) as beside, beside.open("w", encoding="utf-8") as file:
        yield file


def _lines(model: Model, stream: Stream, what: str) -> Iterator[str]:
    encoded = model.encoder(warn=warn).stream(stream)
    for rows, _ in encoded.read():
        scores = model.scores(rows)
        if what == "labels":
            yield _text(model.labels_of(scores))
        else:
            yield _text(scores if what == "scores" else model.chances_of(scores))


def _text(found: np.ndarray) -> str:
    """One line for every row; numbers as short as they can be without loss."""
    if found.ndim == 1:
        show = str if found.dtype == object else repr
        return "".join(f"{show(value)}\n" for value in found.tolist())
    return "".join(" ".join(map(repr, row)) + "\n" for row in found.tolist())
