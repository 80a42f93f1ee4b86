"""The progress of a run, as `on_progress` is called with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ddol.engines.drift import Rise
from ddol.engines.workers.partition import Snapshots
from ddol.streams.coding.units import UnitDoubt
from ddol.streams.stream import Position

if TYPE_CHECKING:
    from ddol.recording import Moment


@dataclass(frozen=True)
class Progress:
    """Where a run stands after some rounds.

    Parameters
    ----------
    rounds, examples : int
        Of all agents.
    agent_examples, mistakes, expected_mistakes, loss : (N,)
        Per agent; expected where an expert is drawn.
    consensus, best_log_weight : float
        See `ddol.recording.Curves`.
    messages, bytes_sent : int
    seconds : float
    position : Position or None
        Of the streams; None in the middle of a block.
    moments : tuple of Moment
    edges : (edges, 4) or None
        See `ddol.trace.Trace`.
    may_stop : bool
        Whether the run may be stopped here, though no block ends: agents play for themselves.
    window_error : float or None
        Mistakes by example among the last ``window`` examples; their mean loss for regression.
    window : int
        Examples of the window: those of ``--window`` or more, since the window begins at a report.
    drift : tuple of Rise
        Alarms so far: the error of the last examples had risen.
    units : tuple of UnitDoubt
        Features that have come to be in other units at a site.

    Examples
    --------
    >>> import ddol
    >>> seen = []
    >>> X = np.random.default_rng(0).standard_normal((64, 3))
    >>> trace = ddol.run(ddol.dogd(), (X, np.sign(X[:, 0])), 2, on_progress=seen.append)
    >>> seen[-1].examples, seen[-1].agent_examples.tolist()
    (64, [32, 32])
    """

    rounds: int
    examples: int
    agent_examples: np.ndarray
    mistakes: np.ndarray
    expected_mistakes: np.ndarray
    loss: np.ndarray
    consensus: float
    best_log_weight: float
    messages: int
    bytes_sent: int
    seconds: float
    position: Position | None
    moments: tuple[Moment, ...] = ()
    edges: np.ndarray | None = None
    may_stop: bool = False
    window_error: float | None = None
    window: int = 0
    drift: tuple[Rise, ...] = ()
    units: tuple[UnitDoubt, ...] = ()

    @property
    def error(self) -> float:
        """Mistakes by example, of all agents so far."""
        return float(self.mistakes.sum()) / max(self.examples, 1)

    @property
    def mean_loss(self) -> float:
        """Loss by example, of all agents so far."""
        return float(self.loss.sum()) / max(self.examples, 1)

    @classmethod
    def of(cls, seen: Snapshots, **known: Any) -> Progress:
        """The last of some snapshots, and what is ``known`` besides."""
        mistakes, loss, expected, examples = seen.counters[-1].T
        consensus, best = seen.metrics[-1]
        return cls(
            rounds=int(seen.rounds[-1]),
            examples=int(examples.sum()),
            agent_examples=examples.astype(np.int64),
            mistakes=mistakes.astype(np.int64),
            expected_mistakes=expected,
            loss=loss,
            consensus=float(consensus),
            best_log_weight=float(best),
            **known,
        )
