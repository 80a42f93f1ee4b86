"""``ddol predict``: one line for every example, a block at a time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import numpy as np

from ddol.cli.options import DataOptions
from ddol.cli.sources import read_options
from ddol.model import Model, load
from ddol.storage import check_writable, written_beside
from ddol.streams.errors import DataError
from ddol.streams.open import open_stream
from ddol.streams.rows import Rows
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
    before = None
    for rows, after in stream.read():
        _check_columns(model, rows, stream, before)
        if what == "labels":
            found = model.predict(rows)
        elif what == "scores":
            found = model.decision_function(rows)
        else:
            found = model.predict_proba(rows)
        yield _text(found)
        before = after


def _check_columns(model: Model, rows: Rows, stream: Stream, before: object) -> None:
    """Name the place of the first row that has more columns than the model."""
    most = model.n_features
    if model.reading.bits or rows.n_features <= most or rows.dense:
        return
    value = int(np.argmax(rows.indices >= most))
    row = int(np.searchsorted(rows.indptr, value, side="right")) - 1
    raise DataError(
        f"{stream.locate(before, row)}: found column {int(rows.indices[value]) + 1}, expected at "
        f"most the model's {most}; give the columns that the model was trained on"
    )


def _text(found: np.ndarray) -> str:
    """One line for every row; numbers as short as they can be without loss."""
    if found.ndim == 1:
        return "".join(f"{value!r}\n" for value in found.tolist())
    return "".join(" ".join(map(repr, row)) + "\n" for row in found.tolist())
