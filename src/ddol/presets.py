"""The named algorithms: short compositions of public parts.

Every preset imports its own update, so that a run does not wait for the others.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from ddol.algorithm import Algorithm
from ddol.update.contract import Update
from ddol.update.losses import (
    LOSSES,
    REGRESSION,
    Loss,
    hinge,
    logistic,
    loss_named,
    perceptron,
    zero_one,
)
from ddol.update.rates import PerAgent, Rate, constant, inverse_sqrt
from ddol.values import dataclass

Steps: TypeAlias = float | Rate | Sequence[float]
"""A rate: a number, one for each agent, or a function of the round."""


def _constant(rate: Steps) -> Rate:
    return _shaped(rate, constant)


def _rate(rate: Steps) -> Rate:
    return _shaped(rate, inverse_sqrt)


def _shaped(rate: Any, shape: Callable[[float], Rate]) -> Rate:
    if callable(rate):
        return rate
    return PerAgent(shape(1.0), tuple(rate)) if np.ndim(rate) else shape(rate)


def noted(make: Callable[..., Algorithm]) -> Callable[..., Algorithm]:
    """A preset whose algorithms remember, in plain values, how they were made."""
    signature = inspect.signature(make)

    @functools.wraps(make)
    def made(*args: Any, **options: Any) -> Algorithm:
        algorithm = make(*args, **options)
        bound = signature.bind(*args, **options)
        bound.apply_defaults()
        given = {name: _plain(v) for name, v in bound.arguments.items() if name != "places"}
        if "loss" in given and algorithm.loss.name not in LOSSES:
            return algorithm  # a loss of one's own has no name to find it by
        return replace(algorithm, recipe={"preset": make.__name__, **given})

    return made


def _takes(other: Callable[..., Algorithm]) -> Callable[[Callable], Callable[..., Algorithm]]:
    """Give a preset the parameters of another one, which it calls."""

    def bind(make: Callable) -> Callable[..., Algorithm]:
        make.__signature__ = inspect.signature(other)  # type: ignore[attr-defined]
        return make

    return bind


def _plain(value: Any) -> Any:
    if isinstance(value, Loss):
        return {"name": value.name, "parameters": list(value.parameters)}
    return None if callable(value) else value


def made_again(recipe: Mapping[str, Any]) -> Algorithm:
    """The algorithm that a preset made; a rate that was a function is the preset's own again.

    Examples
    --------
    >>> made_again(dogd("logistic", radius=2.0).recipe).loss.name
    'logistic'
    """
    given = {name: value for name, value in recipe.items() if value is not None}
    make = PRESETS[given.pop("preset")]
    if isinstance(given.get("loss"), Mapping):
        noted_loss = given["loss"]
        loss = loss_named(noted_loss["name"])
        given["loss"] = replace(loss, parameters=tuple(noted_loss["parameters"]))
    return make(**given)


@noted
def adaptive(
    loss: Loss | str = logistic,
    rate: Steps = 1.0,
    C: float = 1.0,
    l1: float = 0.0,
    l2: float = 0.0,
    memory: float = math.inf,
    **places: Any,
) -> Algorithm:
    """Standardising adaptive mirror descent (AdaGrad on centred and scaled features).

    Nothing need be chosen: neither the units nor the offsets of dense features matter, nor those of a
    regression's answers. ``rate`` scales all steps; ``l1`` and ``l2`` shrink the weights of standardised
    features; ``memory`` is the number of rounds after which an example counts 1/e.

    Examples
    --------
    >>> adaptive().loss.name, adaptive("squared").update.regression
    ('logistic', True)
    """
    from ddol.update.adaptive import Adaptive

    chosen = loss_named(loss)
    numbers = chosen.task == REGRESSION
    update = Adaptive(regression=numbers, memory=memory, l1=l1, shrink=l2)
    return Algorithm("adaptive", update, chosen, _constant(rate), C, **places)


@noted
def coin(loss: Loss | str = logistic, C: float = 1.0, **places: Any) -> Algorithm:
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
    update = Coin(regression=chosen.task == REGRESSION)
    return Algorithm("coin", update, chosen, constant(1.0), C, **places)


@noted
def newton(
    loss: Loss | str = logistic,
    rate: Steps = 1.0,
    C: float = 1.0,
    rank: int | None = None,
    **places: Any,
) -> Algorithm:
    """Online Newton step, with a full matrix for at most 1,000 features, or with a sketch for any number.

    ``rate`` scales all steps; ``rank`` is the number of rows of the sketch. An example costs O(D²), or
    O(rank · non-zeros).

    Examples
    --------
    >>> import ddol, numpy as np
    >>> X = np.random.default_rng(0).standard_normal((1000, 4)); y = np.sign(X @ [1.0, -2.0, 0.5, 0.0])
    >>> ddol.run(newton(), (X, y), ddol.ring(4)).error < 0.1
    True
    >>> ddol.run(newton(rank=2), (X, y), ddol.ring(4)).error < 0.1
    True
    """
    chosen = loss_named(loss)
    numbers = chosen.task == REGRESSION
    return Algorithm("newton", _second_order(numbers, rank), chosen, _constant(rate), C, **places)


def _second_order(regression: bool, rank: int | None) -> Update:
    if rank is None:
        from ddol.update.newton import Newton

        return Newton(regression=regression)
    from ddol.update.sketch import SketchedNewton

    return SketchedNewton(regression=regression, rank=rank)


@noted
def dual_averaging(
    loss: Loss | str = hinge,
    rate: Steps = 1.0,
    l1: float = 0.0,
    radius: float | None = None,
    C: float = 1.0,
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
    loss: Loss | str = hinge,
    C: float = 1.0,
    l2: float = 1.0,
    rate: Steps = 1.0,
    radius: float | None = None,
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
    loss: Loss | str = hinge,
    radius: float = 1.0,
    rate: Steps = 1.0,
    C: float = 1.0,
    **places: Any,
) -> Algorithm:
    """Distributed exponentiated gradient on the L1 ball of ``radius`` S (EG±, the paper's Eq. DOEG).

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


@_takes(dogd)
def ogd(*args: Any, **options: Any) -> Algorithm:
    """Online gradient descent: `dogd` with one agent (Zinkevich).

    Examples
    --------
    >>> ogd(C=0.01).name, ogd(C=0.01).n_agents
    ('dogd', 1)
    """
    return dogd(*args, **options)


@_takes(doeg)
def oeg(*args: Any, **options: Any) -> Algorithm:
    """Exponentiated gradient: `doeg` with one agent (Kivinen and Warmuth).

    Examples
    --------
    >>> oeg(radius=2.0).update.domain.radius
    2.0
    """
    return doeg(*args, **options)


@noted
def winnow(rate: Steps = 1.0, radius: float = 1.0, **places: Any) -> Algorithm:
    """Multiplicative updates on mistakes, weights on the simplex (normalised Winnow).

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
    return Algorithm("winnow", update, perceptron, _constant(rate), **places)


@noted
def p_norm(
    p: float = 1.5,
    loss: Loss | str = perceptron,
    rate: Steps = 1.0,
    radius: float | None = None,
    **places: Any,
) -> Algorithm:
    """Mirror descent with ω = ½‖w‖_p² (p-norm algorithms, Grove, Littlestone and Schuurmans).

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
    return Algorithm("p_norm", update, loss_named(loss), _rate(rate), **places)


@noted
def dwm_i(alpha: float = 0.9, n_classes: int = 2, **places: Any) -> Algorithm:
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
    return _majority("dwm_i", alpha, n_classes, "dual", False, **places)


@noted
def dwm_a(alpha: float = 0.9, n_classes: int = 2, **places: Any) -> Algorithm:
    """Distributed weighted majority by averaging: arithmetic means of the weights (Algorithm 3).

    Examples
    --------
    >>> import ddol, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> answers = rng.choice([-1.0, 1.0], 400)
    >>> advice = np.where(rng.random((400, 3)) < [0.1, 0.4, 0.5], -answers[:, None], answers[:, None])
    >>> trace = ddol.run(dwm_a(alpha=0.5), (advice, answers), 4)
    >>> int(trace.weights.argmax()), trace.bounds["DWM-A"]["holds"]
    (0, True)
    """
    return _majority("dwm_a", alpha, n_classes, "primal", False, **places)


@noted
def drwm(alpha: float = 0.9, n_classes: int = 2, average: str = "dual", **places: Any) -> Algorithm:
    """Distributed randomised weighted majority: follow expert p with probability w_p/Σw.

    Examples
    --------
    >>> import ddol, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> answers = rng.choice([-1.0, 1.0], 400)
    >>> advice = np.where(rng.random((400, 3)) < [0.1, 0.4, 0.5], -answers[:, None], answers[:, None])
    >>> trace = ddol.run(drwm(alpha=0.5), (advice, answers), 4)
    >>> bool(trace.expected_mistakes.sum() <= trace.bounds["DRWM"]["value"])
    True
    """
    return _majority("drwm", alpha, n_classes, average, True, **places)


def wma(alpha: float = 0.9, n_classes: int = 2, **places: Any) -> Algorithm:
    """Weighted majority: one agent (Littlestone and Warmuth).

    Examples
    --------
    >>> wma(0.5).name, wma(0.5).n_agents
    ('dwm_i', 1)
    """
    return dwm_i(alpha, n_classes, **places)


def rwma(alpha: float = 0.9, n_classes: int = 2, **places: Any) -> Algorithm:
    """Randomised weighted majority: one agent.

    Examples
    --------
    >>> rwma(0.5).update.randomized
    True
    """
    return drwm(alpha, n_classes, **places)


def _majority(
    name: str, alpha: float, n_classes: int, average: str, randomized: bool, **places: Any
) -> Algorithm:
    from ddol.update.majority import Majority

    outputs = 1 if n_classes == 2 else n_classes
    update = Majority(alpha, n_classes, randomized)
    return Algorithm(
        name, update, zero_one, constant(1.0), average=average, outputs=outputs, **places
    )


@dataclass(frozen=True)
class Preset:
    """A named algorithm, and what whoever offers it must know.

    Parameters
    ----------
    make : function that returns an Algorithm
        Its arguments are what the algorithm takes: the command line and the estimators read them here.
    experts : bool
        It weighs the advice of experts.
    two_classes : bool
        It tells two classes apart, and no more.
    own_average : bool
        Its name says whether it averages in the dual or the primal.

    Examples
    --------
    >>> sorted(PRESETS["dogd"].parameters)
    ['C', 'l2', 'loss', 'radius', 'rate']
    >>> PRESETS["dogd"].parameters["l2"]
    1.0
    """

    make: Callable[..., Algorithm]
    experts: bool = False
    two_classes: bool = False
    own_average: bool = False

    def __call__(self, *args: Any, **options: Any) -> Algorithm:
        """Make the algorithm."""
        return self.make(*args, **options)

    @property
    def parameters(self) -> dict[str, Any]:
        """What it takes, beside the fields of every algorithm, and the defaults."""
        found = inspect.signature(self.make).parameters.values()
        return {p.name: p.default for p in found if p.kind is not p.VAR_KEYWORD}

    @property
    def summary(self) -> str:
        """What it is, in one line."""
        return (self.make.__doc__ or "").strip().split("\n")[0]


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
