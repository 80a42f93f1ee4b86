"""Safe together: an agent keeps a learner of its own beside the shared one, and predicts with a mixture of
both.

The shared learner takes part in Algorithm 1, the own one never averages. Both see every example and step
along the slope of the loss at their own scores. A weighted majority over them (`ddol.update.mixtures`)
predicts, so that an agent is never much worse than alone, and never much worse than sharing, whatever its
neighbours send.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ddol.update.beside import Geometry, loops_beside
from ddol.update.contract import DUAL, Loops, Update
from ddol.update.layout import LOCAL, UNBOUNDED, Boxes, FeatureList, Field, Layout, Vector
from ddol.update.losses import Loss, one_against_all
from ddol.update.mixtures import FIXED, HARMS_FACTOR, HELPS_FACTOR, LOG, Places, rule_for
from ddol.update.trust import BOXES, SCALARS, WANTS

MEMORIES = (math.inf, 300.0, 30.0, 10.0)
"""Of the memory "auto": rounds after which an example counts 1/e."""
MEMORY_BESIDE = 30.0
"""The second memory of safe agents."""


@dataclass(frozen=True)
class Safe(Update):
    """The shared learner, the agent's own, and the mixture; see the module's docstring.

    Parameters
    ----------
    learner : Update
        What both are.
    loss : Loss
        What scores are compared by, and experts weighed by.
    n_agents, at_once : int, float
        Set by `Algorithm.on`.
    wires : int
        Neighbours at most, the agent itself among them, whose messages are tested before they count; 0 for no
        tests. See `ddol.update.trust`.
    mixes : bool
        Predict with the mixture; else with the shared learner alone, and the own one is for tests.
    fresh : bool
        Set by `Algorithm`: slopes are those at the weights of now.
    memories : tuple of float
        Those of the shared learners, and of the own ones; none for one learner with the memory that it has.
    owns : bool
        Whether there are learners that never average; else the mixture is one over memories.
    outputs : int
        Set by `Algorithm`: several classes have one mixture.

    Examples
    --------
    >>> import ddol
    >>> algorithm = ddol.safe(ddol.dogd("logistic"))
    >>> algorithm.update.learners[0] == ddol.dogd().update, algorithm.update.names
    (True, ('shared', 'own'))
    """

    learner: Update
    loss: Loss
    n_agents: int = 1
    at_once: float | None = None
    wires: int = 0
    mixes: bool = True
    fresh: bool = False
    memories: tuple[float, ...] = ()
    owns: bool = True
    outputs: int = 1

    family = "safe"

    def __post_init__(self) -> None:
        if self.learner.experts or self.learner.randomized:
            raise ValueError(
                "`safe` is for algorithms that learn from the slope of a loss, such as adaptive; weighted "
                "majority is a mixture already"
            )
        if isinstance(self.learner, Safe):
            raise ValueError("the algorithm is safe already")

    # --- the learners and the experts ----------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """What the learners are called, those that are sent first."""
        shared = tuple(f"shared {k}" if k else "shared" for k in range(self.sent))
        own = tuple(f"own {k}" if k else "own" for k in range(self.sent - 1, -1, -1))
        return shared + own if self.owns else shared

    @cached_property
    def learners(self) -> tuple[Update, ...]:
        """Each learner's update: one of all agents, and one of an agent alone."""
        each: list[Any] = [self.learner]
        if self.kept_memories:
            known: Any = self.learner
            each = [replace(known, memory=memory) for memory in self.kept_memories]
        shared = tuple(learner.with_network(self.n_agents, self.at_once) for learner in each)
        own = tuple(learner.by_itself().with_network(1) for learner in reversed(each))
        return shared + own if self.owns else shared

    @property
    def kept_memories(self) -> tuple[float, ...]:
        """Memories of the learners: beside own ones there are two, so that four learners are enough."""
        several = self.owns and len(self.memories) > 2
        return (self.memories[0], MEMORY_BESIDE) if several else self.memories

    @property
    def sent(self) -> int:
        """The first so many learners are averaged with neighbours."""
        return max(len(self.kept_memories), 1)

    @cached_property
    def opinions(self) -> np.ndarray:
        """Λ (experts, learners): the first expert is the agent alone, the last one the shared learner."""
        M = len(self.learners)
        if not self.owns:
            return np.eye(M)
        # Alone, half and half, shared, of all examples; then the others as they are.
        half = 0.5 * (np.eye(M)[0] + np.eye(M)[-1])
        return np.array([np.eye(M)[-1], half, *np.eye(M)[1:-1], np.eye(M)[0]])

    @property
    def shares(self) -> np.ndarray:
        """Weights of the experts before the first answer."""
        count = len(self.opinions)
        return np.full(count, 1.0 / count) if self.mixes else np.eye(count)[-1]

    @property
    def notes_chances(self) -> bool:
        """Whether what experts predicted is noted, so that an answer need not compute it again."""
        return self.outputs == 1 and rule_for(self.loss) == LOG

    @property
    def places(self) -> Places:
        """Where the numbers of the mixture are."""
        return Places(*self.opinions.shape)

    # --- the contract of updates -----------------------------------------------------------------------

    @property
    def grows(self) -> bool:  # type: ignore[override]
        """As the learner."""
        return self.learner.grows

    def check(self, n_features: int) -> None:
        """As the learner."""
        self.learner.check(n_features)

    @lru_cache(maxsize=64)  # noqa: B019 - of values; a run asks for it some twenty times
    def layout(self, space: str, n_features: int) -> Layout:
        """Numbers of all learners, then those of the mixture; see `ddol.update.beside`."""
        own = self.learner.layout(space, n_features)
        message, (rows, counts) = own.message_fields, own.statistics
        sent = [f._replace(name=f"sent {f.name}") for f in own.scalar_fields if f.average != LOCAL]
        counted, sums, maxima = (
            sent[:counts],
            sent[counts : own.linear_scalars],
            sent[own.linear_scalars :],
        )
        mixture = [Field(f"mixture {name}", LOCAL) for name in self.places.names]
        for k, share in enumerate(self.shares):
            mixture[FIXED + k] = mixture[FIXED + k]._replace(start=float(share))
        for k in (HELPS_FACTOR, HARMS_FACTOR):
            mixture[k] = mixture[k]._replace(start=1.0)
        return Layout(
            rows=(*self._of_each(own.row_fields), Field("room", LOCAL), *self._box_rows(own)),
            scalars=(
                *(field for part in (counted, sums, maxima) for field in part * self.sent),
                *self._of_each(own.scalar_fields),
                *self._box_scalars(own),
                *mixture,
            ),
            message=message[:rows] * self.sent + message[rows:] * self.sent,
            collected=0,
            whole=own.whole,
            statistics=(rows * self.sent, counts * self.sent),
            sampled=all(each.layout(space, 1).sampled for each in self.learners)
            if own.sampled
            else False,
            lists=tuple(
                FeatureList(*(None if part is None else f"{name} {part}" for part in listed))  # type: ignore[arg-type]
                for name in self.names
                for listed in own.lists
            ),
            kept=self.places.size
            - 1
            - (self.places.chances if self.notes_chances else self.places.notes),
            boxes=self._boxes(own),
        )

    def _box_rows(self, own: Layout) -> list[Field]:
        """Room to put the shared learner aside, and to gather a message; and the newest message of each
        wire."""
        if not self.wires:
            return []
        rows = len(own.message_fields) - own.statistics[0]
        count = len(own.rows) + rows * (1 + self.wires)
        return [Field(f"box {k}", LOCAL, holds=UNBOUNDED) for k in range(count)]

    def _box_scalars(self, own: Layout) -> list[Field]:
        if not self.wires:
            return []
        boxes = self._boxes(own)
        count = BOXES + boxes.wires * boxes.scalars + len(own.scalars)
        found = [Field(f"box {k}", LOCAL, holds=UNBOUNDED) for k in range(count)]
        return [found[WANTS]._replace(start=1.0), *found[WANTS + 1 :]]

    def _boxes(self, own: Layout) -> Boxes:
        if not self.wires:
            return Boxes()
        count, averaged = len(self.learners), own.linear_scalars + own.largest_scalars
        rows = len(own.message_fields) - own.statistics[0]
        return Boxes(
            wires=self.wires,
            row=(count + 1) * len(own.rows) + 1 + rows,
            rows=rows,
            scalar=self.sent * averaged + count * len(own.scalars),
            scalars=SCALARS + self.sent * averaged,
        )

    def _of_each(self, fields: tuple[Field, ...]) -> list[Field]:
        """What every learner keeps, under names of its own; none of it is sent as it is."""
        return [
            f._replace(name=f"{name} {f.name}", average=LOCAL)
            for name in self.names
            for f in fields
        ]

    def geometry(self, space: str) -> Geometry:
        """Where the numbers of every learner are."""
        own = self.learner.layout(space, 2)
        one, two = (len(self.learner.layout(space, d).rows) for d in (1, 2))
        averaged = self.sent * (own.linear_scalars + own.largest_scalars)
        return Geometry(
            learners=len(self.learners),
            sent=self.sent,
            experts=len(self.opinions),
            rows=(2 * one - two, two - one),
            scalars=len(own.scalars),
            parameters=len(self.learner.parameters()),
            linear=own.linear_scalars,
            largest=own.largest_scalars,
            counted=own.statistics[1],
            message=len(own.message_rows),
            statistics=own.statistics[0],
            mixture=averaged + len(self.learners) * len(own.scalars) + len(self._box_scalars(own)),
            notes=self.places.notes,
            wires=self.wires,
            box=averaged + len(self.learners) * len(own.scalars),
            mixes=self.mixes,
            fresh=self.fresh,
            least=_least(own) if self.wires else (),
            classes=self.outputs > 1,
            lists=_lists(own) if self.wires else (),
        )

    def loops(self, space: str) -> Loops:
        """The learner's loops for each of the learners, and those of the mixture."""
        own = self.learner.loops(space).filled(self.learner.layout(space, 1))
        loss = one_against_all(self.loss) if self.outputs == 2 else self.loss
        return loops_beside(own, self.geometry(space), loss)

    def parameters(self) -> np.ndarray:
        """Those of every learner, Λ, and those of the loss."""
        each = [np.array([*learner.parameters()], float) for learner in self.learners]
        return np.concatenate([*each, self.opinions.reshape(-1), np.array(self.loss.parameters)])

    def start(self, n_features: int) -> Vector:
        """Every learner at its start, and all experts alike."""
        starts = [learner.start(n_features) for learner in self.learners]
        rows = [*(start.rows for start in starts), np.zeros((1, n_features))]
        layout = self.layout(DUAL, n_features)
        averaged = layout.linear_scalars + layout.largest_scalars
        own = [np.zeros(averaged), *(start.scalars for start in starts)]
        others = layout.scalar_fields[sum(map(len, own)) :]
        scalars = [*own, np.array([field.start for field in others])]
        more = np.zeros((len(layout.rows) - sum(map(len, rows)), n_features))
        return Vector(np.concatenate([*rows, more]), np.concatenate(scalars))

    def seeded(self, scalars: np.ndarray, seed: int, first: int = 0) -> np.ndarray:
        """As the learners that are sent."""
        g, found = self.geometry(DUAL), scalars.copy()
        for m, learner in enumerate(self.learners[: self.sent]):
            own = slice(g.averaged + m * g.scalars, g.averaged + (m + 1) * g.scalars)
            found[..., own] = learner.seeded(found[..., own], seed, first)
        return found

    # --- what an algorithm tells its update --------------------------------------------------------------

    def _told(self, tell: Callable[[Update], Update]) -> Safe:
        told = tell(self.learner)
        return self if told is self.learner else replace(self, learner=told)

    def with_network(self, n_agents: int, at_once: float | None = None) -> Safe:
        """The same update for one of so many agents; an agent's own learner remains one of an agent alone."""
        return replace(self, n_agents=n_agents, at_once=at_once)

    @property
    def gradient(self) -> str:  # type: ignore[override]
        """As the learner."""
        return self.learner.gradient

    def with_gradient(self, fresh: bool) -> Safe:
        """The same update, told when slopes are taken."""
        told = self._told(lambda learner: learner.with_gradient(fresh))
        return told if fresh == told.fresh else replace(told, fresh=fresh)

    def to_strangers(self, message: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """As the learner, whose rows come first, says."""
        return self.learner.to_strangers(
            message, rows[: len(self.learner.layout(DUAL, rows.shape[-1]).rows)]
        )

    def from_strangers(self, message: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """As the learner, whose rows come first, says."""
        return self.learner.from_strangers(
            message, rows[: len(self.learner.layout(DUAL, rows.shape[-1]).rows)]
        )

    def with_delay(self, rounds: int) -> Safe:
        """The same update, told how late answers come."""
        return self._told(lambda learner: learner.with_delay(rounds))

    def with_outputs(self, outputs: int) -> Safe:
        """The same update, told how many outputs there are."""
        told = self._told(lambda learner: learner.with_outputs(outputs))
        return told if outputs == told.outputs else replace(told, outputs=outputs)

    def with_chosen_answers(self, chosen: bool) -> Safe:
        """The same update, told whether it sees those answers only that it is not sure of."""
        return self._told(lambda learner: learner.with_chosen_answers(chosen))

    def alone(self) -> Update:
        """The learner, as one of so many agents."""
        return self.learner.with_network(self.n_agents, self.at_once)

    def told(
        self, loss: Loss, mixes: bool, wires: int, owns: bool, memories: tuple[float, ...]
    ) -> Safe:
        """The same update for another loss, or in another place."""
        now = self.loss, self.mixes, self.wires, self.owns, self.memories
        if now == (loss, mixes, wires, owns, memories):
            return self
        found = {"loss": loss, "mixes": mixes, "wires": wires, "owns": owns, "memories": memories}
        return replace(self, **found)  # type: ignore[arg-type]

    # --- what is known of a state -----------------------------------------------------------------------

    def mixture_of(self, scalars: np.ndarray) -> np.ndarray:
        """The mixture's numbers (…, numbers) among an agent's scalars."""
        found: np.ndarray = scalars[..., self.geometry(DUAL).mixture :]
        return found

    def untested(self, theta: np.ndarray, scalars: np.ndarray) -> tuple[Any, Any]:
        """The state without what neighbours sent: of an update that tests nobody, or of the learner."""
        if not self.mixes:
            return self.part_of(theta, scalars, 0)
        g = self.geometry(DUAL)
        rows = len(self.learners) * (g.rows[0] + g.rows[1] * theta.shape[-1]) + 1
        kept = np.concatenate([scalars[..., : g.box], scalars[..., g.mixture :]], axis=-1)
        return theta[..., :rows, :], kept

    def part_of(self, theta: np.ndarray, scalars: np.ndarray, which: int) -> tuple[Any, Any]:
        """State of one learner: arrays (…, rows, D) and (…, scalars), as its own update has them."""
        g = self.geometry(DUAL)
        rows = g.rows[0] + g.rows[1] * theta.shape[-1]
        first = g.averaged + which * g.scalars
        return (
            theta[..., which * rows : (which + 1) * rows, :],
            scalars[..., first : first + g.scalars],
        )


def _lists(own: Layout) -> tuple[tuple[int, int], ...]:
    """Rows and lengths of lists of the features for which another row is not 0."""
    rows = [field.name for field in own.row_fields]
    scalars = [field.name for field in own.scalar_fields]
    found = [each for each in own.lists if each.nonzero is not None]
    return tuple((rows.index(each.row), scalars.index(each.length)) for each in found)


def _least(own: Layout) -> tuple[tuple[int, float], ...]:
    """Numbers of a message that are bounded from below: rows behind the statistics, then scalars behind
    these."""
    first, counted = own.statistics
    rows = own.message_fields[first:]
    known = [(k, field.least) for k, field in enumerate(rows)]
    sums = own.scalar_fields[: own.linear_scalars]
    known += [(len(rows) + k, field.least) for k, field in enumerate(sums) if k >= counted]
    return tuple((k, least) for k, least in known if least > -math.inf)
