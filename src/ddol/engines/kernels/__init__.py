"""Algorithm 1, compiled: predict, update, communicate, average, round after round.

What differs between algorithms, engines and shapes of input is called by address: the update's loops, the
loss, and the communicator that brings numbers across workers. A worker hosts some of the agents; on
the local engine it hosts all of them.

- `layout`: a worker and a block in memory.
- `predict`, `update`, `average`: what happens in a round; `reading`: rows, before they are needed.
- `rounds`: one round after the other, in the kernels that Python calls.
- `metrics`: what is seen while a run goes on; `scoring`: scores of rows, without learning.
"""

from ddol.engines.kernels.layout import (
    BINARY,
    CLASSES,
    COPIES,
    LOG,
    REGRESSION,
    SHARED_ADD,
    SHARED_COLLECT,
    SLOTS,
    Examples,
    Links,
    Memory,
    Rules,
    Scratch,
    Shape,
    SnapshotPlaces,
    Worker,
)
from ddol.engines.kernels.rounds import kernel_for, play, read_weights, snapshot_now
from ddol.engines.kernels.scoring import Standardised, read_products, read_scores

__all__ = [
    "BINARY",
    "CLASSES",
    "COPIES",
    "LOG",
    "REGRESSION",
    "SHARED_ADD",
    "SHARED_COLLECT",
    "SLOTS",
    "Examples",
    "Links",
    "Memory",
    "Rules",
    "Scratch",
    "Shape",
    "SnapshotPlaces",
    "Standardised",
    "Worker",
    "kernel_for",
    "play",
    "read_products",
    "read_scores",
    "read_weights",
    "snapshot_now",
]
