"""Records of a journal: events of a node as bytes with a checksum."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from ddol.node.features import LiveRow
from ddol.node.labels import LiveLabel

NAMES, PREDICT, ANSWER, LEARN, MIX, SEND, NETWORK, SENT = range(1, 9)
KINDS = {
    NAMES: "names", PREDICT: "predict", ANSWER: "answer", LEARN: "learn", MIX: "mix", SEND: "send",
    NETWORK: "network", SENT: "sent",
}  # fmt: skip

_FRAME = struct.Struct("<IIB")
_ROW = struct.Struct("<IB")
_PREDICTED = struct.Struct("<ddH")
_WEIGHED = struct.Struct("<dH")
_TAKEN = struct.Struct("<dI")
MOST = 1 << 28
"""Bytes of a record."""


class Record(NamedTuple):
    """One of a journal's records."""

    kind: int
    body: bytes


class Heard(NamedTuple):
    """A message that was mixed, and its weight in the average."""

    weight: float
    blob: bytes


def framed(kind: int, *parts: bytes) -> bytes:
    """A record as it stands in a journal.

    Examples
    --------
    >>> [record] = records(framed(NETWORK, b"[3]"))
    >>> record
    Record(kind=7, body=b'[3]')
    """
    body = b"".join(parts)
    return _FRAME.pack(len(body), crc32(body, kind), kind) + body


def records(text: bytes) -> Iterator[Record]:
    """All valid records from the beginning up to an incomplete or damaged one."""
    place = 0
    while (found := _record_at(text, place)) is not None:
        yield found
        place += _FRAME.size + len(found.body)


def whole_length(text: bytes) -> int:
    """Bytes of the whole records at the beginning."""
    return sum(_FRAME.size + len(record.body) for record in records(text))


def records_behind(text: bytes, place: int, look: int = 1 << 20) -> int:
    """How many whole records follow damage at a place; the first must begin within so many bytes."""
    for start in range(place + 1, min(len(text), place + look)):
        if _record_at(text, start) is not None:
            return sum(1 for _ in records(text[start:]))
    return 0


def _record_at(text: bytes, place: int) -> Record | None:
    if place + _FRAME.size > len(text):
        return None
    length, checksum, kind = _FRAME.unpack_from(text, place)
    first = place + _FRAME.size
    if length > MOST or first + length > len(text) or kind not in KINDS:
        return None
    body = text[first : first + length]
    return Record(kind, body) if crc32(body, kind) == checksum else None


# --- what records say ------------------------------------------------------------------------------


def row_bytes(row: LiveRow) -> bytes:
    """A row."""
    values, columns = row
    if columns is None:
        return _ROW.pack(len(values), 0) + values.tobytes()
    return _ROW.pack(len(values), 1) + values.tobytes() + columns.tobytes()


def row_from(body: bytes, place: int) -> LiveRow:
    """The row at a place."""
    n, sparse = _ROW.unpack_from(body, place)
    place += _ROW.size
    values = np.frombuffer(body, np.float64, n, place).copy()
    columns = np.frombuffer(body, np.uint32, n, place + 8 * n).copy() if sparse else None
    return LiveRow(values, columns)


def predicted(name: str, row: LiveRow, said: float, time: float) -> bytes:
    """A prediction that waits."""
    key = name.encode()
    return framed(PREDICT, _PREDICTED.pack(time, said, len(key)), key, row_bytes(row))


def read_predicted(body: bytes) -> tuple[str, LiveRow, float, float]:
    """Identifier, row, what was said, and when."""
    time, said, length = _PREDICTED.unpack_from(body)
    first = _PREDICTED.size
    name = body[first : first + length].decode()
    return name, row_from(body, first + length), said, time


def answered(name: str, label: LiveLabel, weight: float) -> bytes:
    """The label of a prediction."""
    key = name.encode()
    return framed(ANSWER, _WEIGHED.pack(weight, len(key)), key, json.dumps(label).encode())


def read_answered(body: bytes) -> tuple[str, LiveLabel, float]:
    """Identifier, label and weight."""
    weight, length = _WEIGHED.unpack_from(body)
    first = _WEIGHED.size
    return body[first : first + length].decode(), json.loads(body[first + length :]), weight


def learned(row: LiveRow, label: LiveLabel, weight: float) -> bytes:
    """An example with its label."""
    text = json.dumps(label).encode()
    return framed(LEARN, _WEIGHED.pack(weight, len(text)), text, row_bytes(row))


def read_learned(body: bytes) -> tuple[LiveRow, LiveLabel, float]:
    """Row, label and weight."""
    weight, length = _WEIGHED.unpack_from(body)
    first = _WEIGHED.size
    label = json.loads(body[first : first + length])
    return row_from(body, first + length), label, weight


def mixed(heard: Sequence[Heard]) -> bytes:
    """Messages that were averaged."""
    parts = [part for h in heard for part in (_TAKEN.pack(h.weight, len(h.blob)), h.blob)]
    return framed(MIX, *parts)


def read_mixed(body: bytes) -> list[Heard]:
    """The messages."""
    found, place = [], 0
    while place < len(body):
        weight, length = _TAKEN.unpack_from(body, place)
        place += _TAKEN.size
        found.append(Heard(weight, body[place : place + length]))
        place += length
    return found


def plain(kind: int, value: Mapping[str, Any] | Sequence[Any]) -> bytes:
    """A record of plain values."""
    return framed(kind, json.dumps(value).encode())
