"""Asking for answers only where they help: rules that look at how sure a prediction is.

An agent that does not ask learns nothing from that example; its mistakes are counted all the same. The
margin of a prediction is |score| between two classes, the lead of the best score among more, and the lead of
the vote where experts give advice.

==============  ====================================================  ======================================
``b:1``         with probability b/(b + margin)                       Cesa-Bianchi, Gentile and Zaniboni 2006
``adaptive:1``  the same, b times the mean of the margins so far      scale-free
``0.2``         b²/(b² + margin²), at most a fifth of the stream      scale-free, evenly over time
``random:0.2``  with this probability, whatever the margin            Cesa-Bianchi, Lugosi and Stoltz 2005
``experts``     with probability min(1 − lead² + log(1/α)/3, 1)       Castro, Hellström and van Erven 2023
==============  ====================================================  ======================================

A budget steers its b, measured in mean margins too, so that as much is wished for as there is to spend. It
can be sharper about it than the others: squares waste fewer of the answers on what is nearly sure.

`unbiased` rules divide what is learned by the probability of asking, so that in expectation all answers were
bought; those for experts always do. With ``+neighbours`` an agent that wants an answer shows the example to
one neighbour after the other first. Who is sure of it, by a margin above his own threshold, answers in place
of the label.
"""

# Signatures say the types of compiled functions.
# mypy: disable-error-code=no-untyped-def

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ddol.compiled import inner

MARGIN, BUDGET, RANDOM, EXPERTS, ADAPTIVE = 1.0, 2.0, 3.0, 4.0, 5.0
_KINDS = {
    "margin": MARGIN,
    "adaptive": ADAPTIVE,
    "budget": BUDGET,
    "random": RANDOM,
    "experts": EXPERTS,
}

# Places in the parameters, and in what an agent remembers.
KIND, B, SHARE, UNBIASED, SURE = range(5)
STEER, MARGINS, LABELS, HEARD, QUESTIONS, SHOWN = range(6)
NUMBERS = 6
"""Numbers that an agent remembers: the steered b, the sum of its margins, the labels that it asked for, the
answers that it had from neighbours, the questions to them, and the bytes of these: 8 for a number, and 4 for
its place in a sparse row."""

GAIN = 0.02
"""How fast b follows the budget: e-fold in 50 examples that are all wished for, or none."""

TRIED = 20.0
"""Labels that an agent must have asked for before it answers others."""

_WIDE = 1e6


@dataclass(frozen=True)
class Asking:
    """When an agent asks for the answer to an example.

    Parameters
    ----------
    kind : "margin", "adaptive", "budget", "random" or "experts"
    b : float
        Of ``margin``: at this margin every second answer is asked for. Of ``adaptive``: in mean margins.
    share : float
        Of ``budget`` and ``random``: of the stream, from 0 to 1.
    unbiased : bool
        Divide what is learned by the probability of asking.
    sure : float
        A neighbour is sure above this multiple of its own mean margin; never, at ∞.
    """

    kind: str
    b: float = 1.0
    share: float = 1.0
    unbiased: bool = False
    sure: float = math.inf

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise ValueError(f"unknown rule {self.kind!r}; use one of {', '.join(_KINDS)}")
        if not 0.0 <= self.share <= 1.0:
            raise ValueError(f"the share of answers must lie in [0, 1], it is {self.share}")
        if not self.b >= 0.0:
            raise ValueError(f"`b` must be at least 0, it is {self.b}")
        if not self.sure >= 0.0:
            raise ValueError(f"`sure` must be at least 0, it is {self.sure}")
        if self.kind == "budget" and self.unbiased:
            raise ValueError(
                "a rule with a budget has no probability of asking; leave the budget out"
            )

    @property
    def always(self) -> bool:
        """Whether every label is asked for, so that there is nothing to decide."""
        everything = self.kind in ("budget", "random") and self.share == 1.0
        wide = self.kind in ("margin", "adaptive") and self.b == math.inf
        return (everything or wide) and not self.neighbours

    @property
    def by_margin(self) -> bool:
        """Whether an agent asks where it is not sure, and its answers are not those of all examples."""
        return self.kind in ("margin", "adaptive", "budget")

    @property
    def neighbours(self) -> bool:
        """Whether neighbours are asked first."""
        return self.sure < math.inf

    def parameters(self, penalty: float) -> np.ndarray:
        """What `wish` finds in ``p``; `penalty` is log(1/α) where experts give advice, and 0 elsewhere.

        Experts who are asked about at random are charged their losses divided by the chance, as the
        label-efficient forecaster does.
        """
        b = penalty if self.kind == "experts" else self.b
        unbiased = self.unbiased or (self.kind == "random" and penalty > 0.0)
        return np.array([_KINDS[self.kind], b, self.share, float(unbiased), self.sure])


def asking_of(query: Asking | float | str | None) -> Asking | None:
    """A rule from what users write; None where every answer is asked for.

    Examples
    --------
    >>> asking_of("0.2")
    Asking(kind='budget', b=1.0, share=0.2, unbiased=False, sure=inf)
    >>> asking_of("b:1").kind, asking_of(1.0)
    ('margin', None)
    """
    found = query if isinstance(query, Asking) or query is None else _read(query)
    return None if found is None or found.always else found


def _read(query: Any) -> Asking:
    text = str(query).strip()
    rule, _, first = text.partition("+")
    name, _, number = rule.rpartition(":")
    try:
        sure = _sureness(first)
        if rule == "experts":
            return Asking("experts", unbiased=True, sure=sure)
        if name in ("b", "unbiased", "adaptive"):
            kind = "adaptive" if name == "adaptive" else "margin"
            return Asking(kind, b=float(number), unbiased=name == "unbiased", sure=sure)
        if name == "random":
            return Asking("random", share=float(number), sure=sure)
        if not name:
            return Asking("budget", share=float(number), sure=sure)
    except ValueError as error:
        if "must" in str(error):
            raise ValueError(f"`query`: found {text!r}: {error}") from None
    raise ValueError(
        f"`query`: found {text!r}, expected a share of the answers such as 0.2, b:1, adaptive:1, unbiased:1, "
        "random:0.2 or experts, and perhaps +neighbours or +neighbours:2"
    )


def _sureness(text: str) -> float:
    """``sure`` from what follows a +."""
    name, _, number = text.partition(":")
    if not text:
        return math.inf
    if name != "neighbours":
        raise ValueError(text)
    return float(number) if number else 1.0


@inner
def wish(p, own, seen, margin, chance):
    """What an answer is to weigh: 0 where none is wanted, else 1, or 1/probability.

    Parameters
    ----------
    p, own : parameters, and what the agent remembers
    seen : examples of the agent so far, this one included
    margin : how sure the prediction is
    chance : a uniform number in [0, 1)
    """
    kind, share, q = p[KIND], p[SHARE], 1.0
    own[MARGINS] += margin
    if kind == RANDOM:
        q = share
    elif kind == EXPERTS:
        q = min(1.0 - margin * margin + p[B] / 3.0, 1.0)
    elif kind != BUDGET and p[B] == 0.0:
        q = 0.0
    else:
        b = p[B]
        if kind == BUDGET:
            b = math.exp(own[STEER])
        if kind != MARGIN:
            b *= own[MARGINS] / seen
        if b < math.inf and b + margin > 0.0:
            q = b / (b + margin)
            if kind == BUDGET:
                q = q * q / (q * q + (1.0 - q) * (1.0 - q))
    wanted = 1.0 if chance < q else 0.0
    # Wishes are steered, not what is bought: who were refused when there is no room, and wished for more
    # therefore, would soon take whatever comes. Where nothing is known yet, everything is wished for.
    if kind == BUDGET and margin > 0.0:
        steer = own[STEER] + GAIN * (share - wanted) / max(share, 0.05)
        own[STEER] = min(max(steer, -math.log(_WIDE)), math.log(_WIDE))
    return wanted / q if p[UNBIASED] > 0.0 and wanted > 0.0 else wanted


@inner
def buy(p, own, seen, weight):
    """Ask for the label, if one is still wanted (weight > 0) and the budget has room: what it is to weigh."""
    if p[KIND] == BUDGET and own[LABELS] + 1.0 > p[SHARE] * seen:
        return 0.0
    if weight > 0.0:
        own[LABELS] += 1.0
    return weight


@inner
def is_sure(p, own, seen, margin):
    """Whether an agent answers for a neighbour: a margin above its own threshold, and labels of its own.

    Agents that all lived on each other's answers would agree on anything.
    """
    return own[LABELS] >= TRIED and margin > p[SURE] * own[MARGINS] / seen


@inner
def second_chance(chance):
    """A uniform number from the digits that a draw of an expert, with the same number, has no use for."""
    shifted = chance * 67108864.0
    return shifted - math.floor(shifted)
