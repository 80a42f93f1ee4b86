"""Where examples come from: files, arrays and generators, dealt to agents in rounds."""

from ddol.streams.arrays import RowsStream, array_stream
from ddol.streams.background import prefetch
from ddol.streams.chained import ChainedStream
from ddol.streams.dealing import deal, progress, table_by_agent, table_round_robin
from ddol.streams.errors import DataError
from ddol.streams.hashing import hash_dicts, hash_rows, hashed
from ddol.streams.labels import Labels, binary_labels, class_labels, labelled
from ddol.streams.libsvm import LibsvmStream
from ddol.streams.mapped import MappedStream, mapped, with_intercept
from ddol.streams.numpy_files import NpyStream, read_npz
from ddol.streams.open import ReadOptions, open_stream, open_streams
from ddol.streams.parquet import ParquetStream
from ddol.streams.rows import Block, Rows, concatenate
from ddol.streams.shuffle import ShuffledStream
from ddol.streams.stream import Position, Stream
from ddol.streams.summary import Summary, scan
from ddol.streams.synthetic import SyntheticStream
from ddol.streams.tables import CsvStream

__all__ = [
    "Block",
    "ChainedStream",
    "CsvStream",
    "DataError",
    "Labels",
    "LibsvmStream",
    "MappedStream",
    "NpyStream",
    "ParquetStream",
    "Position",
    "ReadOptions",
    "Rows",
    "RowsStream",
    "ShuffledStream",
    "Stream",
    "Summary",
    "SyntheticStream",
    "array_stream",
    "binary_labels",
    "class_labels",
    "concatenate",
    "deal",
    "hash_dicts",
    "hash_rows",
    "hashed",
    "labelled",
    "mapped",
    "open_stream",
    "open_streams",
    "prefetch",
    "progress",
    "read_npz",
    "scan",
    "table_by_agent",
    "table_round_robin",
    "with_intercept",
]
