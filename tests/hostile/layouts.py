"""States of the right shapes with numbers that no run leaves: refused, or played without harm.

Compiled loops follow lists and counts that stand in a state. So a number here and there is another one, lists
lose, gain and repeat features, and whatever is let through must play on: dense and sparse rows, in rounds
and by ticket, on a copy each and on a shared one. Afterwards the lists must be as good as they were.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_matrix

import ddol
from ddol.engines.local import advance
from ddol.engines.state import State, layout_of, start_state
from ddol.engines.state_checks import check_state
from ddol.knowledge import Knowledge
from ddol.streams import DataError
from ddol.streams.dealing import table_round_robin
from ddol.streams.rows import Block, Rows
from ddol.update.checks import check_vectors

_rng = np.random.default_rng(0)
D = 6
X = (_rng.random((48, D)) < 0.6) * (_rng.standard_normal((48, D)) + 2.0)
Y = np.where(X @ _rng.standard_normal(D) > 0, 1.0, -1.0)
CLASSES = _rng.integers(3, size=len(X)).astype(np.float64)
VALUES = (
    np.nan, np.inf, -np.inf, -1.0, 0.0, 1.0, 2.0, D - 1.0, float(D), D + 1.0, 0.5, -0.0, 1e-300, 1e5, 1e7,
    1e9, 2.0**31, 2.0**53, 2.0**63, 1e300, -1e300,
)  # fmt: skip
ALGORITHMS = tuple(
    algorithm.on(network)
    for algorithm in (
        ddol.adaptive(), ddol.adaptive(memory=20.0), ddol.adaptive(l1=1e-3), ddol.coin(), ddol.newton(),
        ddol.newton(rank=3), ddol.safe(ddol.adaptive()), ddol.safe(ddol.newton(rank=2)),
        ddol.doeg(radius=2.0), ddol.dogd(), ddol.adaptive(statistics="own"), ddol.newton(statistics="own"),
        ddol.adaptive(memory="auto"), ddol.safe(ddol.adaptive(memory="auto")),
        ddol.private(ddol.adaptive(), "epsilon:8,releases:4,public:4"),
        replace(ddol.adaptive(), outputs=3), replace(ddol.newton(), outputs=3),
        replace(ddol.safe(ddol.coin(statistics="own")), outputs=3),
    )
    for network in (1, 3, ddol.ring(4))
)  # fmt: skip
_STATES: dict[int, State] = {}


def _state(k: int) -> State:
    """What algorithm k leaves after a few rounds of sparse rows, with lists in use."""
    if k not in _STATES:
        algorithm = ALGORITHMS[k]
        block = Block(_rows(algorithm, True), table_round_robin(len(X), algorithm.n_agents, 1))
        _STATES[k] = advance(algorithm, start_state(algorithm, D), block)
    return _STATES[k]


def _rows(algorithm: ddol.Algorithm, sparse: bool) -> Rows:
    """The examples, with answers of as many classes as the algorithm has outputs."""
    answers = CLASSES if algorithm.outputs > 1 else Y
    return Rows.from_csr(csr_matrix(X), answers) if sparse else Rows.from_dense(X, answers)


def crafted_layouts(first: int, tries: int) -> dict[str, str]:
    """Numbers of a state that are others."""
    wrong = {}
    for number in range(first, first + tries):
        print("at", number, flush=True)
        draw, k = np.random.default_rng(number), number % len(ALGORITHMS)
        algorithm = ALGORITHMS[k]
        state = _crafted(_state(k), algorithm, draw)
        try:
            check_state(algorithm, state)
        except DataError as error:
            if "\n" in str(error):
                wrong[str(number)] = "an error of several lines"
            continue
        way = WAYS[int(draw.integers(len(WAYS)))]
        try:
            found = way(algorithm, state, _rows(algorithm, bool(draw.integers(2))))
        except FloatingPointError:
            continue
        try:
            check_vectors(layout_of(algorithm, D), *map(_finite, found))
        except DataError as error:
            wrong[str(number)] = f"{algorithm.name}, {way.__name__}: {error}"
    return wrong


def _finite(array: np.ndarray) -> np.ndarray:
    """Wild numbers may come to nothing; lists may not."""
    return np.nan_to_num(array, nan=1.0)


def _crafted(state: State, algorithm: ddol.Algorithm, draw: np.random.Generator) -> State:
    """The state with one to four things changed."""
    theta, scalars = state.theta.copy(), state.scalars.copy()
    layout = layout_of(algorithm, D)
    for _ in range(int(draw.integers(1, 5))):
        copy, output = int(draw.integers(len(theta))), int(draw.integers(theta.shape[1]))
        rows, numbers = theta[copy, output], scalars[copy, output]
        if layout.lists and draw.random() < 0.5:
            listed = layout.lists[int(draw.integers(len(layout.lists)))]
            own = rows[[field.name for field in layout.row_fields].index(listed.row)]
            at = [field.name for field in layout.scalar_fields].index(listed.length)
            _change_list(own, numbers, at, draw)
        elif draw.random() < 0.5 and numbers.size:
            numbers[draw.integers(numbers.size)] = draw.choice(VALUES)
        else:
            rows[draw.integers(len(rows)), draw.integers(D)] = draw.choice(VALUES)
    return replace(state, theta=theta, scalars=scalars)


def _change_list(own: np.ndarray, numbers: np.ndarray, at: int, draw: np.random.Generator) -> None:
    way = int(draw.integers(5))
    if way == 0:
        own[:] = draw.permutation(own)
    elif way == 1:
        own[:] = draw.permutation(D)
        numbers[at] = draw.integers(D + 2)
    elif way == 2:
        numbers[at] += draw.choice([-1.0, 1.0])
    elif way == 3:
        own[draw.integers(D)] = draw.choice(own)
    else:
        own[draw.integers(D)] = draw.choice(VALUES)


def _scored(algorithm: ddol.Algorithm, state: State, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    known = Knowledge(algorithm, state.theta.copy(), state.scalars.copy())
    known.scores(rows)
    return known.theta, known.scalars


def _played(algorithm: ddol.Algorithm, state: State, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    found = advance(
        algorithm, state, Block(rows, table_round_robin(len(rows), algorithm.n_agents, 1))
    )
    return found.theta, found.scalars


def _by_ticket(
    algorithm: ddol.Algorithm, state: State, rows: Rows
) -> tuple[np.ndarray, np.ndarray]:
    learner = ddol.TicketLearner(algorithm, state=state)
    for k in range(8):
        agent = k % algorithm.n_agents
        early, late = (learner.predict(agent, rows.slice(i, i + 1)) for i in (k, k + 8))
        learner.answer(late, rows.y[k + 8])
        learner.answer(early, rows.y[k])
    found = learner.trace().state
    assert found is not None
    return found.theta, found.scalars


WAYS: tuple[Callable[..., tuple[np.ndarray, np.ndarray]], ...] = (_scored, _played, _by_ticket)
