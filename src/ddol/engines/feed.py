"""The streams that a run reads, and the moments that it can go back to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ddol.engines.open_round import OpenRound
from ddol.streams.errors import DataError
from ddol.streams.stream import Position, Stream


@dataclass(frozen=True)
class Feed:
    """Streams that a learner follows to their end.

    Parameters
    ----------
    streams : one Stream, or one for each agent
        Labels must be encoded: −1 and +1, or class numbers.
    passes : int
        Times that they are read.
    block_rounds : int or None
        Most rounds of one block; positions are known between blocks only.
    """

    streams: Sequence[Stream] = ()
    passes: int = 1
    block_rounds: int | None = None

    @property
    def n_features(self) -> int:
        """Number of columns, as far as the streams know it."""
        return max((s.n_features for s in self.streams if s.n_features is not None), default=0)

    def counted_features(self) -> int:
        """Number of columns; streams that do not know it are read for it, where that can be done again."""
        unknown = [s for s in self.streams if s.n_features is None and s.restartable]
        widths = (rows.n_features for stream in unknown for rows, _ in stream.read())
        return max(self.n_features, max(widths, default=0))

    @property
    def n_streams(self) -> int:
        """Number of streams; rows that are learned from without any are one."""
        return max(len(self.streams), 1)

    def check_order(self) -> None:
        """Refuse to record passes whose orders differ."""
        from ddol.streams.over.shuffle import is_shuffled

        if any(map(is_shuffled, self.streams)):
            raise DataError(
                "a recording names rows by their number in the data, and a shuffle gives every pass "
                "another order; record one pass (--passes 1), or shuffle the data beforehand "
                "and leave --shuffle out"
            )


class Past(NamedTuple):
    """A moment of a run, without its state."""

    position: Position | None
    curves: Mapping[str, np.ndarray]
    open_round: OpenRound | None = None
    kept: Mapping[str, np.ndarray] = {}
    """The plan's part of the state; see `ddol.engines.plans`."""
