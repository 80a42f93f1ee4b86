"""Where examples come from: files, arrays and generators, dealt to agents in rounds."""

from ddol.streams.errors import DataError
from ddol.streams.rows import Block, Rows, concatenate

__all__ = ["Block", "DataError", "Rows", "concatenate"]
