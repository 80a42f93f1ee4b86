"""Each agent keeps its own centres and scales, or its own intercept: neighbours average the rest.

Where sites measure in other units, or from other offsets, a feature's mean over all of them is nobody's.
What they can share are the weights of standardised features. So statistics, and the counts that stand in
front of an update's own sums among the scalars, stay with the agent. Sums that are averaged must be a
layout's first scalars: copies of them stand there, the update's scalars behind them, and messages carry
one to the other, but for the sums of the intercept.

The intercept stays wherever statistics do: a centre that was learned from rows of one class has taken that
class into the intercept. It may also be all that stays, where classes have other shares at each site.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from ddol.compiled import address_of, floats, inner
from ddol.update.answers import OWN_SUMS
from ddol.update.contract import LOCAL, Field, Loops


class Sent(NamedTuple):
    """Which scalars of an update are copied to be sent, and which of these are not adopted.

    Parameters
    ----------
    first, size : int
        The scalars that are sent.
    kept, kept_end : int
        Those from one to another are the intercept's.

    Examples
    --------
    >>> Sent.of(True, (7, 8)), Sent.of(False, (7, 8))
    (Sent(first=5, size=6, kept=7, kept_end=9), Sent(first=0, size=11, kept=7, kept_end=9))
    """

    first: int
    size: int
    kept: int
    kept_end: int

    @classmethod
    def of(cls, own_statistics: bool, intercept: tuple[int, ...], limits: int = 0) -> Sent:
        """What is sent, with so many limits of a shared range of answers behind the sums."""
        first, end = (OWN_SUMS, _SUMS) if own_statistics else (0, _SUMS + limits)
        return cls(first, end - first, intercept[0], intercept[-1] + 1)


_SUMS = OWN_SUMS + 6
"""The sums of `ddol.update.coordinates` that are averaged, six of the update itself at their end."""


def scalars_of_own(scalars: tuple[Field, ...], sent: Sent) -> tuple[Field, ...]:
    """Copies of the sums that are sent, then all scalars, of which none is.

    Examples
    --------
    >>> from ddol.update.coordinates import SCALARS
    >>> [field.name for field in scalars_of_own(SCALARS, Sent.of(True, (7, 8)))][5:8]
    ['sent own 5', 'sampled', 'seen']
    """
    sums = scalars[sent.first : sent.first + sent.size]
    copies = tuple(field._replace(name=f"sent {field.name}") for field in sums)
    return copies + tuple(field._replace(average=LOCAL) for field in scalars)


@functools.cache
def loops_of_own(loops: Loops, sent: Sent) -> Loops:
    """The loops of a standardising update, whose scalars are those of `scalars_of_own`.

    Parameters
    ----------
    loops : Loops
    sent : Sent
    """
    shift = sent.size

    @inner(inlined=True)
    def own(s):
        return floats(address_of(s, shift))

    found: dict[str, Any] = _learning(loops, own) | _talking(loops, own, sent)
    if loops.hear is not None:
        heard = inner(loops.hear)

        def hear(w, s, p, x, index, n, D, y):
            heard(w, own(s), p, x, index, n, D, y)

        found["hear"] = hear
    if sent.first == 0:
        found |= _counting(loops, own)
    return Loops(**found, additive=True, shared=None, propagates_nan=loops.propagates_nan)


def _learning(loops: Loops, own: Callable) -> dict[str, Callable]:
    scored, stepped, observed = inner(loops.score), inner(loops.step), inner(loops.observe)
    finished, read = inner(loops.finish), inner(loops.weights)

    def score(w, s, p, x, index, n, D, which):
        return scored(w, own(s), p, x, index, n, D, which)

    def step(w, s, p, x, index, n, D, g, eta, weight):
        stepped(w, own(s), p, x, index, n, D, g, eta, weight)

    def observe(w, s, p, x, index, n, D):
        observed(w, own(s), p, x, index, n, D)

    def finish(w, s, p, D, t, eta):
        finished(w, own(s), p, D, t, eta)

    def weights(w, s, p, index, n, D, out):
        read(w, own(s), p, index, n, D, out)

    return {
        "score": score, "step": step, "observe": observe, "finish": finish, "weights": weights,
    }  # fmt: skip


def _talking(loops: Loops, own: Callable, sent: Sent) -> dict[str, Callable]:
    written, taken = inner(loops.to_message), inner(loops.from_message)
    first, count, kept, end = sent
    begin = 0 if first else 1  # the first count is of statistics, which some exchanges leave out

    def to_message(w, s, p, index, n, D, out):
        for k in range(count):
            s[k] = s[count + first + k]
        written(w, own(s), p, index, n, D, out)

    def from_message(w, s, p, index, n, D, averaged):
        for k in range(begin, count):
            if not kept <= first + k < end:
                s[count + first + k] = s[k]
        taken(w, own(s), p, index, n, D, averaged)

    return {"to_message": to_message, "from_message": from_message}


def _counting(loops: Loops, own: Callable) -> dict[str, Callable]:
    """Messages of statistics, where these are shared."""
    written, taken = inner(loops.to_statistics), inner(loops.from_statistics)

    def to_statistics(w, s, p, index, n, D, out):
        written(w, own(s), p, index, n, D, out)

    def from_statistics(w, s, p, index, n, D, averaged):
        mine = own(s)
        mine[0] = s[0]
        taken(w, mine, p, index, n, D, averaged)

    return {"to_statistics": to_statistics, "from_statistics": from_statistics}
