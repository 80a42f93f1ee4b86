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


def sealed(words: Words) -> Words:
    """Numbers with their checksum.

    Examples
    --------
    >>> opened(sealed(np.arange(3))).tolist()
    [0, 1, 2]
    >>> opened(np.zeros(4, np.int64))
    Traceback (most recent call last):
    ddol.engines.mpi.messages.DamagedMessageError: found 3 numbers that no rank has sent
    """
    return np.append(words, _seal(words))


def opened(words: Words) -> Words:
    """Numbers without their checksum; `DamagedMessageError` where it does not fit."""
    inside = words[:-1]
    if not len(words) or words[-1] != _seal(inside):
        raise DamagedMessageError(f"found {len(inside)} numbers that no rank has sent")
    return inside


def _seal(words: Words) -> int:
    # The length makes the seal of nothing but zeros another number than zero.
    return (zlib.crc32(np.ascontiguousarray(words).data) << 31) + len(words) + 1


def gather_numbers(comm: Any, own: Words) -> Words:
    """Every rank's numbers, equally many, in one row each."""
    found = np.zeros((comm.size, len(own) + 1), np.int64)
    comm.Allgather(sealed(own), found)
    return np.array([opened(row) for row in found])


def gather_words(comm: Any, own: Words, lengths: Sequence[int]) -> list[Words]:
    """Every rank's numbers, as many as ``lengths`` says."""
    ends = np.cumsum([length + 1 for length in lengths])
    found = np.zeros(int(ends[-1]), np.int64)
    comm.Allgatherv(sealed(own), [found, [length + 1 for length in lengths]])
    return [opened(part) for part in np.split(found, ends[:-1])]


def gather(comm: Any, value: Any) -> list[Any]:
    """Every rank's value, in their order, on every rank."""
    own = _packed(value)
    lengths = gather_numbers(comm, np.array([len(own)]))[:, 0]
    return [_unpacked(words) for words in gather_words(comm, own, lengths.tolist())]


def broadcast(comm: Any, value: Any, root: int = 0) -> Any:
    """The value of one rank, on every rank."""
    own = _packed(value if comm.rank == root else None)
    length = sealed(np.array([len(own)])) if comm.rank == root else np.zeros(2, np.int64)
    comm.Bcast(length, root)
    size = int(opened(length)[0])
    words = sealed(own) if comm.rank == root else np.zeros(size + 1, np.int64)
    comm.Bcast(words, root)
    return _unpacked(opened(words))


def pass_on(comm: Any, value: Any, after: int, before: int) -> Any:
    """Send a value to one rank, and receive that of another."""
    given, length = _packed(value), np.zeros(2, np.int64)
    # Not mpi4py's sendrecv: where it fails, it leaves its message under way.
    comm.Sendrecv(sealed(np.array([len(given)])), after, recvbuf=length, source=before)
    taken = np.zeros(int(opened(length)[0]) + 1, np.int64)
    comm.Sendrecv(sealed(given), after, recvbuf=taken, source=before)
    return _unpacked(opened(taken))


def _packed(value: Any) -> Words:
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    return np.frombuffer(data + bytes(-len(data) % 8), np.int64)  # what follows its end is not read


def _unpacked(words: Words) -> Any:
    return pickle.loads(words.data)
