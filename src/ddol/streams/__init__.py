"""Where examples come from: files, arrays and generators, dealt to agents in rounds."""

from ddol.streams.arrays import RowsStream, array_stream
from ddol.streams.dealing import deal, progress, table_by_agent, table_round_robin
from ddol.streams.errors import DataError
from ddol.streams.rows import Block, Rows, concatenate
from ddol.streams.stream import Position, Stream

__all__ = [
    "Block",
    "DataError",
    "Position",
    "Rows",
    "RowsStream",
    "Stream",
    "array_stream",
    "concatenate",
    "deal",
    "progress",
    "table_by_agent",
    "table_round_robin",
]
