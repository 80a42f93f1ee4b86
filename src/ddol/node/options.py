"""Options of a node, beside its name and its algorithm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddol.communicate.robust import Robust, robust_of
from ddol.node.errors import NodeError
from ddol.node.journal import flush_seconds, seconds_of
from ddol.node.labels import LiveLabel

_COUNTS = (
    ("hash_bits", 1, 31), ("n_features", 1, 1 << 31), ("waiting", 1, 1 << 50), ("window", 1, 1 << 30),
    ("log_bytes", 1 << 10, 1 << 50),
)  # fmt: skip
"""Options that are whole numbers, with their limits."""
_KINDS: tuple[tuple[str, tuple[type, ...], str], ...] = (
    ("columns", (Sequence,), "names of features"),
    ("classes", (Sequence,), "a list of labels"),
    ("labels", (Mapping,), "labels of this site and their common names"),
    ("store", (str, Path), "a folder"),
    ("durability", (str,), "sync, batch:5ms or none"),
    ("expire", (str, int, float), "a time such as 30m, or seconds"),
    ("keep_all", (bool,), "true or false"),
)


@dataclass(frozen=True)
class NodeOptions:
    """Settings of a `Node`.

    Parameters
    ----------
    hash_bits : int, optional
        Hash names of features to 2^bits columns; by default each has its own.
    n_features : int, optional
        Values of an array, where they are known beforehand.
    columns : sequence of str, optional
        Features, where they are known beforehand, such as ``age`` or ``country=fr``; others are left out.
    classes : sequence, optional
        Labels, where they are known beforehand; nodes that average must agree.
    labels : mapping, optional
        Labels of this site and their common names: ``{"ja": "yes"}``.
    store : path, optional
        Folder of the journal and snapshots; without it nothing is kept when the node ends.
    durability : str
        ``sync``, ``batch:5ms`` or ``none``: when answers are flushed to the disk.
    waiting : int
        Most predictions that wait for labels; beyond it the oldest expire.
    expire : str or float
        How long a prediction waits: ``30m``, or seconds.
    window : int
        Number of answers in `error_window`.
    log_bytes : int
        Size of the log after which a snapshot is written.
    keep_all : bool
        Keep the whole journal, for `ddol replay`.
    compress : str, optional
        ``float32``: messages of half the size.
    average : str or function, optional
        ``clip:b`` or ``trim:b``: how messages are averaged where up to b peers may send false ones. A
        function is a rule of your own, as in `ddol.communicate.robust`.
    """

    hash_bits: int | None = None
    n_features: int | None = None
    columns: Sequence[str] | None = None
    classes: Sequence[LiveLabel] | None = None
    labels: Mapping[str, LiveLabel] | None = None
    store: str | Path | None = None
    durability: str = "batch:5ms"
    waiting: int = 100_000
    expire: str | float = "1h"
    window: int = 1000
    log_bytes: int = 64 << 20
    keep_all: bool = False
    compress: str | None = None
    average: str | Callable | None = None

    def __post_init__(self) -> None:
        for name, least, most in _COUNTS:
            value: Any = getattr(self, name)
            if value is not None and (type(value) is not int or not least <= value <= most):
                raise NodeError(
                    f"`{name}`: found {value!r}, expected a whole number from {least:,} to {most:,}"
                )
        for name, kinds, expected in _KINDS:
            value = getattr(self, name)
            if value is not None and (
                not isinstance(value, kinds) or (isinstance(value, str) and str not in kinds)
            ):
                raise NodeError(f"`{name}`: found {value!r}, expected {expected}")
        if self.compress not in (None, "float32"):
            raise NodeError(
                f"`compress`: found {self.compress!r}, expected float32; top:K and 8bit send differences, "
                "which a node that joins late has not heard"
            )
        flush_seconds(self.durability)
        seconds_of(self.expire)
        if self.robust is None and self.average is not None:
            raise NodeError(
                f"`average`: found {self.average!r}, expected clip:1, trim:1 or a function"
            )

    @property
    def robust(self) -> Robust | None:
        """The rule of `average`."""
        return robust_of(self.average)

    @property
    def expire_seconds(self) -> float:
        """How long a prediction waits."""
        return seconds_of(self.expire)
