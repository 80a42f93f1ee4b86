"""The contract of *update*: what an agent does alone with the answer to its prediction.

An update is written once. Its `Layout` names the numbers that an agent keeps and says how neighbours
average each of them; its `Loops` are plain Python functions over one row at a time, in O(non-zeros).
The compiled engine calls them by address, the reference `ddol.reference.play_round` calls them as they
are. What follows from the layout (the start, messages, collecting for a shared copy) need not be
written; an update that knows better writes it all the same.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from ddol.compiled import Signature, compile_part
from ddol.update import derived, turns
from ddol.update.layout import (
    COUNT,
    INDEX,
    INTEGER,
    LARGEST,
    LINEAR,
    LOCAL,
    LOG,
    NUMBER,
    UNBOUNDED,
    FeatureList,
    Field,
    Layout,
    Vector,
)

__all__ = [
    "ADD",
    "ARRIVAL",
    "CALLS",
    "COLLECT",
    "COUNT",
    "DUAL",
    "INDEX",
    "INTEGER",
    "KEPT",
    "LARGEST",
    "LINEAR",
    "LOCAL",
    "LOG",
    "MESSAGES",
    "NUMBER",
    "PRIMAL",
    "UNBOUNDED",
    "WHOLE",
    "FeatureList",
    "Field",
    "Interpreted",
    "Layout",
    "Loops",
    "Update",
    "Vector",
]

DUAL, PRIMAL = "dual", "primal"
KEPT, ARRIVAL = "kept", "arrival"
"""Where the gradient of a late answer is taken: at the weights that predicted, or at those of now."""
ADD, COLLECT = "add", "collect"
"""How steps of several agents reach one copy: one after the other, or collected and then together."""
_DERIVED = "as follows from the loops"

_DENSE, _SPARSE = "int64", "uint32*"  # what `index` is; see `ddol.compiled.intrinsics.column`
_NUMBERS = ("which", "g", "eta", "weight", "t", "y")
_STATE = ("double*",) * 3  # w: rows × D numbers of one output; s: its scalars; p: the parameters

CALLS = {
    "score": ("double", "x, index, n, D, which"),
    "step": ("void", "x, index, n, D, g, eta, weight"),
    "begin": ("void", "D, eta, weight"),
    "finish": ("void", "D, t, eta"),
    "observe": ("void", "x, index, n, D"),
    "score_unseen": ("double", "x, index, n, D, which"),
    "hear": ("void", "x, index, n, D, y"),
    "absorb": ("void", "delta, maxima, x, index, n, D, g, eta, weight"),
    "notice": ("void", "delta, maxima, x, index, n, D, y, weight"),
    "commit": ("void", "delta, maxima, index, n, D, eta"),
    "to_message": ("void", "index, n, D, out"),
    "from_message": ("void", "index, n, D, averaged"),
    "to_statistics": ("void", "index, n, D, out"),
    "from_statistics": ("void", "index, n, D, averaged"),
    "weights": ("void", "index, n, D, out"),
    "squares": ("double", "D"),
    "blend": ("void", "outputs, room, scores"),
    "judge": ("void", "outputs, stride, y"),
}
"""What each loop returns, and takes behind ``w, s, p``; the kernel knows the parts by this order."""
MESSAGES = {"to_message", "from_message", "to_statistics", "from_statistics"}
WHOLE = tuple(name for name in CALLS if name in MESSAGES | {"commit", "weights"})
"""Loops over some features that are called for all of them too."""


@dataclass(frozen=True)
class Loops:
    """One update as loops over rows: plain Python functions that the kernel calls by address.

    All take ``w, s, p`` first: the state of one output of one agent (row k of feature d at
    ``w[k * D + d]``), its scalars and the parameters. Examples are ``x, index, n, D``: n values
    ``x[j]`` of the features ``column(index, j)``. Only the first two must be written.

    ===============  ==================================================  =================================
    score            ``(w, s, p, x, index, n, D, which) -> float``       ⟨w, x⟩, or the votes for `which`
    step             ``(w, s, p, x, index, n, D, g, eta, weight)``       along the gradient g·x, times weight
    begin            ``(w, s, p, D, eta, weight)``                       once a round, before any step
    finish           ``(w, s, p, D, t, eta)``                            project, once the round is over
    observe          ``(w, s, p, x, index, n, D)``                       an example, before it is scored
    score_unseen     ``(w, s, p, x, index, n, D, which) -> float``       as if observed, changing nothing
    hear             ``(w, s, p, x, index, n, D, y)``                    an answer, before its step
    absorb           ``(w, s, p, delta, maxima, x, …, g, eta, weight)``  a step, collected for a shared copy
    notice           ``(w, s, p, delta, maxima, x, …, D, y, weight)``    observe and hear, collected
    commit           ``(w, s, p, delta, maxima, index, n, D, eta)``      apply and clear what was collected
    to_message       ``(w, s, p, index, n, D, out)``                     what neighbours average
    from_message     ``(w, s, p, index, n, D, averaged)``                its inverse
    to_statistics    ``(w, s, p, index, n, D, out)``                     statistics of the layout, to send
    from_statistics  ``(w, s, p, index, n, D, averaged)``                its inverse
    weights          ``(w, s, p, index, n, D, out)``                     the primal weights
    squares          ``(w, s, p, D) -> float``                           ‖w‖², if O(1)
    blend            ``(w, s, p, outputs, room, scores)``                scores of several classes, see below
    judge            ``(w, s, p, outputs, stride, y)``                   their answer, before any step
    ===============  ==================================================  =================================

    Messages and weights are made of some features at a time, as steps are: number k of the j-th feature,
    which is ``column(index, j)``, stands at ``out[k * n + j]``. Scalars travel beside messages as the layout
    says: `to_message` reads none that are averaged, and `from_message` finds them averaged.
    An update that notes scores (`Layout.kept`) may look at those of several classes at once: `blend` writes
    their scores, of what each class noted in ``room``, and they are noted, too; `judge` is told which class
    it was. Both have the state of the first class; scalars of the next one stand ``stride`` behind.
    What is collected is summed over agents in ``delta`` (rows of D numbers, then scalars), or the maximum
    is taken in ``maxima``.

    Examples
    --------
    >>> import ddol
    >>> loops = ddol.dogd().update.loops("dual")
    >>> isinstance(loops, Loops), loops.begin is None
    (True, False)
    """

    score: Callable
    step: Callable
    begin: Callable | None = None
    finish: Callable | None = None
    observe: Callable | None = None
    score_unseen: Callable | None = None
    hear: Callable | None = None
    absorb: Callable | None = None
    notice: Callable | None = None
    commit: Callable | None = None
    to_message: Callable | None = None
    from_message: Callable | None = None
    to_statistics: Callable | None = None
    from_statistics: Callable | None = None
    weights: Callable | None = None
    squares: Callable | None = None
    blend: Callable | None = None
    judge: Callable | None = None
    additive: bool = False
    """Steps of one round add up: what one adds to the state does not depend on the others."""
    shared: str | None = _DERIVED
    """How one copy can serve all agents of a complete graph: "add", "collect", or None for not at all.

    Derived: collected where `absorb` is written, and added where steps add up and messages are
    the state's own rows.
    """
    step_and_score: Callable | None = None
    """``(w, s, p, x, index, n, D, z, g, eta, weight, ones, following, next_index, next_n) -> float``.

    `step` along a row whose score was z, and the score of the row that comes next, where both together cost
    less than one after the other. Where ``ones`` is 1, rows lack the 1 that is feature 0: the features that
    they have come behind it.
    """
    branchless_step: bool = False
    """A step along a short row costs less than a wrong guess whether there is a slope."""
    propagates_nan: bool = False
    """A row with a feature that is not finite has no finite score, so nobody need look at it before."""

    @classmethod
    def of(cls, *loops: Callable, **more: Any) -> Loops:
        """Loops that are known by the names of their functions, and whatever else there is to say.

        Examples
        --------
        >>> def score(w, s, p, x, index, n, D, which): ...
        >>> def step(w, s, p, x, index, n, D, g, eta, weight): ...
        >>> Loops.of(score, step, additive=True) == Loops(score, step, additive=True)
        True
        """
        named: dict[str, Any] = {loop.__name__: loop for loop in loops}
        return cls(**named, **more)

    def filled(self, layout: Layout) -> Loops:
        """The same loops, with those that follow from the layout."""
        shared = self.shared
        if shared == _DERIVED:
            sees = self.observe is not None or self.hear is not None
            adds = self.additive and self.to_message is None and not sees
            shared = COLLECT if self.absorb is not None else (ADD if adds else None)
        found: dict[str, Any] = {"score_unseen": self.score_unseen or self.score}
        if shared is not None and self.absorb is None:
            own = self.commit is not None
            found["absorb"] = derived.absorb_gradient if own else derived.absorb(self.step)
            found["commit"] = self.commit or derived.commit(len(layout.rows))
        if self.to_message is None:
            found["to_message"], found["from_message"] = derived.messages(layout.sent)
        found["weights"] = self.weights or derived.weights
        return replace(self, shared=shared, **found)

    @property
    def direct(self) -> bool:
        """Nothing but a slope comes between a score and the step that follows from it."""
        others = self.observe, self.hear, self.finish
        return all(loop is None for loop in others)

    def turn(self, dense: bool, ones: int, value: Callable, derivative: Callable) -> int:
        """Address of all that an agent alone does with an answer to such a loss; see `ddol.update.turns`."""
        kinds = dict.fromkeys(turns.NUMBERS, "double") | dict.fromkeys(turns.COUNTS, "int64")
        kinds |= dict.fromkeys(("index", "next_index"), _DENSE if dense else _SPARSE)
        passed = [kinds.get(argument, "double*") for argument in turns.ARGUMENTS.split(", ")]
        parts = turns.Parts(
            self.score, self.step, self.begin, self.squares, self.step_and_score, value, derivative
        )
        made = turns.turn(parts, self.branchless_step, ones)
        return compile_part(made, Signature("double", tuple(passed)), f"turn({turns.ARGUMENTS})")

    def addresses(
        self, dense: bool, wanted: Collection[str], whole: Collection[str] = WHOLE
    ) -> np.ndarray:
        """Compile what is wanted and not compiled yet: 0 for the rest, in the order of `CALLS`.

        Behind them stand those that are called for all features, whatever rows are: see `WHOLE`.
        """
        row = _DENSE if dense else _SPARSE
        found = [self._address(name, row) if name in wanted else 0 for name in CALLS]
        found += [self._address(name, _DENSE) if name in whole else 0 for name in WHOLE]
        return np.array(found, np.int64)

    def _address(self, name: str, row: str) -> int:
        function = getattr(self, name)
        if function is None:
            return 0
        result, arguments = CALLS[name]
        kinds = dict.fromkeys(("n", "D", "outputs", "stride"), "int64") | {"index": row}
        kinds |= dict.fromkeys(_NUMBERS, "double")
        passed = (kinds.get(argument, "double*") for argument in arguments.split(", "))
        signature = Signature(result, (*_STATE, *passed))
        return compile_part(function, signature, f"{name}(w, s, p, {arguments})")


class Update(ABC):
    """What one agent does alone; see the module's docstring.

    Examples
    --------
    >>> import ddol
    >>> update = ddol.adaptive().update
    >>> isinstance(update, Update), update.experts
    (True, False)
    """

    family: ClassVar[str] = ""
    """What theorems know it as."""
    grows: bool = True
    """New features may appear in mid-stream (the start does not depend on D)."""
    l2: float = 0.0
    """Weight λ of the term λ‖w‖²/2 of the objective, whose step `begin` takes."""
    randomized: bool = False
    """Predictions are drawn."""
    merges: bool = True
    """A batch's merged gradient is as good as its examples, on a shared copy too."""
    experts: bool = False
    """Rows are advice of experts, scores are votes, and a step is given the answer for a slope.

    The first row of a message is the logarithm of the experts' weights.
    """
    penalty: float = 0.0
    """What a wrong expert's log-weight loses, where rows are advice."""
    tie: float = 0.0
    """Scores that differ by no more are tied: rounding must not decide between votes."""
    gradient: ClassVar[str] = KEPT
    """Where the gradient of a late answer is taken, unless the algorithm says."""
    coordinates: ClassVar[tuple[int, int, int] | None] = None
    """Where a score is a sum over standardised features: the rows of centre and 1/scale, and the scalar that
    says how far x̃ may be from 0; see `ddol.update.coordinates`."""

    @abstractmethod
    def layout(self, space: str, n_features: int) -> Layout:
        """What an agent keeps, and what neighbours average in the dual or the primal."""

    @abstractmethod
    def loops(self, space: str) -> Loops:
        """What an agent does."""

    def parameters(self) -> Sequence[float] | np.ndarray:
        """Numbers that the loops find in ``p``."""
        return ()

    def start(self, n_features: int) -> Vector:
        """State before the first round."""
        return self.layout(DUAL, n_features).start(n_features)

    def with_network(self, n_agents: int, at_once: float | None = None) -> Update:
        """The update for one of so many agents, of which an exchange averages `at_once`; most do not care."""
        return self

    def with_gradient(self, fresh: bool) -> Update:
        """The update whose gradients are taken when their answers arrive, or were kept; most do not care."""
        return self

    def with_delay(self, rounds: int) -> Update:
        """The update whose answers come so many rounds late; most do not care."""
        return self

    def with_period(self, rounds: int) -> Update:
        """The update whose agent averages every so many rounds (1 if it is alone); most do not care."""
        return self

    def with_outputs(self, outputs: int) -> Update:
        """The update for one of so many outputs, whose scores are compared; most do not care."""
        return self

    def with_chosen_answers(self, chosen: bool) -> Update:
        """The update that sees those answers only that its agent is not sure of; most do not care."""
        return self

    def alone(self) -> Update:
        """The update without others beside it; most have none."""
        return self

    def by_itself(self) -> Update:
        """The update of a learner whose agent tells nobody what it knows; most are the same."""
        return self

    def seeded(self, scalars: np.ndarray, seed: int, first: int = 0) -> np.ndarray:
        """A start's scalars (agents, outputs, numbers) of all that draw by a seed of their own; most do not.

        The agents are those from number `first` on.
        """
        return scalars

    def range_of(self, scalars: np.ndarray) -> tuple[float, float]:
        """The range that predictions stay in, by an output's scalars; most have none."""
        return -math.inf, math.inf

    def without_range(self) -> Update:
        """The update whose scores are not clipped to a range; most are the same."""
        return self

    def check(self, n_features: int) -> None:
        """Refuse a number of features that this update cannot have."""
        return None

    def to_strangers(self, message: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Rows (rows, n) of a message, for an agent whose history is another one.

        Agents of one run have begun together, nodes have not: numbers that are relative to something in the
        own rows (rows, n) of the state must say what they mean without them.
        """
        return message

    def from_strangers(self, message: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The inverse, at an agent with these rows, of which it may change what it has not used."""
        return message

    def log_weights(self, vector: Vector) -> np.ndarray:
        """Logarithms of the weights (D,) of experts: the first row of a message."""
        return Interpreted(self, DUAL, vector.rows.shape[1]).to_message(vector)[0][0]

    def weights(self, vector: Vector) -> np.ndarray:
        """Primal weights (D,) of a state."""
        return Interpreted(self, DUAL, vector.rows.shape[1]).weights(vector)

    def score(self, vector: Vector, x: np.ndarray, which: int = 0) -> float:
        """Score of one row, as if the state had observed it first."""
        return Interpreted(self, DUAL, len(x)).score_unseen(vector, x, which)


class Interpreted:
    """The loops of an update on NumPy arrays, without a compiler: the reference, and for small things.

    Parameters
    ----------
    update : Update
    space : "dual" or "primal"
    n_features : int

    Examples
    --------
    >>> from ddol.update.mirrors import MirrorDescent
    >>> dogd = Interpreted(MirrorDescent(), "dual", 2)
    >>> vector = dogd.update.start(2)
    >>> dogd.step(vector, np.array([1.0, 3.0]), g=-1.0, eta=0.5, weight=1.0)
    >>> dogd.weights(vector)
    array([0.5, 1.5])
    """

    def __init__(self, update: Update, space: str, n_features: int) -> None:
        self.update, self.D = update, n_features
        self.layout = update.layout(space, n_features)
        self.loops = update.loops(space).filled(self.layout)
        self.p = np.array([*update.parameters(), 0.0], float)

    def _call(self, name: str, vector: Vector, *arguments: float | np.ndarray) -> float:
        loop = getattr(self.loops, name)
        if loop is None:
            return 0.0
        with np.errstate(all="ignore"):  # as compiled code, which has no exceptions
            found = loop(vector.rows.reshape(-1), vector.scalars, self.p, *arguments)
        return 0.0 if found is None else float(found)

    def score(self, vector: Vector, x: np.ndarray, which: int = 0) -> float:
        """Score of a row that was observed."""
        return self._call("score", vector, x, 0, self.D, self.D, float(which))

    def scores(self, own: Sequence[Vector], x: np.ndarray, outputs: int) -> list[float]:
        """Scores of a row that was observed, of an agent's states by output, or its one for all."""
        found = [self.score(own[k % len(own)], x, k) for k in range(outputs)]
        if self.loops.blend is None:
            return found
        kept, blended = self.layout.kept, np.zeros(outputs)
        room = np.concatenate([vector.scalars[-kept - 1 : -3] for vector in own])
        self._call("blend", own[0], outputs, room, blended)
        for vector, score in zip(own, blended, strict=True):
            vector.scalars[-3] = score
        found = blended.tolist()
        return found

    def judge(self, own: Sequence[Vector], y: float) -> None:
        """Be told which class it was."""
        scalars = np.concatenate([vector.scalars for vector in own])
        stride = len(own[0].scalars)
        self._call("judge", Vector(own[0].rows, scalars), len(own), stride, y)
        for vector, numbers in zip(own, scalars.reshape(len(own), -1), strict=True):
            vector.scalars[:] = numbers

    def score_unseen(self, vector: Vector, x: np.ndarray, which: int = 0) -> float:
        """Score of a row, as if it were observed first."""
        return self._call("score_unseen", vector, x, 0, self.D, self.D, float(which))

    def observe(self, vector: Vector, x: np.ndarray) -> None:
        """See an example."""
        self._call("observe", vector, x, 0, self.D, self.D)

    def hear(self, vector: Vector, x: np.ndarray, y: float) -> None:
        """Be told an answer."""
        self._call("hear", vector, x, 0, self.D, self.D, float(y))

    def begin(self, vector: Vector, eta: float, weight: float = 1.0) -> None:
        """Do what is done once, before any step of a round."""
        self._call("begin", vector, self.D, eta, weight)

    def step(self, vector: Vector, x: np.ndarray, g: float, eta: float, weight: float) -> None:
        """Step along g·x."""
        self._call("step", vector, x, 0, self.D, self.D, g, eta, weight)

    def finish(self, vector: Vector, t: int, eta: float) -> None:
        """Project."""
        self._call("finish", vector, self.D, float(t), eta)

    def to_message(
        self, vector: Vector, columns: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rows, of some columns or all, and scalars that neighbours average."""
        index, n = (0, self.D) if columns is None else (columns, len(columns))
        rows, first = np.empty((len(self.layout.message_rows), n)), self.layout.statistics[0]
        self._call("to_statistics", vector, index, n, self.D, rows[:first].reshape(-1))
        self._call("to_message", vector, index, n, self.D, rows[first:].reshape(-1))
        scalars = self.layout.linear_scalars + self.layout.largest_scalars
        return rows, vector.scalars[:scalars].copy()

    def from_message(
        self,
        vector: Vector,
        rows: np.ndarray,
        scalars: np.ndarray,
        statistics: bool = True,
        columns: np.ndarray | None = None,
    ) -> None:
        """Adopt what was averaged, statistics too or not, of some columns or all."""
        index, n = (0, self.D) if columns is None else (columns, len(columns))
        first, counts = self.layout.statistics
        known = 0 if statistics else counts
        vector.scalars[known : len(scalars)] = scalars[known:]
        averaged = np.ascontiguousarray(rows)
        self._call("from_message", vector, index, n, self.D, averaged[first:].reshape(-1))
        if statistics:
            self._call("from_statistics", vector, index, n, self.D, averaged[:first].reshape(-1))

    def weights(self, vector: Vector) -> np.ndarray:
        """Primal weights."""
        out = np.empty(self.D)
        self._call("weights", vector, 0, self.D, self.D, out)
        return out


def _names() -> Iterator[str]:
    return (field.name for field in fields(Loops))


assert tuple(CALLS) == tuple(_names())[: len(CALLS)], "CALLS has the order of the fields of Loops"
