"""What one agent says to agents elsewhere, and takes from them: some of its features, or all."""

# Signatures say the types of compiled functions.
# mypy: disable-error-code=no-untyped-def

from __future__ import annotations

import numpy as np

from ddol.compiled import entry, unpacked
from ddol.engines.kernels.average import adopt_columns, write_columns
from ddol.engines.kernels.layout import FINISH, Worker, part
from ddol.engines.kernels.update import finish_copy


@entry("void(struct*, int64, int64, int64)")
def _write(worker, index, n, out):
    write_columns(unpacked(Worker, worker), 0, index, n, out)


@entry("void(struct*, int64, int64, int64, int64, double)")
def _adopt(worker, index, n, averaged, t, eta):
    worker = unpacked(Worker, worker)
    adopt_columns(worker, 0, index, n, averaged)
    if part(worker, FINISH) != 0:
        finish_copy(worker, 0, t, eta)


def read_message(worker: bytes, columns: np.ndarray | None, n: int, out: np.ndarray) -> None:
    """Write the message of n features, those that are listed or all, to ``out`` (states, numbers)."""
    _write(worker, 0 if columns is None else columns.ctypes.data, n, out.ctypes.data)


def take_average(
    worker: bytes, columns: np.ndarray | None, n: int, averaged: np.ndarray, t: int, eta: float
) -> None:
    """Adopt averaged messages of n features, and project."""
    index = 0 if columns is None else columns.ctypes.data
    _adopt(worker, index, n, averaged.ctypes.data, t, eta)
