"""Examples that are dictionaries: columns of named features, agents that learn from them, late labels."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.learner import Learner
from ddol.engines.setup import Setup
from ddol.estimators.agent_ids import AgentIds
from ddol.reference import margin_of
from ddol.streams.coding.names import MOST_NAMES, Names
from ddol.streams.raw import Named
from ddol.streams.rows import LARGEST, Rows, no_rows
from ddol.update.asking import LABELS, NUMBERS, asking_of, buy, wish

Example = Mapping[Any, Any]

INTERCEPT = 0
"""Column of the constant 1, which comes first so that it stays when features are added."""

_NO_WEIGHT = np.empty(0)
_REMEMBERED = 1 << 20


class DictColumns:
    """Rows of dictionaries: column 0 is the intercept, the others are those of `Names`.

    Parameters
    ----------
    bits : int or None
        None gives every new name the next column. Otherwise names are hashed into 2^bits columns,
        which bounds the memory; names that fall together add up.

    Examples
    --------
    >>> columns = DictColumns()
    >>> rows = columns.rows([{"age": 30.0, "city": "Bern"}, {"age": 40.0}], [1.0, -1.0])
    >>> rows.to_scipy().toarray()[:, :3]
    array([[ 1., 30.,  1.],
           [ 1., 40.,  0.]])
    """

    def __init__(self, bits: int | None = None) -> None:
        self.names = Names(bits=bits)
        self._places: dict[Hashable, int] = {}
        self._signs: dict[Hashable, float] = {}
        self._unlearned: set[Hashable] = set()
        self._told = False
        self._width = 0
        self._room = no_rows()
        self._shorter: dict[int, Rows] = {}
        self._last: tuple[dict, Rows, bool] | None = None

    @property
    def n_columns(self) -> int:
        """Columns, with the intercept: twice as many as before whenever there are too few."""
        known = 1 + len(self.names)
        return known if self.names.bits is not None else 1 << max(5, (known - 1).bit_length())

    @property
    def known(self) -> dict[str, tuple[int, float]]:
        """Column and sign of every name that is remembered."""
        names = self.names.known
        if not names:
            return {}
        block = Named.of([dict.fromkeys(names, 1.0)])
        places, signs = Names(known=names, bits=self.names.bits, learning=False).places(block)
        pairs = zip((places + 1).tolist(), signs.tolist(), strict=True)
        return dict(zip(block.names, pairs, strict=True))

    def rows(
        self,
        examples: Sequence[Mapping],
        answers: Any,
        learn: bool = True,
        weight: np.ndarray | None = None,
    ) -> Rows:
        """CSR rows with an intercept; names that are not known are left out unless ``learn``.

        A single row is good until the next one is asked for.
        """
        if len(examples) == 1 and weight is None:
            return self._last_row(examples[0], learn, answers[0])
        pairs = [self._pairs(example, learn)[:2] for example in examples]
        return Rows(
            data=np.concatenate([values for _, values in pairs]),
            indices=np.concatenate([columns for columns, _ in pairs]),
            indptr=np.cumsum([0, *(len(columns) for columns, _ in pairs)]),
            n_features=self.n_columns,
            y=np.array(answers, np.float64),
            weight=_NO_WEIGHT if weight is None else weight,
        )

    def _last_row(self, example: Mapping, learn: bool, answer: float) -> Rows:
        """One example, which is mostly predicted and then learned from."""
        last = self._last
        if last is None or last[0] != example or (learn and not last[2]):
            columns, values, all_known = self._pairs(example, learn)
            row = self._one_row(columns, values)
            last = self._last = dict(example), row, all_known or learn
        last[1].y[0] = answer
        return last[1]

    def _one_row(self, columns: np.ndarray, values: np.ndarray) -> Rows:
        """One row in reused memory: rows of equal length share one object and its addresses."""
        n, width = len(columns), self.n_columns
        if self._width != width or n > len(self._room.data):
            size, self._width = max(64, 2 * n), width
            room = np.empty(size), np.empty(size, np.uint32), np.zeros(2, np.int64)
            self._room = Rows(*room, width, np.empty(1), _NO_WEIGHT)
            self._shorter = {}
        if n not in self._shorter:
            whole = self._room
            self._shorter[n] = replace(whole, data=whole.data[:n], indices=whole.indices[:n])
        row = self._shorter[n]
        row.data[:], row.indices[:] = values, columns
        row.indptr[1] = n
        return row

    def _pairs(self, example: Mapping, learn: bool) -> tuple[np.ndarray, np.ndarray, bool]:
        """Columns, which rise, values, and whether all names were known."""
        features, places = _features(example), self._places
        try:
            finite = abs(float(sum(features.values()))) < LARGEST
        except (TypeError, OverflowError):
            finite = False
        if not finite:
            _check_numbers(features)
        if self.names.bits is None:
            return self._plain_pairs(features, learn)
        try:
            found = [places[name] for name in features]
        except KeyError:
            self._find(features, learn)
            found = [places[name] for name in features]
        columns = np.array([INTERCEPT, *found], np.uint32)
        values = np.array([1.0, *features.values()], np.float64)
        values[1:] *= [*map(self._signs.__getitem__, features)]
        return *_merged(columns, values), self._are_remembered(features, learn)

    def _plain_pairs(
        self, features: Mapping[Hashable, Any], learn: bool
    ) -> tuple[np.ndarray, np.ndarray, bool]:
        """The same where names have columns of their own, or none."""
        places = self._places
        found = [places.get(name, -1) for name in features]
        if learn and -1 in found:
            self._give_columns(features)
            found = [places.get(name, -1) for name in features]
        columns = np.array([INTERCEPT, *found])
        values = np.array([1.0, *features.values()], np.float64)
        order, unknown = columns.argsort(), found.count(-1)
        order = order[unknown:]
        return columns[order].astype(np.uint32), values[order], not unknown

    def _give_columns(self, features: Mapping[Hashable, Any]) -> None:
        """Give names that are new the next columns, while there are some."""
        places, known = self._places, self.names.known
        for name in features:
            if name in places:
                continue
            text = str(name)
            if text not in places:
                if len(known) >= MOST_NAMES:
                    self._tell_that_all_are_taken()
                    return
                known.append(text)
                places[text] = len(known)
            places[name] = places[text]

    def _tell_that_all_are_taken(self) -> None:
        if not self._told:
            warnings.warn(
                f"found more than {MOST_NAMES:,} names of features; later ones are left out, hash them with "
                "hash_bits instead",
                stacklevel=2,
            )
        self._told = True

    def _are_remembered(self, features: Mapping[Hashable, Any], learn: bool) -> bool:
        """Whether all hashed names are known by name; those learned from are from now on."""
        new = [name for name in features if name in self._unlearned] if self._unlearned else []
        if new and learn:
            self.names.learning = True
            self.names.places_of([*map(str, new)])
            self._unlearned.difference_update(new)
        return learn or not new

    def _find(self, features: Mapping[Hashable, Any], learn: bool) -> None:
        """Remember the hashed places of names that are new."""
        if len(self._places) + len(features) > _REMEMBERED:
            self._places.clear()
            self._signs.clear()
            self._unlearned.clear()
        names = [name for name in features if name not in self._places]
        self.names.learning = learn
        found, signs = self.names.places_of([*map(str, names)])
        for name, place, sign in zip(names, found.tolist(), signs.tolist(), strict=True):
            self._places[name], self._signs[name] = place + 1, sign
        if not learn:
            self._unlearned.update(names)


def _check_numbers(features: Mapping[Hashable, Any]) -> None:
    for name, value in features.items():
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not abs(number) < LARGEST:
            raise ValueError(
                f"feature {name!r} is {value!r}, expected a finite number below {LARGEST:.0g}, a truth value "
                "or text; leave it out or impute it"
            )


def _features(example: Mapping) -> Mapping[Hashable, Any]:
    """Values by name; a text is a feature of its own."""
    if str not in set(map(type, example.values())):
        return example
    return {
        f"{name}={value}" if isinstance(value, str) else name: 1.0
        if isinstance(value, str)
        else value
        for name, value in example.items()
    }


def _merged(columns: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns in rising order with their values; those that fall together add up."""
    order = columns.argsort()
    columns, values = columns[order], values[order]
    fresh = np.empty(len(columns), bool)
    fresh[0] = True
    np.not_equal(columns[1:], columns[:-1], out=fresh[1:])
    if fresh.all():
        return columns, values
    return columns[fresh], np.add.reduceat(values, np.flatnonzero(fresh))


class DictLearner:
    """The agents behind a model of river: columns of named features, and a learner that grows.

    Parameters
    ----------
    algorithm : Algorithm
    bits : int or None
        Hash names to 2^bits columns.
    seed : int
    """

    def __init__(self, algorithm: Algorithm, bits: int | None, seed: int) -> None:
        self.columns = DictColumns(bits)
        self.ids = AgentIds(algorithm.n_agents, as_they_come=True)
        self.learner = Learner(algorithm, Setup(seed=seed, n_features=self.columns.n_columns))

    def learn(
        self,
        examples: Sequence[Example],
        answers: Sequence[float],
        agent: Any = None,
        weight: float = 1.0,
    ) -> None:
        """Learn from the next examples of the stream, which may all be one agent's."""
        importance = None if weight == 1.0 else np.full(len(examples), _checked(weight))
        agents = None
        if agent is not None:
            number = self.ids.numbers([agent], self.learner.algorithm.n_agents)[0]
            agents = np.full(len(examples), number)
        self.learner.learn(self.columns.rows(examples, answers, True, importance), agents)

    def scores(self, examples: Sequence[Example], agent: Any = None) -> np.ndarray:
        """Scores (n, outputs) by one agent, or the mean of all agents' scores.

        An agent that has not learned yet, while there are fewer than N, knows what all know together.
        """
        rows = self.columns.rows(examples, np.zeros(len(examples)), learn=False)
        number = self.ids.number_if_known(agent) if agent is not None else None
        n_agents = self.learner.algorithm.n_agents
        if agent is not None and number is None and len(self.ids.known) >= n_agents:
            self.ids.known_numbers([agent], n_agents)  # refuses it
        return self.learner.scores(rows, number)

    def weights(self) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Mean weights (outputs,) by the name of their feature, and the intercepts (outputs,)."""
        weights = self.learner.weights().mean(axis=0)
        by_name = {
            name: sign * weights[:, column] for name, (column, sign) in self.columns.known.items()
        }
        return by_name, weights[:, INTERCEPT]


class KeptExample(NamedTuple):
    """An example whose label is to come, and the agent that predicted it, if one was named."""

    example: Example
    agent: Any = None


class KeptExamples:
    """Examples that wait for their labels, by identifier; the oldest is dropped to make room, and counted.

    Parameters
    ----------
    most : int

    Examples
    --------
    >>> kept = KeptExamples(most=1)
    >>> kept.keep("a", {"x": 1.0}); kept.keep("b", {"x": 2.0}, agent="us")
    >>> kept.of("b"), kept.unanswered
    (KeptExample(example={'x': 2.0}, agent='us'), 1)
    """

    def __init__(self, most: int = 1024) -> None:
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise ValueError(f"`waiting` must be a whole number of at least 1, it is {most!r}")
        self.most, self.unanswered = most, 0
        self._waiting: dict[Any, KeptExample] = {}

    def keep(self, identifier: Any, x: Example, agent: Any = None) -> None:
        """Keep an example that was predicted."""
        if identifier is None:
            return
        self._waiting.pop(identifier, None)
        if len(self._waiting) >= self.most:
            del self._waiting[next(iter(self._waiting))]
            self.unanswered += 1
        self._waiting[identifier] = KeptExample(x, agent)

    def of(self, identifier: Any, x: Example | None = None, agent: Any = None) -> KeptExample:
        """The example that a label belongs to; the arguments take precedence over what was kept."""
        found = self._waiting.get(identifier) if identifier is not None else None
        if found is None:
            if x is not None:
                return KeptExample(x, agent)
            if identifier is None:
                raise ValueError("found neither `x` nor an `identifier`, expected one of them")
            raise KeyError(
                f"no prediction waits under {identifier!r}: it was never made, is answered, or was dropped "
                f"to make room ({self.unanswered} were; up to {self.most} wait, see `waiting`)"
            )
        return KeptExample(found.example, found.agent if agent is None else agent)

    def remove(self, identifier: Any) -> None:
        """Forget an example whose label was learned."""
        if identifier is not None:
            self._waiting.pop(identifier, None)


def _checked(weight: float) -> float:
    if not 0.0 <= weight < math.inf:
        raise ValueError(f"`w` must be a finite number ≥ 0, it is {weight!r}")
    return float(weight)


_MOST_WAITING = 1024
"""Answers under way whose weights are kept."""


class Asker:
    """A rule of `ddol.update.asking`, with what each agent remembers of it.

    Parameters
    ----------
    query : str, float or None
        None asks for every answer.
    seed : int

    Examples
    --------
    >>> asker = Asker(0.2, seed=0)
    >>> sum(asker.ask([0.1 * k]) for k in range(100)) <= 20, asker.labels <= 20
    (True, True)
    """

    def __init__(self, query: Any, seed: int) -> None:
        self._rule = asking_of(query)
        if self._rule is not None and (self._rule.kind == "experts" or self._rule.neighbours):
            raise ValueError(
                f"`query`: found {query!r}, expected a share such as 0.2, b:1, adaptive:1, unbiased:1 or "
                "random:0.2, which need neither experts nor neighbours"
            )
        self._chances = np.random.default_rng(seed)
        self._agents: dict[Any, np.ndarray] = {}
        self._seen: dict[Any, int] = {}
        self._weights: dict[Any, float] = {}

    @property
    def labels(self) -> int:
        """Labels that were asked for."""
        if self._rule is None:
            return sum(self._seen.values())
        return int(sum(own[LABELS] for own in self._agents.values()))

    @property
    def weighs(self) -> bool:
        """Whether the rule gives labels weights."""
        return self._rule is not None and self._rule.unbiased

    def ask(self, scores: Sequence[float], agent: Any = None, example: Any = None) -> bool:
        """Whether to ask for the label of an example with these scores (none before an agent has learned).

        By an unbiased rule the weight of the answer is kept under the example, whatever names it.
        """
        seen = self._seen[agent] = self._seen.get(agent, 0) + 1
        if self._rule is None:
            return True
        own = self._agents.setdefault(agent, np.zeros(NUMBERS))
        p = self._rule.parameters(0.0)
        margin = margin_of(scores) if len(scores) else 0.0
        wished = wish(p, own, float(seen), margin, self._chances.random())
        weight = buy(p, own, float(seen), wished)
        if weight > 0.0 and self.weighs:
            if len(self._weights) >= _MOST_WAITING:
                del self._weights[next(iter(self._weights))]
            self._weights[example] = float(weight)
        return bool(weight > 0.0)

    def weight(self, example: Any) -> float:
        """Weight of the label of an example that was asked about: 1, or 1/probability; once."""
        return self._weights.pop(example, 1.0)
