"""The named algorithms: short compositions of public parts.

Every preset imports its own update, so that a run does not wait for the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from ddol.algorithm import Algorithm
from ddol.parameters import Bounds, Count, NotNegative, Parameter, Positive, Statistics, joined
from ddol.recipes import Preset, given_again, noted, takes
from ddol.update.losses import (
    REGRESSION,
    Loss,
    hinge,
    logistic,
    loss_named,
    perceptron,
    zero_one,
)
from ddol.update.rates import Rate, constant, inverse_sqrt, shaped

if TYPE_CHECKING:
    from ddol.update.majority import Majority

_Steps: TypeAlias = Positive | Rate | Sequence[float]
"""A rate: a number, one for each agent, or a function of the round."""
Steps: TypeAlias = Annotated[_Steps, "Learning rate: a factor on all steps."]
FallingSteps: TypeAlias = Annotated[_Steps, "Learning rate of round 1; it falls with 1/√t."]
AnyLoss: TypeAlias = Annotated[Loss | str, "Loss function."]
LossWeight: TypeAlias = Annotated[
    Positive, "Weight of the loss in the objective C·loss + l1·‖w‖₁ + l2·‖w‖²/2."
]
L1: TypeAlias = Annotated[NotNegative, "Weight of the penalty ‖w‖₁."]
L2: TypeAlias = Annotated[NotNegative, "Weight of the penalty ‖w‖²/2."]
Radius: TypeAlias = Annotated[Positive, "Radius of the ball that weights stay in."]
Clip: TypeAlias = Annotated[bool, "Predict numbers within the range of the labels seen."]
OwnIntercept: TypeAlias = Annotated[
    bool, "Each agent keeps its own intercept, for sites with different shares of the classes."
]
Decay: TypeAlias = Annotated[float, "Factor by which the weight of a wrong expert is multiplied."]
Classes: TypeAlias = Annotated[int, "Number of classes that experts choose from."]
Share: TypeAlias = Annotated[
    Annotated[float, Bounds(least=0, most=0.5)] | Literal["auto"] | None,
    "Share of its weight that every expert passes on to the others in each round, so that a change of the "
    "best expert is followed; auto: 1/(t+1) after round t.",
]


def _constant(rate: Steps) -> Rate:
    return shaped(rate, constant)


def _rate(rate: Steps) -> Rate:
    return shaped(rate, inverse_sqrt)


class NotRegisteredError(ValueError):
    """A file names an algorithm that no preset has."""


def made_again(recipe: Mapping[str, Any]) -> Algorithm:
    """The algorithm that a preset made; a rate that was a function is the preset's own again.

    Examples
    --------
    >>> made_again(dogd("logistic", radius=2.0).recipe).loss.name
    'logistic'
    """
    name = recipe["preset"]
    if name not in PRESETS:
        raise NotRegisteredError(
            f"the algorithm {name!r} is not registered here; import the module that adds it to "
            "ddol.presets.PRESETS (ddol --import MODULE)"
        )
    return PRESETS[name].named(name, given_again(recipe))


@noted
def adaptive(
    loss: AnyLoss = logistic,
    rate: Steps = 1.0,
    C: LossWeight = 1.0,
    l1: L1 = 0.0,
    l2: L2 = 0.0,
    memory: Annotated[float, Bounds(above=1)] | Literal["auto"] = math.inf,
    statistics: Statistics = "shared",
    own_intercept: OwnIntercept = False,
    clip: Clip = True,
    **places: Any,
) -> Algorithm:
    """Standardising adaptive mirror descent (AdaGrad on centred and scaled features).

    Nothing need be chosen: neither the units nor the offsets of dense features matter, nor those of a
    regression's labels. ``l1`` and ``l2`` shrink the weights of standardised features.

    Parameters
    ----------
    memory : float or "auto"
        Forget old examples: their weight falls to 1/e after this many rounds; auto: a mixture of memories.

    Examples
    --------
    >>> adaptive().loss.name, adaptive("squared").update.regression
    ('logistic', True)
    """
    from ddol.update.adaptive import Adaptive

    chosen = loss_named(loss)
    if memory == "auto":
        from ddol.update.safe import MEMORIES

        places, memory = {"memories": MEMORIES, **places}, math.inf
    own = Adaptive(regression=chosen.task == REGRESSION, statistics=statistics, clip=clip)
    update = replace(own, memory=memory, l1=l1, shrink=l2, own_intercept=own_intercept)
    return Algorithm("adaptive", update, chosen, _constant(rate), C, **places)


@noted
def coin(
    loss: AnyLoss = logistic,
    C: LossWeight = 1.0,
    statistics: Statistics = "shared",
    clip: Clip = True,
    **places: Any,
) -> Algorithm:
    """Parameter-free coin betting per feature: no rate at all.

    Examples
    --------
    >>> import ddol, numpy as np
    >>> X = np.random.default_rng(0).standard_normal((1000, 4)); y = np.sign(X @ [1.0, -2.0, 0.5, 0.0])
    >>> ddol.run(coin(), (X, y), 4).error < 0.1
    True
    """
    from ddol.update.coin import Coin

    chosen = loss_named(loss)
    update = Coin(regression=chosen.task == REGRESSION, statistics=statistics, clip=clip)
    return Algorithm("coin", update, chosen, constant(1.0), C, **places)


@noted
def newton(
    loss: AnyLoss = logistic,
    rate: Steps = 1.0,
    C: LossWeight = 1.0,
    rank: Count | None = None,
    statistics: Statistics = "shared",
    clip: Clip = True,
    **places: Any,
) -> Algorithm:
    """Online Newton step, with a full matrix for at most 1,000 features, or with a sketch for any number.

    An example costs O(D²), or O(rank · non-zeros).

    Parameters
    ----------
    rank : int
        Rank of the sketch that replaces the full matrix.

    Examples
    --------
    >>> import ddol, numpy as np
    >>> X = np.random.default_rng(0).standard_normal((1000, 4)); y = np.sign(X @ [1.0, -2.0, 0.5, 0.0])
    >>> [ddol.run(newton(rank=rank), (X, y), ddol.ring(4)).error < 0.1 for rank in (None, 2)]
    [True, True]
    """
    from ddol.update.newton import Newton
    from ddol.update.sketch import SketchedNewton

    chosen = loss_named(loss)
    made: Any = Newton if rank is None else partial(SketchedNewton, rank=rank)
    update = made(regression=chosen.task == REGRESSION, statistics=statistics, clip=clip)
    return Algorithm("newton", update, chosen, _constant(rate), C, **places)


@noted
def dual_averaging(
    loss: AnyLoss = hinge,
    rate: FallingSteps = 1.0,
    l1: L1 = 0.0,
    radius: Radius | None = None,
    C: LossWeight = 1.0,
    **places: Any,
) -> Algorithm:
    """Distributed dual averaging (Duchi, Agarwal and Wainwright), with L1 truncation (Xiao).

    Examples
    --------
    >>> dual_averaging(l1=0.01).update.l1
    0.01
    """
    from ddol.update.averaging import DualAveraging

    update = DualAveraging(l1, math.inf if radius is None else radius)
    return Algorithm("dual_averaging", update, loss_named(loss), _rate(rate), C, **places)


@noted
def dogd(
    loss: AnyLoss = hinge,
    C: LossWeight = 1.0,
    l2: L2 = 1.0,
    rate: FallingSteps = 1.0,
    radius: Radius | None = None,
    **places: Any,
) -> Algorithm:
    """Distributed online gradient descent (the paper's Eq. DOGD, objective C·loss + λ‖w‖²/2).

    Examples
    --------
    >>> dogd(C=0.01).name
    'dogd'
    """
    from ddol.update.domains import everywhere, l2_ball
    from ddol.update.mirrors import MirrorDescent, euclidean

    domain = everywhere if radius is None else l2_ball(radius)
    update = MirrorDescent(euclidean, domain, l2)
    return Algorithm("dogd", update, loss_named(loss), _rate(rate), C, **places)


@noted
def doeg(
    loss: AnyLoss = hinge,
    radius: Positive = 1.0,
    rate: FallingSteps = 1.0,
    C: LossWeight = 1.0,
    **places: Any,
) -> Algorithm:
    """Distributed exponentiated gradient on the L1 ball of ``radius`` S (EG±, the paper's Eq. DOEG).

    Parameters
    ----------
    radius : float
        Radius S of the L1 ball that weights stay in.

    Examples
    --------
    >>> import ddol, numpy as np
    >>> X = np.random.default_rng(0).standard_normal((1000, 4)); y = np.sign(X @ [1.0, -2.0, 0.5, 0.0])
    >>> trace = ddol.run(doeg(radius=4.0), (X, y), 4)
    >>> trace.error < 0.1, bool(np.abs(trace.weights).sum() <= 4.0 + 1e-9)
    (True, True)
    """
    from ddol.update.domains import l1_ball
    from ddol.update.mirrors import MirrorDescent, signed_entropy

    update = MirrorDescent(signed_entropy, l1_ball(radius))
    return Algorithm("doeg", update, loss_named(loss), _rate(rate), C, **places)


@takes(dogd)
def ogd(*args: Any, **options: Any) -> Algorithm:
    """Online gradient descent: `dogd` with one agent (Zinkevich).

    Examples
    --------
    >>> ogd(C=0.01).name, ogd(C=0.01).n_agents
    ('dogd', 1)
    """
    return dogd(*args, **options)


@takes(doeg)
def oeg(*args: Any, **options: Any) -> Algorithm:
    """Exponentiated gradient: `doeg` with one agent (Kivinen and Warmuth).

    Examples
    --------
    >>> oeg(radius=2.0).update.domain.radius
    2.0
    """
    return doeg(*args, **options)


@noted
def winnow(
    rate: Steps = 1.0, radius: Positive = 1.0, C: LossWeight = 1.0, **places: Any
) -> Algorithm:
    """Multiplicative updates on mistakes, weights on the simplex (normalised Winnow).

    Parameters
    ----------
    rate : float, function of the round, or one of either for each agent
        Learning rate.
    radius : float
        Sum of the weights.

    Examples
    --------
    >>> import ddol, numpy as np
    >>> X = np.random.default_rng(0).choice([-1.0, 1.0], (1000, 20)); y = np.sign(X[:, :3].sum(axis=1))
    >>> trace = ddol.run(winnow(rate=0.1), (X, y))
    >>> trace.error < 0.1, round(float(trace.weights.sum()), 9)
    (True, 1.0)
    """
    from ddol.update.domains import simplex
    from ddol.update.mirrors import MirrorDescent, entropy

    update = MirrorDescent(entropy, simplex(radius))
    return Algorithm("winnow", update, perceptron, _constant(rate), C, **places)


@noted
def p_norm(
    p: float = 1.5,
    loss: AnyLoss = perceptron,
    rate: FallingSteps = 1.0,
    radius: Radius | None = None,
    C: LossWeight = 1.0,
    **places: Any,
) -> Algorithm:
    """Mirror descent with ω = ½‖w‖_p² (p-norm algorithms, Grove, Littlestone and Schuurmans).

    Parameters
    ----------
    p : float
        Exponent of the norm, above 1 and at most 2.

    Examples
    --------
    >>> import ddol, numpy as np
    >>> X = np.random.default_rng(0).standard_normal((1000, 4)); y = np.sign(X @ [1.0, -2.0, 0.5, 0.0])
    >>> ddol.run(p_norm(p=1.2), (X, y), 4).error < 0.1
    True
    """
    from ddol.update.domains import everywhere, norm_ball
    from ddol.update.mirrors import MirrorDescent, p_norm_mirror

    domain = everywhere if radius is None else norm_ball(radius)
    update = MirrorDescent(p_norm_mirror(p), domain)
    return Algorithm("p_norm", update, loss_named(loss), _rate(rate), C, **places)


@noted
def dwm_i(
    alpha: Decay = 0.9, n_classes: Classes = 2, share: Share = None, **places: Any
) -> Algorithm:
    """Distributed weighted majority by imitation: geometric means of the weights (Algorithm 2).

    Examples
    --------
    >>> import ddol, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> answers = rng.choice([-1.0, 1.0], 400)
    >>> advice = np.where(rng.random((400, 3)) < [0.1, 0.4, 0.5], -answers[:, None], answers[:, None])
    >>> trace = ddol.run(dwm_i(alpha=0.5), (advice, answers), 4)
    >>> int(trace.weights.argmax()), trace.bounds["DWM-I"]["holds"]
    (0, True)
    """
    from ddol.update.majority import Majority

    return _majority("dwm_i", Majority(alpha, n_classes, False, share), "dual", **places)


@noted
def dwm_a(
    alpha: Decay = 0.9, n_classes: Classes = 2, share: Share = None, **places: Any
) -> Algorithm:
    """Distributed weighted majority by averaging: arithmetic means of the weights (Algorithm 3).

    Examples
    --------
    >>> dwm_a(alpha=0.5).average
    'primal'
    """
    from ddol.update.majority import Majority

    return _majority("dwm_a", Majority(alpha, n_classes, False, share), "primal", **places)


@noted
def drwm(
    alpha: Decay = 0.9,
    n_classes: Classes = 2,
    average: Literal["dual", "primal"] = "dual",
    share: Share = None,
    **places: Any,
) -> Algorithm:
    """Distributed randomised weighted majority: follow expert p with probability w_p/Σw.

    Parameters
    ----------
    average : "dual" or "primal"
        Average in the dual or in the primal space.

    Examples
    --------
    >>> drwm(alpha=0.5).update.randomized
    True
    """
    from ddol.update.majority import Majority

    return _majority("drwm", Majority(alpha, n_classes, True, share), average, **places)


@takes(dwm_i)
def wma(*args: Any, **options: Any) -> Algorithm:
    """Weighted majority: one agent (Littlestone and Warmuth).

    Examples
    --------
    >>> wma(0.5).name, wma(0.5).n_agents
    ('dwm_i', 1)
    """
    return dwm_i(*args, **options)


@takes(drwm)
def rwma(*args: Any, **options: Any) -> Algorithm:
    """Randomised weighted majority: one agent.

    Examples
    --------
    >>> rwma(0.5).update.randomized
    True
    """
    return drwm(*args, **options)


def _majority(name: str, update: Majority, average: str, **places: Any) -> Algorithm:
    outputs = 1 if update.n_classes == 2 else update.n_classes
    return Algorithm(
        name, update, zero_one, constant(1.0), average=average, outputs=outputs, **places
    )


PRESETS: dict[str, Preset] = {
    "adaptive": Preset(adaptive),
    "coin": Preset(coin),
    "newton": Preset(newton),
    "dual_averaging": Preset(dual_averaging),
    "dogd": Preset(dogd),
    "doeg": Preset(doeg),
    "ogd": Preset(ogd),
    "oeg": Preset(oeg),
    "winnow": Preset(winnow, two_classes=True),
    "p_norm": Preset(p_norm),
    "dwm_i": Preset(dwm_i, experts=True, own_average=True),
    "dwm_a": Preset(dwm_a, experts=True, own_average=True),
    "drwm": Preset(drwm, experts=True),
    "wma": Preset(wma, experts=True, own_average=True),
    "rwma": Preset(rwma, experts=True),
}
"""Every named algorithm; a new one is a function above and a line here."""


def preset_name(name: str) -> str:
    """Name of a preset in the registry, from one with dashes or underscores."""
    plain = name.replace("-", "_")
    if plain not in PRESETS:
        known = ", ".join(sorted(each.replace("_", "-") for each in PRESETS))
        raise ValueError(f"algorithm: found {name!r}, expected one of {known}")
    return plain


def preset_parameters(experts: bool | None = None) -> dict[str, Parameter]:
    """Parameters of all presets by name, or only of those with, or without, experts.

    Examples
    --------
    >>> "alpha" in preset_parameters(), "alpha" in preset_parameters(experts=False)
    (True, False)
    """
    chosen = (p for p in PRESETS.values() if experts is None or p.experts == experts)
    return joined(preset.parameters for preset in chosen)
