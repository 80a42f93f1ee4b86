"""Data-distributed online learning: N agents on a graph, each with its own stream of examples.

In every round each agent predicts on its own example, learns from the answer, exchanges weights with
its neighbours and averages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddol.lazy import home_of, lookup
from ddol.version import __version__

if TYPE_CHECKING:
    from ddol.algorithm import Algorithm
    from ddol.communicate.mixing import changing, from_links, metropolis, uniform
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
    from ddol.engines.state import start_state
    from ddol.engines.tickets import TicketLearner
    from ddol.estimators import DDOLClassifier, DDOLRegressor, WeightedMajorityClassifier
    from ddol.job.job import Job
    from ddol.job.run import run
    from ddol.job.train import train
    from ddol.model import Model, load
    from ddol.node.node import Node
    from ddol.presets import (
        adaptive,
        coin,
        doeg,
        dogd,
        drwm,
        dual_averaging,
        dwm_a,
        dwm_i,
        newton,
        oeg,
        ogd,
        p_norm,
        rwma,
        winnow,
        wma,
    )
    from ddol.reference import play_round
    from ddol.schedules.conditions import Conditions
    from ddol.schedules.schedule import Schedule
    from ddol.study.sweep import sweep
    from ddol.together import private, safe
    from ddol.trace import Trace
    from ddol.update.losses import Loss
    from ddol.update.mirrors import MirrorDescent, separable_mirror

# Modules are imported when one of their names is first used: `ddol --help` waits for no compiler.
_HOMES = {
    "ddol.algorithm": "Algorithm",
    "ddol.reference": "play_round",
    "ddol.communicate.mixing": "changing from_links metropolis uniform",
    "ddol.communicate.topologies": (
        "complete erdos_renyi exponential from_adjacency from_edges from_networkx grid "
        "hypercube path random_regular ring star torus"
    ),
    "ddol.engines.local": "advance",
    "ddol.job.job": "Job",
    "ddol.job.run": "run",
    "ddol.job.train": "train",
    "ddol.engines.state": "start_state",
    "ddol.engines.tickets": "TicketLearner",
    "ddol.estimators": "DDOLClassifier DDOLRegressor WeightedMajorityClassifier",
    "ddol.study.sweep": "sweep",
    "ddol.together": "private safe",
    "ddol.trace": "Trace",
    "ddol.model": "Model load",
    "ddol.node.node": "Node",
    "ddol.presets": (
        "adaptive coin doeg dogd drwm dual_averaging dwm_a dwm_i newton oeg ogd p_norm rwma winnow wma"
    ),
    "ddol.schedules.conditions": "Conditions",
    "ddol.schedules.schedule": "Schedule",
    "ddol.update.losses": "Loss",
    "ddol.update.mirrors": "MirrorDescent separable_mirror",
}
_HOME_OF = home_of(_HOMES)
__getattr__ = lookup(__name__, _HOME_OF)

__all__ = [
    "Algorithm",
    "Conditions",
    "DDOLClassifier",
    "DDOLRegressor",
    "Job",
    "Loss",
    "MirrorDescent",
    "Model",
    "Node",
    "Schedule",
    "TicketLearner",
    "Trace",
    "WeightedMajorityClassifier",
    "__version__",
    "adaptive",
    "advance",
    "changing",
    "coin",
    "complete",
    "doeg",
    "dogd",
    "drwm",
    "dual_averaging",
    "dwm_a",
    "dwm_i",
    "erdos_renyi",
    "exponential",
    "from_adjacency",
    "from_edges",
    "from_links",
    "from_networkx",
    "grid",
    "hypercube",
    "load",
    "metropolis",
    "newton",
    "oeg",
    "ogd",
    "p_norm",
    "path",
    "play_round",
    "private",
    "random_regular",
    "ring",
    "run",
    "rwma",
    "safe",
    "separable_mirror",
    "star",
    "start_state",
    "sweep",
    "torus",
    "train",
    "uniform",
    "winnow",
    "wma",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
