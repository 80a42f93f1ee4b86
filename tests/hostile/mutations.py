"""Damaging files at random, as disks, networks and people do; the same damage for the same number."""

from __future__ import annotations

import numpy as np


def damaged(data: bytes, number: int) -> tuple[str, bytes]:
    """What was done to a file, and the file."""
    rng = np.random.default_rng(number)
    ways = (_flip, _byte, _cut, _drop, _double, _zeros, _digits, _swap)
    way = ways[int(rng.integers(len(ways)))]
    return way.__name__, way(bytearray(data), rng)


def _place(data: bytearray, rng: np.random.Generator) -> int:
    # Half of the damage goes to the header, which is short.
    return int(rng.integers(min(len(data), 3000) if rng.random() < 0.5 else len(data)))


def _flip(data: bytearray, rng: np.random.Generator) -> bytes:
    data[_place(data, rng)] ^= 1 << int(rng.integers(8))
    return bytes(data)


def _byte(data: bytearray, rng: np.random.Generator) -> bytes:
    for _ in range(int(rng.integers(1, 9))):
        data[_place(data, rng)] = int(rng.integers(256))
    return bytes(data)


def _cut(data: bytearray, rng: np.random.Generator) -> bytes:
    return bytes(data[: _place(data, rng)])


def _drop(data: bytearray, rng: np.random.Generator) -> bytes:
    at = _place(data, rng)
    return bytes(data[:at] + data[at + int(rng.integers(1, 17)) :])


def _double(data: bytearray, rng: np.random.Generator) -> bytes:
    at, n = _place(data, rng), int(rng.integers(1, 65))
    return bytes(data[:at] + data[at : at + n] + data[at:])


def _zeros(data: bytearray, rng: np.random.Generator) -> bytes:
    at, n = _place(data, rng), int(rng.integers(1, 513))
    data[at : at + n] = bytes(len(data[at : at + n]))
    return bytes(data)


def _digits(data: bytearray, rng: np.random.Generator) -> bytes:
    """Change a number of the header: a size, an offset, a version."""
    digits = [k for k, byte in enumerate(data[:3000]) if 48 <= byte <= 57]
    if not digits:
        return _flip(data, rng)
    data[digits[int(rng.integers(len(digits)))]] = 48 + int(rng.integers(10))
    return bytes(data)


def _swap(data: bytearray, rng: np.random.Generator) -> bytes:
    """Exchange two sectors, as a lost write does."""
    one, other = sorted(int(rng.integers(max(len(data) - 512, 1))) for _ in range(2))
    n = min(512, other - one)
    data[one : one + n], data[other : other + n] = data[other : other + n], data[one : one + n]
    return bytes(data)
