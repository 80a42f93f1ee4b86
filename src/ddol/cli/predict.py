"""``ddol predict``: one line for every example, as soon as it is read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TextIO

import numpy as np

from ddol.cli.errors import printable
from ddol.cli.table import warn
from ddol.job.options import DataOptions
from ddol.job.outputs import tell_skipped
from ddol.job.predictions import text_of
from ddol.job.sources import read_options
from ddol.model import Model, load
from ddol.storage import check_writable, naming, written_beside
from ddol.streams.coding.encoder import Encoder
from ddol.streams.open import open_stream
from ddol.streams.over.parallel import ParallelStream, ParsingPool
from ddol.streams.rows import Rows
from ddol.streams.stream import Position, Stream


@dataclass(frozen=True)
class Wanted:
    """What is to be predicted.

    Parameters
    ----------
    what : "labels", "scores" or "chances"
    agent : str or None
        Whose weights are used; None for the mean of all.
    """

    what: str = "labels"
    agent: str | None = None

    def of(self, model: Model, scores: np.ndarray) -> np.ndarray:
        """The answer that scores stand for."""
        if self.what == "labels":
            return model.labels_of(scores)
        return scores if self.what == "scores" else model.chances_of(scores)


def predict(path: str, data: DataOptions, out: str | None, wanted: Wanted) -> None:
    """Write predictions on data to a file or to standard output.

    Parameters
    ----------
    path : str
        Of the model.
    data : DataOptions
    out : str or None
        File name; None is standard output.
    wanted : Wanted
    """
    model = load(path)
    if wanted.what == "chances":
        model.check_chances()
    if wanted.agent is not None and not model.knows(wanted.agent):
        warn(f"found no agent {wanted.agent!r} in the model; predicting with what its agents share")
    stream = open_stream(data.data, read_options(data, model.encoding.kinds, labelled=None))
    if out is not None:
        check_writable(out)
    encoder = model.encoder(skip=data.on_bad_line == "skip", warn=warn)
    with _opened(out) as file:
        for rows, _ in read_ahead(encoder, stream):
            text = text_of(wanted.of(model, model.scores(rows, wanted.agent)))
            with nullcontext() if out is None else naming(out):
                file.write(_for_terminal(text) if file.isatty() else text)
                file.flush()
    tell_skipped([stream], encoder, warn)


@contextmanager
def _opened(out: str | None) -> Iterator[TextIO]:
    if out is None:
        yield sys.stdout
        return
    with written_beside(out) as beside:
        file = beside.open("w", encoding="utf-8")
        try:
            yield file
        finally:
            with naming(out):  # what is buffered is written now
                file.close()


def _for_terminal(text: str) -> str:
    """Labels as a terminal may have them; a file or a program gets them as they are."""
    return "".join(f"{printable(line)}\n" for line in text.split("\n")[:-1])


def read_ahead(encoder: Encoder, stream: Stream) -> Iterator[tuple[Rows, Position]]:
    """Encoded rows of a stream, which all cores read while somebody makes use of them."""
    return ParallelStream(encoder.stream(stream), ParsingPool()).read()
