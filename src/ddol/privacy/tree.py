"""Tree aggregation: noise for every prefix of a sum, of which each addend meets few draws only.

Prefix k is known with the noise of one node for each bit of k that is 1 (Dwork et al. 2010; Chan, Shi and
Song 2011): node j covers 2ʲ addends, so an addend is in at most log₂ of their number + 1 nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class TreeNoise:
    """The noise of the prefixes 1, 2, … of a sum of vectors.

    Parameters
    ----------
    shape : tuple
        Of the vectors.
    deviation : float
        Of each node's noise.
    rng : numpy.random.Generator, optional
        By default one that is seeded by the system, as it must be where neighbours are not to guess it.

    Examples
    --------
    >>> noise = TreeNoise((2,), 1.0, np.random.default_rng(0))
    >>> first, second = noise.next(), noise.next()
    >>> noise.nodes.keys()                          # prefix 2 has one node, of both addends
    dict_keys([1])
    """

    def __init__(
        self, shape: tuple[int, ...], deviation: float, rng: np.random.Generator | None = None
    ) -> None:
        self.shape, self.deviation = shape, deviation
        self._rng = np.random.default_rng() if rng is None else rng
        self.prefix = 0
        self.nodes: dict[int, np.ndarray] = {}

    def next(self) -> np.ndarray:
        """The noise of the next prefix."""
        self.prefix += 1
        bit = (self.prefix & -self.prefix).bit_length() - 1
        for lower in range(bit):  # they are within the new node
            self.nodes.pop(lower, None)
        self.nodes[bit] = self.deviation * self._rng.standard_normal(self.shape)
        return np.sum(list(self.nodes.values()), axis=0)

    def state_dict(self) -> dict[str, Any]:
        """All that a restart needs; it is the site's secret."""
        return {"prefix": self.prefix, "nodes": {k: v.copy() for k, v in self.nodes.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`. Draws are new: those that nobody has seen may differ."""
        self.prefix = int(state["prefix"])
        self.nodes = {int(k): np.array(v) for k, v in state["nodes"].items()}
