"""Reading that begins before all is imported that learns from it.

To import what a run needs takes as long as to parse many megabytes, on one core; the others would wait.
"""

from __future__ import annotations

import os

from ddol.compiled import on_compiling
from ddol.engines.kinds import engine_named
from ddol.job.options import TrainOptions
from ddol.job.sources import open_sources
from ddol.streams.errors import DataError
from ddol.streams.over.parallel import AHEAD, BegunStream, ParsingPool, usable_cores
from ddol.streams.store.compression import is_compressed
from ddol.streams.store.files import is_remote
from ddol.streams.store.room import keep_memory
from ddol.streams.stream import Stream
from ddol.streams.text.lines import TextStream


def begin_reading(options: TrainOptions) -> BegunStream | None:
    """Open a file of text and begin to parse it, if it is sure that it will be read from its beginning.

    Where it cannot be opened, whoever opens it again says so.
    """
    keep_memory()
    if options.run.quiet or os.environ.get("OMPI_COMM_WORLD_RANK", "0") != "0":
        on_compiling(lambda text: None)
    try:
        stream = _text(options) if _reads_ahead(options) else None
    except (DataError, OSError):
        return None
    return None if stream is None else BegunStream.of(stream, ParsingPool(2), AHEAD)


def _reads_ahead(options: TrainOptions) -> bool:
    run, data = options.run, options.data
    cores = usable_cores() if run.workers is None else run.workers
    whole = len(data.data) == 1 and data.limit is None and data.deal == "round-robin"
    anew = run.checkpoint is None and run.initial is None
    return cores > 1 and engine_named(run.engine).can.in_process and whole and anew


def _text(options: TrainOptions) -> Stream | None:
    """The one file of text, which several threads can parse from where they like."""
    if is_remote(options.data.data[0]) or options.data.from_stdin:
        return None
    streams = open_sources(options.data, options.learn.agents, regression=False)
    for stream in streams if len(streams) == 1 else ():
        if isinstance(stream, TextStream) and not any(map(is_compressed, stream.paths)):
            return stream
    return None
