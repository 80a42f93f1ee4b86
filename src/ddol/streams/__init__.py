"""Where examples come from: files, arrays and generators, dealt to agents in rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddol.lazy import home_of, lookup

if TYPE_CHECKING:
    from ddol.streams.arrays import RowsStream, array_stream
    from ddol.streams.coding.encoder import Encoder
    from ddol.streams.coding.encoding import Column, Encoding
    from ddol.streams.coding.hashing import hash_rows, hashed
    from ddol.streams.coding.labels import answers, class_numbers
    from ddol.streams.coding.summary import Summary, scan
    from ddol.streams.dealing import (
        deal,
        online_table,
        progress,
        table_by_agent,
        table_round_robin,
    )
    from ddol.streams.errors import DataError
    from ddol.streams.formats import ReadOptions
    from ddol.streams.generated import GeneratedStream
    from ddol.streams.open import open_stream, open_streams
    from ddol.streams.over.chained import ChainedStream
    from ddol.streams.over.parallel import ParallelStream, ParsingPool
    from ddol.streams.over.shuffle import ShuffledStream
    from ddol.streams.over.wrapped import MappedStream, mapped, with_intercept
    from ddol.streams.raw import Named, Table, Text
    from ddol.streams.rows import Block, Rows, concatenate
    from ddol.streams.stream import Position, Stream
    from ddol.streams.synthetic import SyntheticStream
    from ddol.streams.tables.numpy_files import NpyStream, read_npz
    from ddol.streams.tables.parquet import ParquetStream
    from ddol.streams.text.libsvm import LibsvmStream
    from ddol.streams.text.lines import LineFormat, Lines, LineStream

# Modules are imported when one of their names is first used: who reads LIBSVM waits for no Parquet.
_HOMES = {
    "ddol.streams.arrays": "RowsStream array_stream",
    "ddol.streams.over.chained": "ChainedStream",
    "ddol.streams.dealing": "deal online_table progress table_by_agent table_round_robin",
    "ddol.streams.coding.encoder": "Encoder",
    "ddol.streams.coding.encoding": "Column Encoding",
    "ddol.streams.errors": "DataError",
    "ddol.streams.generated": "GeneratedStream",
    "ddol.streams.coding.hashing": "hash_rows hashed",
    "ddol.streams.coding.labels": "answers class_numbers",
    "ddol.streams.text.libsvm": "LibsvmStream",
    "ddol.streams.tables.numpy_files": "NpyStream read_npz",
    "ddol.streams.formats": "ReadOptions",
    "ddol.streams.open": "open_stream open_streams",
    "ddol.streams.over.wrapped": "MappedStream mapped with_intercept",
    "ddol.streams.over.parallel": "ParallelStream ParsingPool",
    "ddol.streams.tables.parquet": "ParquetStream",
    "ddol.streams.raw": "Named Table Text",
    "ddol.streams.rows": "Block Rows concatenate",
    "ddol.streams.over.shuffle": "ShuffledStream",
    "ddol.streams.stream": "Position Stream",
    "ddol.streams.coding.summary": "Summary scan",
    "ddol.streams.synthetic": "SyntheticStream",
    "ddol.streams.text.lines": "LineFormat LineStream Lines",
}
_HOME_OF = home_of(_HOMES)
__getattr__ = lookup(__name__, _HOME_OF)

__all__ = [
    "Block",
    "ChainedStream",
    "Column",
    "DataError",
    "Encoder",
    "Encoding",
    "GeneratedStream",
    "LibsvmStream",
    "LineFormat",
    "LineStream",
    "Lines",
    "MappedStream",
    "Named",
    "NpyStream",
    "ParallelStream",
    "ParquetStream",
    "ParsingPool",
    "Position",
    "ReadOptions",
    "Rows",
    "RowsStream",
    "ShuffledStream",
    "Stream",
    "Summary",
    "SyntheticStream",
    "Table",
    "Text",
    "answers",
    "array_stream",
    "class_numbers",
    "concatenate",
    "deal",
    "hash_rows",
    "hashed",
    "mapped",
    "online_table",
    "open_stream",
    "open_streams",
    "progress",
    "read_npz",
    "scan",
    "table_by_agent",
    "table_round_robin",
    "with_intercept",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
