"""A run as if its stream ended now: late answers come on a copy."""

from __future__ import annotations

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.local import Local
from ddol.engines.registry import Engine, is_scheduled
from ddol.engines.workers.partition import Snapshots
from ddol.streams.rows import Block, no_rows


def delivered(algorithm: Algorithm, engine: Engine) -> Engine:
    """The engine, or a copy in which late answers have come, in rounds without predictions."""
    late = engine.counters().pending
    if late is None or is_scheduled(engine):
        return engine
    ended = Local(algorithm, engine.state())
    ended.play(Block(late.rows.slice(0, 0), np.full_like(late.table, -1)))
    return ended


def seen_now(engine: Engine) -> Snapshots:
    """What there is to see of an engine between two blocks."""
    counters = engine.counters()
    late = counters.pending
    rows = no_rows() if late is None else late.rows.slice(0, 0)
    nothing = np.empty((0, len(counters.mistakes), counters.slopes.shape[2]), np.int64)
    return engine.play(Block(rows, nothing), [0])
