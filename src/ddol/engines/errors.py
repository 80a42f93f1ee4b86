"""What can go wrong with an engine."""

from __future__ import annotations


class RankLostError(RuntimeError):
    """Another process of the job has died."""
