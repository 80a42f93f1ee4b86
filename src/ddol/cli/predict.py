"""``ddol predict``: one line, or row of a table, for every example, as soon as it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ddol.cli.prediction_files import Identified, identifying, opened, without_column
from ddol.cli.table import say, warn
from ddol.job.options import DataOptions
from ddol.job.outputs import check_outputs, warn_of_skipped
from ddol.model import Model, load
from ddol.streams.coding.encoder import Encoder
from ddol.streams.coding.labels import listed
from ddol.streams.open import expand, open_stream, partition_name
from ddol.streams.over.parallel import ParallelStream, ParsingPool
from ddol.streams.over.wrapped import LimitedStream, MappedStream
from ddol.streams.rows import Rows
from ddol.streams.stream import Position, Stream


@dataclass(frozen=True)
class Wanted:
    """What is to be predicted.

    Parameters
    ----------
    what : "labels", "scores" or "chances"
    agent : str or None
        Whose weights are used; None or "shared" for all of them together.
    """

    what: str = "labels"
    agent: str | None = None

    def of(self, model: Model, scores: np.ndarray) -> np.ndarray:
        """Labels, scores or probabilities, as wanted."""
        if self.what == "labels":
            return model.labels_of(scores)
        return scores if self.what == "scores" else model.chances_of(scores)

    def columns(self, model: Model) -> list[str]:
        """What the columns of a table of these answers are called."""
        if self.what == "labels":
            return ["prediction"]
        if self.what == "scores" and model.encoding.n_outputs == 1:
            return ["score"]
        name = "score" if self.what == "scores" else "probability"
        return [f"{name}_{listed([label])}" for label in model.classes or ()]


def predict(
    path: str, data: DataOptions, out: str | None, wanted: Wanted, id_: str | None = None
) -> None:
    """Write predictions on data to a file or to standard output.

    Parameters
    ----------
    path : str
        Of the model.
    data : DataOptions
    out : str or None
        File name; None is standard output.
    wanted : Wanted
    id_ : str or None
        Column of identifiers, to be written beside the predictions.
    """
    model = load(path)
    if wanted.what == "chances":
        model.check_chances()
    agent = model.agent_number(wanted.agent, warn)
    if wanted.agent is None and (names := sites_meant(model, data.data)):
        say(f"{names[0]} is a site of the model; --agent {names[0]} predicts as it does")
    kinds = model.encoding.kinds
    if id_ is not None:  # as it is written: 007 is no number
        kinds = {**(kinds or {}), id_: "text"}
    stream = limited(open_stream(data.data, replace(data, known=kinds, labelled=None)), data.limit)
    check_outputs(out, read=[path, *expand(data.data)])
    encoder = model.encoder(skip=data.on_bad_line == "skip", warn=warn)
    encoder = encoder if id_ is None else without_column(encoder, id_)
    with opened(out, wanted.columns(model), id_) as sink:
        for block in _encoded(encoder, stream, id_):
            rows, ids = (block.rows, block.ids) if isinstance(block, Identified) else (block, None)
            sink.add(wanted.of(model, model.scores(rows, agent)), ids)
    warn_of_skipped([stream], encoder, warn)


def sites_meant(model: Model, files: Sequence[str]) -> list[str]:
    """Sites of the model that the files are named after, where it matters who predicts."""
    matters = model.known is not None and (model.keeps_own or model.known.algorithm.safe)
    return [name for name in map(partition_name, files) if matters and name in model.encoding.sites]


def _encoded(encoder: Encoder, stream: Stream, id_: str | None) -> Iterator[Any]:
    """Encoded rows of a stream, with their identifiers if there is a column of them."""
    if id_ is None:
        return (rows for rows, _ in read_ahead(encoder, stream))
    change = identifying(encoder, id_)
    parallel = ParallelStream(MappedStream(stream, change, None, False), ParsingPool())
    return (block for block, _ in parallel.read())


def limited(stream: Stream, limit: int | None) -> Stream:
    """The first rows of a stream, or all of them."""
    return stream if limit is None else LimitedStream(stream, limit)


def read_ahead(encoder: Encoder, stream: Stream) -> Iterator[tuple[Rows, Position]]:
    """Encoded rows of a stream, read by all cores while they are used."""
    return ParallelStream(encoder.stream(stream), ParsingPool()).read()
