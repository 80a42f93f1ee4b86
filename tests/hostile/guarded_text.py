"""Mutated text behind guard pages: who reads further than allowed ends the process.

Run as ``python guarded_text.py N SEED``; prints how many texts were tried.
"""

import ctypes
import mmap
import sys
from dataclasses import replace

import numpy as np

from ddol.streams.errors import DataError
from ddol.streams.store.chunks import MARGIN, Chunk
from ddol.streams.text.csv import CsvFormat
from ddol.streams.text.libsvm import parse_text
from ddol.streams.text.libsvm_kernel import PERHAPS, count_rows, scan_lines
from ddol.streams.text.vw import NamedFormat

PAGE = mmap.PAGESIZE
SEEDS = {
    "libsvm": b"+1 1:0.5 3:2e-3 7:1 # c\n-1 qid:3 2:123456789012345678901234567890\n\n1 1:.5\r\n",
    "csv": b'label,a,"b ""c""",d\n1,2.5,x y,true\n0,NA,"z, w",1e999\n"1",-inf,,12345678901234567890123\n',
    "vw": b"1 2 'tag|a:2 x:0.5 y |b z:1e3\n-1 0.5 |a y:-1 w\n |c q:NA r:\n3 t|d:x e\n",
    "named": b"cat price:3 colour=red # c\n1 qid:4 a:b:2 word\n? x:1 y:NA\n",
}
BYTES = np.frombuffer(b"\0\t\n\r \"#'+,-.0123456789:;=?ENeinqx|\x7f\x80\xff", dtype=np.uint8)


def guarded(size):
    """Memory of whole pages before one that must not be touched; where it begins, and its length."""
    libc = ctypes.CDLL(None, use_errno=True)
    pages = -(-size // PAGE)
    memory = mmap.mmap(-1, (pages + 1) * PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert libc.mprotect(ctypes.c_void_p(address + pages * PAGE), PAGE, 0) == 0
    return memory, pages * PAGE


def mutated(rng, seed):
    """A text made of pieces of another, with some bytes changed, that ends with a newline."""
    data = np.frombuffer(seed * int(rng.integers(1, 4)), dtype=np.uint8).copy()
    for _ in range(rng.integers(0, 8)):
        data[rng.integers(0, len(data))] = rng.choice(BYTES)
    if rng.random() < 0.5:
        lo, hi = sorted(rng.integers(0, len(data) + 1, 2))
        data = np.concatenate([data[:lo], data[hi:], data[lo:hi]])
    return np.append(data[: rng.integers(1, len(data) + 1)], np.uint8(10))


def parse(kind, chunk, lenient):
    if kind == "libsvm":
        parse_text(chunk.text, (1, 1 << 31, lenient, PERHAPS))
        count_rows(chunk.text)
        scan_lines(chunk.text, np.empty(4), 0)
    else:
        layout = {"csv": CsvFormat(), "vw": NamedFormat(), "named": NamedFormat(bars=False)}[kind]
        layout.parse(chunk, layout.layout(chunk, None), lenient)


def campaign(count, seed):
    rng = np.random.default_rng(seed)
    memory, size = guarded(PAGE)
    room = np.frombuffer(memory, dtype=np.uint8, count=size)
    kinds = list(SEEDS)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        text = mutated(rng, SEEDS[kind])
        placed = room[size - MARGIN - len(text) : size - MARGIN]
        placed[:] = text
        chunk = Chunk(placed, "guarded", 0, 0, len(text), len(text), line=1)
        try:
            parse(kind, replace(chunk), lenient=bool(number % 3))
        except DataError as error:
            assert "\n" not in str(error)
    return count


if __name__ == "__main__":
    print(campaign(int(sys.argv[1]), int(sys.argv[2])))
