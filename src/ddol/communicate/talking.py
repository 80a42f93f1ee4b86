"""Talking only where it helps: when to send, how to write it, to whom, and what to teach.

=============  =====================================================================================
``talk``       ``always``, ``never``, ``drift:E``: send what has moved by more than E/√t
``compress``   ``float32``, ``top:K`` (the K features that changed most), ``8bit``
``talk_to``    ``k``: of the neighbours, those that disagree most; ``k:loss``: those that do best
``teach``      ``k``: send an example to the k neighbours whom it helps; ``k:gradients``: its gradient
=============  =====================================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

DRIFT = 0.1
"""E where users write ``drift`` alone: found by trial."""

PLAIN, FLOAT32, TOP, EIGHT_BITS = range(4)
_CODES = {"float32": FLOAT32, "top": TOP, "8bit": EIGHT_BITS}
DISAGREEMENT, LOSS = "disagreement", "loss"


@dataclass(frozen=True)
class Talking:
    """When an agent sends: when its state has moved far enough since it last did.

    What is sent in one piece (weights with their scales, or statistics of the features) has moved by the
    largest share ‖m − m_sent‖²/‖m − m_start‖² of its rows: squares of distances, as mirror descent
    measures them, free of units. In its n-th turn an agent sends the pieces that have moved by more than
    E/√n.

    Parameters
    ----------
    threshold : float
        E; infinite for an agent that never talks.

    Examples
    --------
    >>> Talking(0.1).threshold
    0.1
    """

    threshold: float

    def __post_init__(self) -> None:
        if not self.threshold >= 0.0:
            raise ValueError(f"the threshold must be at least 0, it is {self.threshold}")


@dataclass(frozen=True)
class Compression:
    """How messages are written.

    Parameters
    ----------
    kind : "float32", "top" or "8bit"
        ``top`` and ``8bit`` write differences to what was sent before, so that what one message leaves out
        is in the next (error feedback).
    most : float
        Of ``top``: features of a message, or below 1 their share.
    """

    kind: str
    most: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in _CODES:
            raise ValueError(f"unknown code {self.kind!r}; use one of {', '.join(_CODES)}")
        whole = 1.0 <= self.most < math.inf and self.most == int(self.most)
        if not whole and not 0.0 < self.most < 1.0:
            raise ValueError(
                f"top:K must have a whole number of features, or a share below 1, it has {self.most}"
            )

    @property
    def code(self) -> int:
        """As the kernel knows it."""
        return _CODES[self.kind]

    @property
    def has_memory(self) -> bool:
        """Whether a message is a difference to the one before it."""
        return self.kind != "float32"

    def features(self, n_features: int) -> int:
        """Most features of one message."""
        most = math.ceil(self.most * n_features) if self.most < 1.0 else int(self.most)
        return min(most, n_features)


@dataclass(frozen=True)
class Partners:
    """Whom an agent sends to: k of those who hear it.

    Parameters
    ----------
    k : int
    by : "disagreement" or "loss"
        Largest recent |difference of scores| on the agent's own examples, by what it last heard of
        theirs; or lowest recent loss there.
    """

    k: int
    by: str = DISAGREEMENT

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ValueError(f"an agent must talk to at least 1 neighbour, found {self.k}")
        if self.by not in (DISAGREEMENT, LOSS):
            raise ValueError(f"unknown measure {self.by!r}; use {DISAGREEMENT} or {LOSS}")


@dataclass(frozen=True)
class Teaching:
    """To how many neighbours an agent sends an example that helps them.

    Parameters
    ----------
    k : int
    gradients : bool
        Send the gradient alone, and no example.
    """

    k: int
    gradients: bool = False

    def __post_init__(self) -> None:
        if self.k < 0:
            raise ValueError(f"neighbours to teach must be at least 0, found {self.k}")


def talking_of(talk: Talking | str | None) -> Talking | None:
    """Parse a rule; None where every agent always sends.

    Examples
    --------
    >>> talking_of("drift:0.5"), talking_of("always"), talking_of("never").threshold
    (Talking(threshold=0.5), None, inf)
    """
    if talk is None or isinstance(talk, Talking):
        found = talk or Talking(0.0)
    else:
        text = str(talk).strip()
        name, _, number = text.partition(":")
        plain = {"always": 0.0, "never": math.inf, "drift": DRIFT}
        if text in plain:
            found = Talking(plain[text])
        elif name == "drift":
            found = Talking(_number("talk", text, number))
        else:
            raise ValueError(f"`talk`: found {text!r}, expected always, never, drift or drift:E")
    return None if found.threshold == 0.0 else found


def compression_of(compress: Compression | str | None) -> Compression | None:
    """How messages are written, from what users write; None for numbers as they are.

    Examples
    --------
    >>> compression_of("top:100"), compression_of("8bit").has_memory
    (Compression(kind='top', most=100.0), True)
    """
    if compress is None or isinstance(compress, Compression):
        return compress
    text = str(compress).strip()
    if text in ("none", "float64"):
        return None
    if text in ("float32", "8bit"):
        return Compression(text)
    name, _, number = text.partition(":")
    if name != "top":
        raise ValueError(f"`compress`: found {text!r}, expected float32, 8bit, top:K or none")
    most = _number("compress", text, number)
    try:
        return Compression("top", most)
    except ValueError as error:
        raise ValueError(f"`compress`: found {text!r}: {error}") from None


def partners_of(talk_to: Partners | int | str | None) -> Partners | None:
    """Whom to talk to, from what users write; None for all neighbours.

    Examples
    --------
    >>> partners_of(2), partners_of("1:loss").by
    (Partners(k=2, by='disagreement'), 'loss')
    """
    if talk_to is None or isinstance(talk_to, Partners):
        return talk_to
    text = str(talk_to).strip()
    if text == "all":
        return None
    number, colon, by = text.partition(":")
    try:
        return Partners(int(number), by if colon else DISAGREEMENT)
    except ValueError as error:
        why = f": {error}" if "invalid literal" not in str(error) else ""
        raise ValueError(
            f"`talk_to`: found {text!r}, expected a number of neighbours such as 2, 2:loss, or all{why}"
        ) from None


def teaching_of(teach: Teaching | int | str | None) -> Teaching | None:
    """Parse a rule of teaching; None for no teaching.

    Examples
    --------
    >>> teaching_of("2"), teaching_of("1:gradients").gradients, teaching_of(0)
    (Teaching(k=2, gradients=False), True, None)
    """
    if isinstance(teach, Teaching) or teach is None:
        found = teach or Teaching(0)
    else:
        text = str(teach).strip()
        number, _, what = text.partition(":")
        if not number.isdigit() or what not in ("", "gradients"):
            raise ValueError(
                f"`teach`: found {text!r}, expected a number of neighbours such as 2, or 2:gradients"
            )
        found = Teaching(int(number), what == "gradients")
    return found if found.k else None


def _number(name: str, text: str, number: Any) -> float:
    try:
        found = float(number)
    except ValueError:
        found = math.nan
    if not found >= 0.0:
        raise ValueError(
            f"`{name}`: found {text!r}, expected a number of at least 0 behind the colon"
        )
    return found


RULES = {
    "talk": talking_of,
    "compress": compression_of,
    "talk_to": partners_of,
    "teach": teaching_of,
}
"""How each of an algorithm's rules is read."""
