"""Adaptive and coin: updates that need no rate to be chosen, on a network.

*Adaptive* is mirror descent whose distance-generating function learns each feature's scale and slope,
ψ(z, w) = ½ Σ_d √P_d (z_d − w_d)² in normalised coordinates (normalised AdaGrad): one agent steps
u_d ← u_d − η·M·√(t/Σ‖x̃‖²)·g_d/√P_d. Neighbours average the duals √P·u and the √P with the same matrix
and divide, which is the paper's argmin for this ψ.

*Coin* bets on every feature the share of its wealth that past outcomes justify (coin betting, Orabona
and Pál), so that not even the size of a step is a choice.

`ddol.update.scalefree` has the compiled loops, and says what scales and the pot of gradients are.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from ddol.update import scalefree
from ddol.update.rule import LINEAR, Layout, Loops, Network, Update
from ddol.update.scalefree import NOW, OWN, PACKED, POT, TINY, UNSEEN, P, V, X


@dataclass(frozen=True)
class ScaleFree(Update):
    """The reference mathematics that `adaptive`, `coin` and `dual_averaging` have in common.

    Parameters
    ----------
    regression : bool
        Answers are numbers of any size, and steps are in their unit; else answers are classes.
    network : Network
        Set by `Algorithm.on`.
    """

    regression: bool = False
    network: Network = field(default_factory=Network)
    additive: bool = field(init=False, default=False)

    own: int = field(init=False, default=1)
    """Rows of the update itself, behind the common ones."""

    # Rows of the reference: the common slots, what is released, scalars repeated D times, own rows.
    _RELEASED, _SEEN, _NORMS, _LARGEST, _OWN = 5, 6, 7, 8, 9

    def with_network(self, network: Callable[[], Network]) -> Update:
        """The same update, told of its network."""
        return replace(self, network=network())

    def start(self, n_features: int) -> np.ndarray:
        """All zero, nothing seen."""
        state = np.zeros((self._OWN + self.own, n_features))
        state[V] = UNSEEN
        return state

    def scaled(self, state: np.ndarray, x: np.ndarray) -> np.ndarray:
        """x̃: every feature in units of its scale, within [−1, 1]."""
        return np.clip(x * state[V], -1.0, 1.0)

    @abstractmethod
    def normalised(self, state: np.ndarray) -> np.ndarray:
        """Weights of x̃."""

    def weights(self, state: np.ndarray) -> np.ndarray:
        """Weights of the raw features."""
        return self.normalised(state) * np.where(state[V] < UNSEEN, state[V], 0.0)

    def score(self, state: np.ndarray, x: np.ndarray) -> float:
        """Score of a row: its features are clipped to the range seen before."""
        return float(self.normalised(state) @ self.scaled(state, x))

    def observe(self, state: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Count the examples, and let scales grow."""
        after = state.copy()
        after[self._SEEN] += len(X)
        after[self._NORMS] += np.sum(self.scaled(state, X) ** 2)
        answer = np.abs(y).max() if self.regression else 1.0
        after[self._LARGEST] = np.maximum(state[self._LARGEST], answer)
        largest = np.abs(X).max(axis=0)
        inverse = np.divide(1.0, largest, out=np.full_like(largest, UNSEEN), where=largest > 0.0)
        after[V] = np.minimum(state[V], inverse)
        return after

    def unit(self, state: np.ndarray) -> np.ndarray:
        """Size of a step in normalised coordinates: M·√(examples/Σ‖x̃‖²)."""
        norms = state[self._NORMS]
        ratio = np.divide(state[self._SEEN], norms, out=np.zeros_like(norms), where=norms > 0.0)
        return state[self._LARGEST] * np.sqrt(ratio)

    def correlation(self, state: np.ndarray) -> np.ndarray:
        """κ² per feature; 1 for one agent."""
        if self.network.n_agents == 1:
            return np.ones_like(state[P])
        kappa = np.divide(state[X], state[P], out=np.ones_like(state[P]), where=state[P] > 0.0)
        kappa = np.clip(kappa, 0.0, 1.0)
        return np.where(kappa > 1.0 - 1e-9, 1.0, kappa**2)

    def worth(self, state: np.ndarray) -> np.ndarray:
        """P·f per feature."""
        kappa2 = self.correlation(state)
        return state[P] * (kappa2 + (1.0 - kappa2) / self.network.n_agents)

    def learn(self, state: np.ndarray, gradient: np.ndarray, rate: float) -> np.ndarray:
        """Hold the gradient until the neighbours have been asked, or not (`settle`)."""
        held = state.copy()
        held[NOW] = gradient
        return held

    def settle(self, state: np.ndarray, rate: float) -> np.ndarray:
        """Follow the own gradient in a round without an exchange."""
        after, gradient = state.copy(), state[NOW]
        kappa = np.divide(state[X], state[P], out=np.ones_like(state[P]), where=state[P] > 0.0)
        after[X] += np.clip(kappa, 0.0, 1.0) * gradient**2
        after[P] += gradient**2
        after[NOW] = 0.0
        return self.move(after, gradient, rate, after[P])

    def project(self, state: np.ndarray, t: int, rate: float) -> np.ndarray:
        """Follow what was released."""
        released = state[self._RELEASED]
        if not released.any():
            return state
        after = state.copy()
        after[self._RELEASED] = 0.0
        return self.move(after, released, rate, self.worth(after))

    @abstractmethod
    def move(
        self, state: np.ndarray, gradient: np.ndarray, rate: float, worth: np.ndarray
    ) -> np.ndarray:
        """One step along a gradient."""

    @abstractmethod
    def share_own(self, state: np.ndarray) -> list[np.ndarray]:
        """The update's own rows, as neighbours average them."""

    @abstractmethod
    def adopt_own(self, averaged: np.ndarray) -> np.ndarray:
        """Their inverse."""

    def share(self, state: np.ndarray, space: str) -> np.ndarray:
        """P, X, pot, gradient and its square, scales, the own rows, scalars."""
        gradient = state[NOW]
        scale = np.where(state[V] < UNSEEN, 1.0 / state[V], 0.0)
        scalars = state[self._SEEN : self._OWN]
        pot = state[POT] + gradient
        common = [state[P], state[X], pot, gradient, gradient**2, scale]
        return np.stack([*common, *self.share_own(state), *scalars])

    def adopt(self, averaged: np.ndarray, space: str) -> np.ndarray:
        """Add what the agents bring together, and release from the pot."""
        network = self.network
        mean_p, mean_x, pot, gradient, square, scale = averaged[:6]
        state = np.zeros((self._OWN + self.own, averaged.shape[1]))
        state[V] = np.divide(1.0, scale, out=np.full_like(scale, UNSEEN), where=scale > 0.0)
        state[P] = mean_p + square
        state[X] = mean_x
        if network.n_agents > 1:
            state[X] += (gradient**2 - network.spread * square) / (1.0 - network.spread)
        released = (network.gap + (1.0 - network.gap) * self.correlation(state)) * pot
        state[self._RELEASED], state[POT] = released, pot - released
        state[self._SEEN : self._OWN] = averaged[-3:]
        state[self._OWN :] = self.adopt_own(averaged[6:-3])
        return state

    @property
    @abstractmethod
    def own_modes(self) -> tuple[int, ...]:
        """How the own rows are averaged."""

    def layout(self, space: str, n_features: int) -> Layout:
        """Sizes of the compiled state."""
        return Layout(
            slots=OWN + self.own,
            scalars=5,
            packed=PACKED + self.own_modes,
            delta=2,
            maxima=1,
            sums=2,
            maxima_scalars=1,
        )

    def parameters(self) -> np.ndarray:
        """Facts of the network, and the task."""
        network = self.network
        facts = [network.n_agents, network.gap, network.spread, self.regression]
        return np.array(facts, float)

    def begin_state(self, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        """Nothing seen."""
        state = np.zeros((OWN + self.own, n_features))
        state[V], state[P] = UNSEEN, TINY
        return state, np.zeros(5)

    def shared_copy(self, space: str) -> str:
        """Gradients of a round are collected, and applied together."""
        return "absorb"


@dataclass(frozen=True)
class Adaptive(ScaleFree):
    """Normalised AdaGrad on a network; see the module's docstring."""

    def normalised(self, state: np.ndarray) -> np.ndarray:
        """Weights of x̃."""
        return state[self._OWN]

    def move(
        self, state: np.ndarray, gradient: np.ndarray, rate: float, worth: np.ndarray
    ) -> np.ndarray:
        """u ← u − η·M·√(t/Σ‖x̃‖²)·g/√(P·f)."""
        after = state.copy()
        root = np.sqrt(np.where(worth > 0.0, worth, 1.0))
        after[self._OWN] -= rate * self.unit(state) * gradient / root
        return after

    def share_own(self, state: np.ndarray) -> list[np.ndarray]:
        """The dual √P·u, and √P."""
        root = np.sqrt(state[P])
        return [root * state[self._OWN], root]

    def adopt_own(self, averaged: np.ndarray) -> np.ndarray:
        """u = dual / √P."""
        dual, root = averaged
        return np.divide(dual, root, out=np.zeros_like(dual), where=root > 0.0)[None]

    @property
    def own_modes(self) -> tuple[int, ...]:
        """Both are averaged linearly."""
        return (LINEAR, LINEAR)

    def loops(self, space: str) -> Loops:
        """The compiled form."""
        return scalefree.ADAPTIVE


@dataclass(frozen=True)
class Coin(ScaleFree):
    """Coin betting per feature on a network; see the module's docstring.

    Own rows: the sum of the gradients (negated), of their sizes, the largest size, and the reward.
    """

    own: int = field(init=False, default=4)

    def normalised(self, state: np.ndarray) -> np.ndarray:
        """Bets: M·θ/(L·max(G + L, 10·L))·(L·√(t/Σ‖x̃‖²) + R)."""
        total, sizes, size, reward = state[self._OWN :]
        seen = size > 0.0
        largest = np.where(seen, size, 1.0)
        share = total / (largest * np.maximum(sizes + largest, 10.0 * largest))
        answer = state[self._LARGEST]
        wealth = size * self.unit(state) + answer * reward
        return np.where(seen, share * wealth, 0.0)

    def move(
        self, state: np.ndarray, gradient: np.ndarray, rate: float, worth: np.ndarray
    ) -> np.ndarray:
        """Win or lose the bets on one outcome."""
        after, answer = state.copy(), state[self._LARGEST]
        won = np.divide(
            -self.normalised(state) * gradient,
            answer,
            out=np.zeros_like(gradient),
            where=answer > 0.0,
        )
        total, sizes, size, reward = after[self._OWN :]
        np.maximum(reward + won, 0.0, out=reward)
        np.maximum(size, np.abs(gradient), out=size)
        sizes += np.abs(gradient)
        total -= gradient
        return after

    def share_own(self, state: np.ndarray) -> list[np.ndarray]:
        """All own rows as they are."""
        return list(state[self._OWN :])

    def adopt_own(self, averaged: np.ndarray) -> np.ndarray:
        """All own rows as they are."""
        return averaged

    @property
    def own_modes(self) -> tuple[int, ...]:
        """Linear, but the largest size by the maximum."""
        return scalefree.COIN_MODES

    def loops(self, space: str) -> Loops:
        """The compiled form."""
        return scalefree.COIN
