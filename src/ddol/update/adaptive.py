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

from ddol.update import scalefree
from ddol.update.contract import LARGEST, LINEAR, LOCAL, Field, Layout, Loops, Network, Update
from ddol.update.scalefree import PACKED, TINY, UNSEEN


@dataclass(frozen=True)
class ScaleFree(Update):
    """What `adaptive` and `coin` have in common.

    Parameters
    ----------
    regression : bool
        Answers are numbers of any size, and steps are in their unit; else answers are classes.
    network : Network
        Set by `Algorithm.on`.
    """

    regression: bool = False
    network: Network = field(default_factory=Network)
    merges: bool = field(init=False, default=False)

    own: int = field(init=False, default=1)
    """Rows of the update itself, behind the common ones."""

    def with_network(self, network: Callable[[], Network]) -> Update:
        """The same update, told of its network."""
        return replace(self, network=network())

    @property
    @abstractmethod
    def own_modes(self) -> tuple[int, ...]:
        """How the own rows are averaged."""

    def layout(self, space: str, n_features: int) -> Layout:
        """Scales and sums of gradients, the update's own rows, and what was seen."""
        common: list[Field | str] = [
            Field("v", LINEAR, UNSEEN),
            Field("P", LINEAR, TINY),
            "X",
            "pot",
            "now",
        ]
        return Layout(
            rows=(*common, *(f"own {k}" for k in range(self.own))),
            scalars=(
                "seen",
                "norms",
                Field("answer", LARGEST),
                Field("phase", LOCAL),
                Field("eta", LOCAL),
            ),
            message=PACKED + self.own_modes,
            collected=2,
            maxima=1,
        )

    def parameters(self) -> tuple[float, ...]:
        """Facts of the network, and the task."""
        network = self.network
        return network.n_agents, network.gap, network.spread, float(self.regression)


@dataclass(frozen=True)
class Adaptive(ScaleFree):
    """Normalised AdaGrad on a network; see the module's docstring."""

    @property
    def own_modes(self) -> tuple[int, ...]:
        """The dual √P·u and √P are averaged linearly."""
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

    @property
    def own_modes(self) -> tuple[int, ...]:
        """Linear, but the largest size by the maximum."""
        return scalefree.COIN_MODES

    def loops(self, space: str) -> Loops:
        """The compiled form."""
        return scalefree.COIN
