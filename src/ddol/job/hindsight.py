"""The model of a finished run on the examples it learned from, beside the errors counted while learning.

Where the order of rows misleads (labels that stand together, say), the errors counted while learning are
low, and the model is bad nevertheless.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ddol.model import Model
from ddol.streams.coding.labels import class_numbers
from ddol.streams.stream import Stream
from ddol.trace import Trace

FEW = 20_000
"""Examples that are predicted once more after every run."""
MANY = 1_000_000
"""Examples that are predicted once more where their order is suspect."""
_MARGIN = 0.02


@dataclass(frozen=True)
class Hindsight:
    """How well the final model predicts what it learned from.

    Parameters
    ----------
    examples : int
    error : float
        Share of wrong classes; of numbers, the root mean squared error.
    r2 : float or None
        Of numbers: the share of their variance that is explained.
    """

    examples: int
    error: float
    r2: float | None = None


def hindsight(model: Model, streams: Sequence[Stream]) -> Hindsight:
    """Predict all examples of encoded streams with the final model: those of a site with its own weights.

    Examples
    --------
    >>> import ddol, numpy as np
    >>> from ddol.streams import array_stream
    >>> X, y = np.eye(4), np.array([-1.0, -1.0, 1.0, 1.0])
    >>> model = ddol.run(ddol.dogd(), (X, y)).model()
    >>> hindsight(model, [array_stream(X, y)])
    Hindsight(examples=4, error=0.0, r2=None)
    """
    n = wrong = 0
    sums = np.zeros(3)  # of the numbers, of their squares, and of the squared errors
    for number, stream in enumerate(streams):
        agent = number if len(streams) > 1 else None
        for rows, _ in stream.read():
            n += len(rows)
            scores = model.scores(rows, agent)
            if model.classes is None:
                sums += rows.y.sum(), np.square(rows.y).sum(), np.square(rows.y - scores).sum()
            else:
                true = (rows.y > 0.0) if scores.ndim == 1 else rows.y
                wrong += int(np.count_nonzero(class_numbers(scores) != true))
    if model.classes is not None:
        return Hindsight(n, wrong / max(n, 1))
    total, squares, missed = sums.tolist()
    variance = squares - total * total / max(n, 1)
    r2 = 1.0 - missed / variance if variance > 0.0 else None
    return Hindsight(n, math.sqrt(missed / max(n, 1)), r2)


def verdict(
    trace: Trace, found: Hindsight | None, grouped: bool, remedy: str, sites: int = 1
) -> str | None:
    """A warning to stand beside the figures of a run; None if there is nothing to warn of.

    Parameters
    ----------
    trace : Trace
    found : Hindsight or None
        None if the examples were not predicted once more.
    grouped : bool
        Whether rows with the same label stand together.
    remedy : str
        What to do where the order of rows is the cause.
    sites : int
        How many streams there were: several may differ in what they should learn.
    """
    because = "rows with the same label stand together" if grouped else "the order of rows matters"
    if sites > 1 and not grouped and not trace.algorithm.safe:
        because = "the sites may differ, or the order of their rows matters"
        remedy = f"--safe tells whom sharing harms; else {remedy}"
    if trace.algorithm.privacy is not None and not grouped:
        because = "the noise of --privacy is in the shared weights"
        remedy = "--agent NAME predicts as a site does, with its own learner beside them"
    if found is None:
        low = "the errors counted while learning are too low"
        return f"{because}: {low}; {remedy}" if grouped else None
    if not trace.classification:
        bad = found.r2 is not None and found.r2 < 0.0 and trace.algorithm.loss.name == "squared"
        shown = "–" if found.r2 is None else f"{found.r2:.3g}"
        said = f"the final model's R² on the same {found.examples:,} examples is {shown}"
        because = "labels rise or fall with the rows" if grouped else because
        return f"{said}: {because}; {remedy}" if grouped or bad else None
    deviation = math.sqrt(max(trace.error * (1.0 - trace.error), 1e-9) / max(found.examples, 1))
    worse = found.error > trace.error + _MARGIN + 3.0 * deviation
    if not grouped and not worse:
        return None
    return (
        f"the final model is wrong on {100 * found.error:.2f} % of the same {found.examples:,} examples, "
        f"where {100 * trace.error:.2f} % were counted while learning: {because}; {remedy}"
    )
