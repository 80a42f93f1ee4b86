"""Algorithm 1, compiled: predict, update, communicate, average, round after round.

One kernel serves every algorithm, engine and shape of input. What differs is called by address: the
update's loops, the loss, and the communicator that brings numbers across workers. A worker hosts some
of the agents; on the local engine it hosts all of them.

- `layout`: a worker and a block in memory.
- `predict`, `update`, `average`: what happens in a round; `fetching`: rows before they are needed.
- `metrics`: what is written down of a run.
- `rounds`: one round after the other, and what Python calls.
"""

from ddol.engines.kernels.layout import (
    BINARY,
    CLASSES,
    COPIES,
    LOG,
    REGRESSION,
    SHARED_ABSORB,
    SHARED_ADD,
    Examples,
    Worker,
)
from ddol.engines.kernels.rounds import play, read_weights

__all__ = [
    "BINARY",
    "CLASSES",
    "COPIES",
    "LOG",
    "REGRESSION",
    "SHARED_ABSORB",
    "SHARED_ADD",
    "Examples",
    "Worker",
    "play",
    "read_weights",
]
