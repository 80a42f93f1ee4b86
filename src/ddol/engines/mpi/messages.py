"""Messages between ranks with a checksum.

Where a rank is lost in the middle of a call, Open MPI now and then reports success and leaves numbers that no
rank has sent. So every message carries a checksum, and no received length is trusted without one.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.int64]


class DamagedMessageError(Exception):
    """What was received is not what was sent."""


def with_checksum(words: Words) -> Words:
    """Numbers with their checksum.

    Examples
    --------
    >>> without_checksum(with_checksum(np.arange(3))).tolist()
    [0, 1, 2]
    >>> without_checksum(np.zeros(4, np.int64))
    Traceback (most recent call last):
    ddol.engines.mpi.messages.DamagedMessageError: found 3 numbers that no rank has sent
    """
    return np.append(words, _checksum(words))


def without_checksum(words: Words) -> Words:
    """Numbers without their checksum; `DamagedMessageError` where it does not fit."""
    inside = words[:-1]
    if not len(words) or words[-1] != _checksum(inside):
        raise DamagedMessageError(f"found {len(inside)} numbers that no rank has sent")
    return inside


def _checksum(words: Words) -> int:
    # With the length added, the checksum of zeros is not zero.
    return (zlib.crc32(np.ascontiguousarray(words).data) << 31) + len(words) + 1


def gather_numbers(comm: Any, own: Words) -> Words:
    """Every rank's numbers, equally many, in one row each."""
    found = np.zeros((comm.size, len(own) + 1), np.int64)
    comm.Allgather(with_checksum(own), found)
    return np.array([without_checksum(row) for row in found])


def gather_words(comm: Any, own: Words, lengths: Sequence[int]) -> list[Words]:
    """Every rank's numbers, as many as ``lengths`` says."""
    ends = np.cumsum([length + 1 for length in lengths])
    found = np.zeros(int(ends[-1]), np.int64)
    comm.Allgatherv(with_checksum(own), [found, [length + 1 for length in lengths]])
    return [without_checksum(part) for part in np.split(found, ends[:-1])]


def gather(comm: Any, value: Any) -> list[Any]:
    """Every rank's value, in their order, on every rank."""
    own = _packed(value)
    lengths = gather_numbers(comm, np.array([len(own)]))[:, 0]
    return [_unpacked(words) for words in gather_words(comm, own, lengths.tolist())]


def broadcast(comm: Any, value: Any, root: int = 0) -> Any:
    """The value of one rank, on every rank."""
    own = _packed(value if comm.rank == root else None)
    length = with_checksum(np.array([len(own)])) if comm.rank == root else np.zeros(2, np.int64)
    comm.Bcast(length, root)
    size = int(without_checksum(length)[0])
    words = with_checksum(own) if comm.rank == root else np.zeros(size + 1, np.int64)
    comm.Bcast(words, root)
    return _unpacked(without_checksum(words))


def pass_on(comm: Any, value: Any, after: int, before: int) -> Any:
    """Send a value to one rank, and receive that of another."""
    given, length = _packed(value), np.zeros(2, np.int64)
    # Not mpi4py's sendrecv: where it fails, it leaves its message under way.
    comm.Sendrecv(with_checksum(np.array([len(given)])), after, recvbuf=length, source=before)
    taken = np.zeros(int(without_checksum(length)[0]) + 1, np.int64)
    comm.Sendrecv(with_checksum(given), after, recvbuf=taken, source=before)
    return _unpacked(without_checksum(taken))


def _packed(value: Any) -> Words:
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    return np.frombuffer(data + bytes(-len(data) % 8), np.int64)  # pickle ignores the padding


def _unpacked(words: Words) -> Any:
    return pickle.loads(words.data)
