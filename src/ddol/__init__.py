"""Data-distributed online learning: N agents on a graph, each with its own stream of examples.

In every round each agent predicts on its own example, learns from the answer, exchanges weights with
its neighbours and averages.
"""

from __future__ import annotations

from ddol.algorithm import Algorithm, play_round
from ddol.communicate.mixing import changing, metropolis, uniform
from ddol.communicate.topologies import (
    complete,
    erdos_renyi,
    exponential,
    from_adjacency,
    from_edges,
    from_networkx,
    grid,
    hypercube,
    path,
    random_regular,
    ring,
    star,
    torus,
)
from ddol.engines.local import advance
from ddol.engines.session import run
from ddol.engines.state import start_state
from ddol.measure.trace import Trace
from ddol.presets import (
    doeg,
    dogd,
    drwm,
    dwm_a,
    dwm_i,
    oeg,
    ogd,
    p_norm,
    rwma,
    winnow,
    wma,
)

__version__ = "0.1.0"

__all__ = [
    "Algorithm",
    "Trace",
    "advance",
    "changing",
    "complete",
    "doeg",
    "dogd",
    "drwm",
    "dwm_a",
    "dwm_i",
    "erdos_renyi",
    "exponential",
    "from_adjacency",
    "from_edges",
    "from_networkx",
    "grid",
    "hypercube",
    "metropolis",
    "oeg",
    "ogd",
    "p_norm",
    "path",
    "play_round",
    "random_regular",
    "ring",
    "run",
    "rwma",
    "star",
    "start_state",
    "torus",
    "uniform",
    "winnow",
    "wma",
]
