"""The contract of *update*: what an agent does alone with the answer to its prediction.

An update says the same thing twice. Its NumPy methods are the mathematics on whole vectors; the
reference `ddol.algorithm.play_round` is written with them. Its `Loops` are the same steps on one
row at a time, in O(non-zeros); the compiled engine calls them by address. `ddol.testing.check_update`
compares the two, for our updates as for a user's own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ddol.compiled import Signature, compile_part

DUAL, PRIMAL = "dual", "primal"
LINEAR, LOG, MAX = 0, 1, 2
"""How neighbours' numbers are averaged: Σ A v, log Σ A exp v, or the largest."""

_DENSE, _SPARSE = "int64", "uint32*"  # what `index` is; see `ddol.compiled.intrinsics.column`
_NUMBERS = ("which", "g", "eta", "share", "exchanging", "t", "y", "grow")
_STATE = ("double*",) * 3  # w: slots × D numbers of one output; s: its scalars; p: the parameters


@dataclass(frozen=True)
class Loops:
    """One update as loops over rows: plain Python functions that the kernel calls by address.

    All take ``w, s, p`` first: the state of one output of one agent (``slots × D`` numbers, slot k
    of feature d at ``w[k * D + d]``), its scalars and the parameters. Rows are ``x, index, n, D``.

    ========  ==================================================  =================================
    score     ``(w, s, p, x, index, n, D, which) -> float``       ⟨w, x⟩, or the votes for `which`
    begin     ``(w, s, p, D, eta, share, exchanging)``            once a round, before any step; or None
    step      ``(w, s, p, x, index, n, D, g, eta, share)``        the gradient g·x, times share
    absorb    ``(w, s, p, delta, x, index, n, D, g, eta, share)`` the same, collected in ``delta``
    commit    ``(w, s, p, delta, maxima, index, n, D, eta)``        apply and clear what was collected
    finish    ``(w, s, p, D, t, eta)``                            project, once the round is over; or None
    pack      ``(w, s, p, D, out)``                               what neighbours average
    unpack    ``(w, s, p, D, averaged)``                          its inverse
    weights   ``(w, s, p, D, out)``                               the primal weights
    squares   ``(w, s, p, D) -> float``                           ‖w‖²; optional, if O(1)
    observe   ``(w, s, p, x, index, n, D, y, grow)``              an example, before its step; optional
    notice    ``(w, s, p, delta, maxima, x, index, n, D, y, share)`` the same, collected; optional
    ========  ==================================================  =================================

    `observe` is called with ``grow`` 2, or for a batch with 0 for all examples and then with 1 for all:
    0 counts, 1 lets scales grow, 2 does both, so that no example is seen at another's scale.

    What is collected is summed over agents in ``delta`` (rows of D numbers, then scalars) or their
    maximum is taken in ``maxima``; `Layout` says how many of each.
    """

    score: Callable
    begin: Callable | None
    step: Callable
    absorb: Callable
    commit: Callable
    finish: Callable | None
    pack: Callable
    unpack: Callable
    weights: Callable
    squares: Callable | None = None
    observe: Callable | None = None
    notice: Callable | None = None
    branchless_step: bool = False
    """A step along a short row costs less than a wrong guess whether there is a slope."""
    propagates_nan: bool = False
    """A row with a feature that is not finite has no finite score, so nobody need look at it before."""

    def addresses(self, dense: bool) -> np.ndarray:
        """Compile what is not compiled yet; the order is that of the fields."""
        row = _DENSE if dense else _SPARSE
        calls = {
            "score": ("double", "x, index, n, D, which"),
            "begin": ("void", "D, eta, share, exchanging"),
            "step": ("void", "x, index, n, D, g, eta, share"),
            "absorb": ("void", "delta, x, index, n, D, g, eta, share"),
            "commit": ("void", "delta, maxima, index, n, D, eta"),
            "finish": ("void", "D, t, eta"),
            "pack": ("void", "D, out"),
            "unpack": ("void", "D, averaged"),
            "weights": ("void", "D, out"),
            "squares": ("double", "D"),
            "observe": ("void", "x, index, n, D, y, grow"),
            "notice": ("void", "delta, maxima, x, index, n, D, y, share"),
        }
        parts = [(getattr(self, name), name, *call, row) for name, call in calls.items()]
        # What a worker collected is dense, whatever its rows were.
        parts.append((self.commit, "commit", *calls["commit"], _DENSE))
        return np.array([_address(*part) for part in parts], np.int64)


def _address(function: Callable | None, name: str, result: str, arguments: str, row: str) -> int:
    """Address of one loop, compiled for dense or sparse rows; 0 where an update has none."""
    if function is None:
        return 0
    kinds = {"index": row, "n": "int64", "D": "int64", **dict.fromkeys(_NUMBERS, "double")}
    passed = (kinds.get(argument, "double*") for argument in arguments.split(", "))
    signature = Signature(result, (*_STATE, *passed))
    return compile_part(function, signature, f"{name}(w, s, p, {arguments})")


@dataclass(frozen=True)
class Layout:
    """Sizes of an update's compiled state, per output of an agent."""

    slots: int
    scalars: int
    packed: tuple[int, ...]
    """One entry (LINEAR, LOG or MAX) per row of D numbers that neighbours average."""
    delta: int = 1
    """Rows of D numbers that are collected as sums over agents."""
    maxima: int = 0
    """Rows of D numbers that are collected as maxima over agents."""
    sums: int = 0
    """The first so many scalars are sums over agents: collected, and averaged, with the rows."""
    maxima_scalars: int = 0
    """The next so many scalars are maxima over agents."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """How everything that neighbours average is averaged: rows, then scalars."""
        return self.packed + (LINEAR,) * self.sums + (MAX,) * self.maxima_scalars


@dataclass(frozen=True)
class Network:
    """What an update may know of the graph.

    Parameters
    ----------
    n_agents : int
    gap : float
        1 − |second eigenvalue| of the mixing matrix: 1 where one round reaches everybody.
    spread : float
        Mean over agents of Σ_j A_ij²: 1/N where an average is over all agents equally.
    """

    n_agents: int = 1
    gap: float = 1.0
    spread: float = 1.0


class Update(ABC):
    """What one agent does alone; see the module's docstring.

    The reference state of an agent is an array (rows, D) of whatever the update needs.
    """

    grows: bool = True
    """New features may appear in mid-stream (the start does not depend on D)."""
    l2: float = 0.0
    """Weight λ of the term λ‖w‖²/2 of the objective."""
    additive: bool = True
    """Steps along several gradients in one round add up; if not, they are merged into one."""
    randomized: bool = False
    """Predictions are drawn."""
    merges: bool = True
    """A batch's merged gradient is as good as its examples, on a shared copy too."""
    experts: bool = False
    """Rows are advice of experts, and the update is given the answer instead of a slope."""

    @abstractmethod
    def start(self, n_features: int) -> np.ndarray:
        """State before the first round."""

    @abstractmethod
    def weights(self, state: np.ndarray) -> np.ndarray:
        """Primal weights (D,) with which the agent predicts."""

    def score(self, state: np.ndarray, x: np.ndarray) -> float:
        """Score of one row."""
        return float(self.weights(state) @ x)

    def observe(self, state: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """State after seeing a round's examples, before any step: feature scales and the like."""
        return state

    @abstractmethod
    def learn(self, state: np.ndarray, gradient: np.ndarray, rate: float) -> np.ndarray:
        """State after one step along a (sub)gradient."""

    def settle(self, state: np.ndarray, rate: float) -> np.ndarray:
        """State at the end of a round without an exchange, before it is projected."""
        return state

    def project(self, state: np.ndarray, t: int, rate: float) -> np.ndarray:
        """State brought back to the domain, at the end of round t."""
        return state

    @abstractmethod
    def share(self, state: np.ndarray, space: str) -> np.ndarray:
        """Rows of D numbers that neighbours average, in the dual or the primal."""

    @abstractmethod
    def adopt(self, averaged: np.ndarray, space: str) -> np.ndarray:
        """State from averaged rows: the inverse of `share`."""

    @abstractmethod
    def layout(self, space: str, n_features: int) -> Layout:
        """Sizes of the compiled state."""

    @abstractmethod
    def loops(self, space: str) -> Loops:
        """The compiled form."""

    @abstractmethod
    def parameters(self) -> np.ndarray:
        """Numbers that the loops find in ``p``."""

    @abstractmethod
    def begin_state(self, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        """Compiled state (slots, D) and scalars before the first round."""

    def shared_copy(self, space: str) -> str | None:
        """How one copy can serve all agents of a complete graph.

        ``"add"``: agents' steps simply add up; ``"absorb"``: they are collected first and applied
        together; None: every agent needs a copy of its own.
        """
        return "add" if space == DUAL else None

    def with_network(self, network: Callable[[], Network]) -> Update:
        """The update for agents on a network; most do not ask what it is like."""
        return self

    def check(self, n_features: int) -> None:
        """Refuse a number of features that this update cannot have."""
        return None
