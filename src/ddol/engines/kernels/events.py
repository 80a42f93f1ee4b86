"""A list of events, compiled: the same parts as in rounds, for one agent at a time."""

# Signatures say the types of compiled functions.
# mypy: disable-error-code=no-untyped-def

from __future__ import annotations

import math
from typing import NamedTuple

from ddol.compiled import (
    atomic_store,
    bytes_at,
    call_void,
    entry,
    floats,
    inner,
    integers,
    ints,
    packed,
    unpacked,
)
from ddol.engines.kernels.event_average import adopt, mix
from ddol.engines.kernels.event_memory import (
    ABORTED,
    CROWDED,
    FREE,
    LOGGED,
    OTHER_MATRIX,
    PLAYED,
    STATUS,
    STOPPED,
    TURNS,
    EventMemory,
    eta_of,
)
from ddol.engines.kernels.layout import (
    FINISH,
    OBSERVE,
    WEIGHTS_ALL,
    Examples,
    Worker,
    kept_bytes,
    part,
    squares_of,
    vector_at,
)
from ddol.engines.kernels.messages import (
    let_others_catch_up,
    listen,
    receive,
    wait_for_others,
    write_down,
)
from ddol.engines.kernels.neighbours import (
    ViewMemory,
    be_taught,
    is_for,
    learn_at_pace,
    teach,
    watch,
)
from ddol.engines.kernels.predict import (
    ask_for_answer,
    compare,
    importance_of,
    observe_example,
    predict_example,
    renew_slopes,
)
from ddol.engines.kernels.published import STRIDE
from ddol.engines.kernels.reading import fetch, forget_rows, row_at
from ddol.engines.kernels.shadow import NO_SHADOW, Shadow, follow
from ddol.engines.kernels.talking import EVERYTHING, Talk, count_spoken, hear, say, show
from ddol.engines.kernels.update import answer_example, finish_copy
from ddol.schedules.events import (
    ADOPT,
    ANSWER,
    GRADIENT,
    JOIN,
    LEAVE,
    MIX,
    PREDICT,
    PROJECT,
    RECEIVE,
    SEND,
    STRUCK,
    TEACH,
)

_AHEAD = 24  # events

# --- turns ---------------------------------------------------------------------------------------


@inner
def _take_turn(worker, examples, memory, shadow, a, slot, row):
    """An agent predicts a row, if there is one, and keeps its slopes until the answer arrives."""
    turns = integers(memory.turns)
    if worker.memory.sums != 0 and turns[a] > 0:
        _keep_sum_of(worker, a)
    turns[a] += 1
    integers(memory.words)[TURNS] += 1
    if memory.live:
        rounds = turns[a] + integers(memory.rounds_missed)[a]
        atomic_store(integers(memory.progress), STRIDE * (memory.first_agent + a), rounds)
    if row < 0:
        return
    i, chance = integers(memory.where)[row - memory.first_row], 0.0
    if worker.rules.randomized or worker.rules.asks != 0:
        chance = floats(memory.chances)[integers(memory.chance_starts)[a] + turns[a]]
    place = slot if slot >= 0 else memory.n_slots
    slopes = memory.slopes + place * kept_bytes(worker)
    squares = squares_of(worker, a) if worker.rules.l2 > 0.0 else 0.0
    if part(worker, OBSERVE) != 0:
        observe_example(worker, examples, a, i)
    cost = predict_example(worker, examples, a, a, i, chance, slopes)
    penalty = 0.5 * worker.rules.l2 * squares if worker.rules.l2 > 0.0 else 0.0
    floats(worker.memory.loss)[a] += cost + penalty
    if shadow.kind != NO_SHADOW:
        (x, index, n), scores = row_at(worker, examples, i), floats(worker.scratch.scores)
        taken = slopes
        if worker.shape.kept > 0:  # notes of a mixture, which learns later
            taken = memory.slopes + memory.n_slots * kept_bytes(worker)
            importance = importance_of(worker, examples, i)
            compare(worker, scores, floats(examples.y)[i], importance, taken)
        follow(shadow, a, scores, floats(taken), squares, x, index, n)
    if worker.rules.asks != 0:
        ask_for_answer(worker, examples, a, a, i, chance, slopes)


@inner
def _keep_sum_of(worker, a):
    """Add an agent's weights to their sum over its turns."""
    D, states, out = worker.shape.D, worker.shape.states, worker.scratch.mixed
    for k in range(states):
        w, s = vector_at(worker, a, k)
        call_void(part(worker, WEIGHTS_ALL), (w, s, worker.rules.p, 0, D, D, out))
        sums = floats(worker.memory.sums + 8 * (a * states + k) * D)
        for d in range(D):
            sums[d] += floats(out)[d]


@inner(inlined=True)
def _is_fresh(worker, memory, a, slot, e):
    """Whether the agent has done nothing since this prediction, so that its slopes are those of now."""
    if e == 0 or worker.rules.asks != 0 or bytes_at(memory.kind)[e - 1] != PREDICT:
        return False
    return ints(memory.agent)[e - 1] == a and ints(memory.slot)[e - 1] == slot


@inner
def _learn(worker, views, examples, memory, talk, near, a, slot, e):
    """An answer arrives: one step along its gradient, and lessons for those whom it helps."""
    i = integers(memory.where)[integers(memory.row)[e] - memory.first_row]
    slopes = memory.slopes + slot * kept_bytes(worker)
    if worker.rules.arrival and not _is_fresh(worker, memory, a, slot, e):
        renew_slopes(worker, examples, a, i, slopes)
    asked = not math.isnan(floats(slopes)[0])
    if near.by_loss and asked:
        watch(worker, views, examples, memory, near, a, i)
    if near.pupils == 0 or not asked:
        answer_example(worker, examples, a, i, slopes, eta_of(worker, memory, a))
        return
    learn_at_pace(worker, examples, memory, near, a, i, slopes)
    teach(worker, views, examples, memory, talk, near, a, i, e)


@inner
def _be_taught(worker, views, examples, memory, talk, near, a, wire, e):
    """A lesson that a list names."""
    i = integers(memory.where)[integers(memory.row)[e] - memory.first_row]
    gradient = bytes_at(memory.kind)[e] == GRADIENT
    be_taught(worker, views, examples, memory, talk, near, a, wire, i, gradient)


@inner
def _project(worker, memory, a):
    if part(worker, FINISH) != 0:
        finish_copy(worker, a, max(integers(memory.turns)[a], 1), eta_of(worker, memory, a))


# --- messages that may be left out ---------------------------------------------------------------


@inner
def _send(worker, memory, talk, near, a, slot, e):
    """An agent sends, if it has something to say."""
    pieces = EVERYTHING
    if worker.rules.n_agents == 1:
        return  # it has no receiver
    if memory.live:
        pieces = show(worker, memory, talk, a)
    elif talk.plain:
        write_down(worker, memory, a, slot)
        count_spoken(talk, a, 8 * memory.size)
    else:
        pieces = say(worker, memory, talk, near, a, slot, integers(memory.row)[e])
    if pieces == 0:
        bytes_at(memory.kind)[e] = STRUCK
    elif pieces != EVERYTHING:
        integers(memory.row)[e] = pieces


@inner
def _receive(memory, talk, near, a, wire, slot, e):
    """What was sent arrives; where nothing was, or not to this agent, this did not happen."""
    if is_for(near, wire, slot) and receive(memory, a, wire, slot, integers(memory.row)[e]):
        hear(memory, talk, a, wire)
    else:
        bytes_at(memory.kind)[e] = STRUCK


@inner
def _mix(worker, memory, talk, a, wire, e):
    """An agent averages; where agents may be silent, only if there is something new."""
    logged = integers(memory.words)[LOGGED]
    if memory.live and listen(memory, a):
        integers(talk.news)[a] = 1
    if not talk.chooses or integers(talk.news)[a] != 0:
        integers(talk.news)[a] = 0
        if worker.rules.n_agents > 1:  # alone it has nothing to average
            mix(worker, memory, a, wire)
        _project(worker, memory, a)
        return
    integers(memory.words)[LOGGED] = logged
    bytes_at(memory.kind)[e] = PROJECT if talk.projects else STRUCK
    if talk.projects:
        _project(worker, memory, a)


# --- one event after the other -------------------------------------------------------------------


@inner
def _obstacle(memory, kind, a, slot):
    """Why an event cannot be played before Python has done something."""
    words = integers(memory.words)
    if kind == PREDICT and words[TURNS] >= memory.stop_at:
        return STOPPED
    if kind == SEND and words[FREE] == 0 and not memory.live:
        return CROWDED
    if kind == MIX and memory.live:
        if memory.staleness < 0:
            let_others_catch_up(memory, a)
        elif wait_for_others(memory, a):
            return ABORTED
    if kind != MIX or memory.matrix_of == 0:
        return PLAYED
    known = integers(memory.matrix_of)[a] == max(integers(memory.turns)[a], 1)
    return PLAYED if known else OTHER_MATRIX


@inner(inlined=True)
def _fetch_ahead(worker, examples, memory, e):
    """Prefetch a row that is predicted some events later: the processor cannot guess which."""
    if e < memory.n and bytes_at(memory.kind)[e] == PREDICT and integers(memory.row)[e] >= 0:
        place = integers(memory.where)[integers(memory.row)[e] - memory.first_row]
        fetch(worker, examples, place, False)


@inner
def _play(worker, views, examples, memory, shadow, talk, near, first):
    """Play events from the first on; where it ended, with the reason in STATUS."""
    for e in range(first, memory.n):
        _fetch_ahead(worker, examples, memory, e + _AHEAD)
        kind, a = bytes_at(memory.kind)[e], ints(memory.agent)[e]
        wire, slot, row = ints(memory.wire)[e], ints(memory.slot)[e], integers(memory.row)[e]
        status = _obstacle(memory, kind, a, slot)
        if status != PLAYED:
            integers(memory.words)[STATUS] = status
            return e
        if kind == PREDICT:
            _take_turn(worker, examples, memory, shadow, a, slot, row)
            if near.partners > 0 and not near.by_loss and row >= 0:
                i = integers(memory.where)[row - memory.first_row]
                watch(worker, views, examples, memory, near, a, i)
        elif kind == ANSWER:
            _learn(worker, views, examples, memory, talk, near, a, slot, e)
        elif kind == RECEIVE:
            _receive(memory, talk, near, a, wire, slot, e)
        elif kind == SEND:
            _send(worker, memory, talk, near, a, slot, e)
        elif kind == MIX:
            _mix(worker, memory, talk, a, wire, e)
        elif kind == PROJECT:
            _project(worker, memory, a)
        elif kind == ADOPT:
            adopt(worker, memory, a, wire)
        elif kind in (TEACH, GRADIENT):
            _be_taught(worker, views, examples, memory, talk, near, a, wire, e)
        elif kind == LEAVE:
            integers(memory.absent)[a] = 1
        elif kind == JOIN:
            integers(memory.absent)[a] = 0
    integers(memory.words)[STATUS] = PLAYED
    return memory.n


@entry("int64(struct*, struct*, struct*, struct*, struct*, struct*, struct*, int64)")
def _events(worker, views, examples, memory, shadow, talk, near, first):
    worker, views = unpacked(Worker, worker), unpacked(Worker, views)
    examples = unpacked(Examples, examples)
    forget_rows(worker, examples)
    forget_rows(views, examples)
    return _play(
        worker,
        views,
        examples,
        unpacked(EventMemory, memory),
        unpacked(Shadow, shadow),
        unpacked(Talk, talk),
        unpacked(ViewMemory, near),
        first,
    )


class Playing(NamedTuple):
    """All that events are played with: workers and rows as they lie in memory, and what is by address."""

    worker: bytes
    views: bytes
    """Of neighbours; the worker itself where there are none."""
    examples: bytes
    memory: EventMemory
    shadow: Shadow
    talk: Talk
    near: ViewMemory

    def play(self, first: int) -> int:
        """Play events from the first on; the place at which playing ended (see `STATUS`)."""
        others = (packed(each) for each in self[3:])
        return int(_events(self.worker, self.views, self.examples, *others, first))
