"""Streams over other streams: changed, shortened, shuffled, joined, or read by all cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddol.lazy import home_of, lookup

if TYPE_CHECKING:
    from ddol.streams.over.filling import FilledStream, joint_means
    from ddol.streams.over.holdout import HoldoutStream
    from ddol.streams.over.lateness import DELAY, AnsweredStream, Delays
    from ddol.streams.over.shuffle import ShuffledStream
    from ddol.streams.over.wrapped import LimitedStream, ReadAhead, WeightedStream

# A run needs few of them: each is imported on first use.
_HOMES = {
    "ddol.streams.over.filling": "FilledStream joint_means",
    "ddol.streams.over.holdout": "HoldoutStream",
    "ddol.streams.over.lateness": "DELAY AnsweredStream Delays",
    "ddol.streams.over.wrapped": "LimitedStream ReadAhead WeightedStream",
    "ddol.streams.over.shuffle": "ShuffledStream",
}
_HOME_OF = home_of(_HOMES)
__getattr__ = lookup(__name__, _HOME_OF)

__all__ = [
    "DELAY",
    "AnsweredStream",
    "Delays",
    "FilledStream",
    "HoldoutStream",
    "LimitedStream",
    "ReadAhead",
    "ShuffledStream",
    "WeightedStream",
    "joint_means",
]
