"""How agents choose neighbours: which to send to, and which to teach.

Beside the messages it has received, an agent may keep a *view* of each neighbour: a copy of its learner, made
of its newest message, that scores the agent's own examples as the neighbour would. Views are copies of a
worker of their own, numbered by the wires that messages come by.
"""

# Signatures say the types of compiled functions.
# mypy: disable-error-code=no-untyped-def

from __future__ import annotations

import math
from typing import NamedTuple

from ddol.compiled import floats, inner, integers
from ddol.engines.kernels.average import adopt_message
from ddol.engines.kernels.event_memory import eta_of
from ddol.engines.kernels.layout import FINISH, OBSERVE, part
from ddol.engines.kernels.predict import (
    compare,
    importance_of,
    observe_example,
    score_example,
)
from ddol.engines.kernels.reading import row_at
from ddol.engines.kernels.update import answer_example, finish_copy

_RECENT = 0.1
"""What the last example counts in a recent mean."""
_PATIENCE = 4
"""Times as many exchanges as taking turns would need, after which a neighbour is sent to in any case."""


class ViewMemory(NamedTuple):
    """Views of neighbours, and what is made of them. Arrays are given by address."""

    views: bool
    """Whether there are any."""
    back: int
    """int64 by wire: the wire the other way, or −1."""
    known: int
    """int64 by wire: place of the message that a view is made of."""
    partners: int
    """Neighbours that a message goes to; 0 for all."""
    by_loss: bool
    use: int
    """float64 by wire: recent disagreement, or recent loss, of its sender."""
    quiet: int
    """int64 by wire: exchanges in which it was not spoken on."""
    place: int
    """int64 by wire: its place among the wires of its sender, of which there are at most `degree`."""
    degree: int
    addressed: int
    """int64 (slots, degree): whom a message is for."""
    pupils: int
    """Neighbours that an example is taught to, at most."""
    gradients: bool
    pace: int
    """float64 (N,): how far an agent's steps go, as a rate of plain gradient descent."""
    slopes: int
    """float64 (3, outputs): scores before a step and after it, and slopes."""
    gains: int
    """float64: how much each neighbour would gain, in the order of its wires."""
    taught: int
    """int64 (lessons, 2): the event after which one was given, and its wire; `lessons` counts them."""
    lessons: int


# --- views ---------------------------------------------------------------------------------------


@inner
def _look_at(views, memory, near, wire):
    """Make a view anew if there is a newer message."""
    version, message = integers(memory.version)[wire], integers(memory.box)[wire]
    if message < 0 or integers(near.known)[wire] == version:
        return
    adopt_message(views, wire, 0, 0, memory.messages + 8 * message * memory.size, True)
    if part(views, FINISH) != 0:
        finish_copy(views, wire, 1, 0.0)
    integers(near.known)[wire] = version


@inner
def _slopes_at(worker, examples, i, scores, slopes):
    """The loss of a row at some scores; its slopes (by address) are written."""
    y, importance = floats(examples.y)[i], importance_of(worker, examples, i)
    return compare(worker, scores, y, importance, slopes)


@inner
def watch(worker, views, examples, memory, near, a, i):
    """Compare an agent's prediction of a row with those that its neighbours would make, or their losses.

    Losses are known where the answer was asked for, when it arrives.
    """
    mine, outputs = floats(worker.scratch.scores), worker.shape.outputs
    if worker.rules.neighbours != 0:  # theirs may lie there
        mine = score_example(worker, examples, a, i)
    for wire in range(integers(memory.starts)[a], integers(memory.starts)[a + 1]):
        if integers(memory.sender)[wire] == a or integers(memory.box)[wire] < 0:
            continue
        _look_at(views, memory, near, wire)
        theirs, found = score_example(views, examples, wire, i), 0.0
        if near.by_loss:
            found = _slopes_at(worker, examples, i, theirs, near.slopes + 16 * outputs)
        else:
            for k in range(outputs):
                found += abs(theirs[k] - mine[k])
        use = floats(near.use)
        use[wire] = found if math.isinf(use[wire]) else use[wire] + _RECENT * (found - use[wire])


# --- whom to talk to -----------------------------------------------------------------------------


@inner
def _is_better(near, wire, other):
    """Whether an agent had rather talk by one wire than by another: first to those it has long neglected."""
    if other < 0:
        return True
    quiet = integers(near.quiet)
    if quiet[wire] < 0 or quiet[other] < 0:  # the negative count of one that is due
        return quiet[wire] < quiet[other]
    back, use = integers(near.back), floats(near.use)
    first = use[back[wire]] if back[wire] >= 0 else math.inf
    second = use[back[other]] if back[other] >= 0 else math.inf
    return first < second if near.by_loss else first > second


@inner
def chooses_partners(talk, near, a):
    """Whether an agent sends to some of its receivers only."""
    starts = integers(talk.spoken_starts)
    return 0 < near.partners < starts[a + 1] - starts[a]


@inner
def choose_partners(talk, near, a, slot, size):
    """Address a message of so many bytes to k of the receivers of an agent."""
    lo, hi = integers(talk.spoken_starts)[a], integers(talk.spoken_starts)[a + 1]
    addressed, quiet = integers(near.addressed + 8 * slot * near.degree), integers(near.quiet)
    longest = _PATIENCE * -((lo - hi) // near.partners)
    for k in range(lo, hi):
        wire = integers(talk.spoken)[k]
        addressed[k - lo] = 0
        quiet[wire] = abs(quiet[wire]) + 1
        if quiet[wire] >= longest:
            quiet[wire] = -quiet[wire]
    for _ in range(min(near.partners, hi - lo)):
        best = -1
        for k in range(lo, hi):
            wire = integers(talk.spoken)[k]
            if addressed[k - lo] == 0 and _is_better(near, wire, best):
                best = wire
        addressed[integers(near.place)[best]] = 1
        quiet[best] = 0
        integers(talk.messages)[best] += 1
        integers(talk.bytes)[best] += size


@inner(inlined=True)
def is_for(near, wire, slot):
    """Whether a message is for the listener of a wire."""
    if near.partners == 0:
        return True
    return integers(near.addressed)[slot * near.degree + integers(near.place)[wire]] != 0


# --- teaching ------------------------------------------------------------------------------------


@inner
def _squared_length(worker, examples, i):
    x, _, n = row_at(worker, examples, i)
    total = 0.0
    for j in range(n):
        total += floats(x)[j] * floats(x)[j]
    return total


@inner
def learn_at_pace(worker, examples, memory, near, a, i, slopes):
    """An agent learns from an answer, and notes how far that moved its score: its pace."""
    outputs = worker.shape.outputs
    before, after = floats(near.slopes), floats(near.slopes + 8 * outputs)
    scores = score_example(worker, examples, a, i)
    for k in range(outputs):
        before[k] = scores[k]
    answer_example(worker, examples, a, i, slopes, eta_of(worker, memory, a))
    scores, moved, steep = score_example(worker, examples, a, i), 0.0, 0.0
    for k in range(outputs):
        after[k] = scores[k]
        moved += floats(slopes)[k] * (before[k] - after[k])
        steep += floats(slopes)[k] * floats(slopes)[k]
    if moved > 0.0:
        floats(near.pace)[a] = moved / (steep * _squared_length(worker, examples, i))


@inner
def _gain(worker, views, examples, near, a, wire, i, length):
    """By how much a step of a neighbour would bring it closer: −η²‖g‖² + 2η⟨w_j − w_i, g⟩."""
    outputs, eta = worker.shape.outputs, floats(near.pace)[a]
    mine, slopes = floats(near.slopes + 8 * outputs), floats(near.slopes + 16 * outputs)
    theirs, gain = score_example(views, examples, wire, i), 0.0
    _slopes_at(worker, examples, i, theirs, near.slopes + 16 * outputs)
    for k in range(outputs):
        gain += 2.0 * eta * slopes[k] * (theirs[k] - mine[k]) - eta * eta * slopes[k] ** 2 * length
    return gain


@inner
def teach(worker, views, examples, memory, talk, near, a, i, e):
    """Send an example that was just answered to those neighbours whom it brings closest."""
    if floats(near.pace)[a] == 0.0:
        return
    lo, hi = integers(memory.starts)[a], integers(memory.starts)[a + 1]
    gains, length = floats(near.gains), _squared_length(worker, examples, i)
    for wire in range(lo, hi):
        j, gains[wire - lo] = integers(memory.sender)[wire], 0.0
        if j != a and integers(near.back)[wire] >= 0 and integers(memory.absent)[j] == 0:
            _look_at(views, memory, near, wire)
            gains[wire - lo] = _gain(worker, views, examples, near, a, wire, i, length)
    for _ in range(near.pupils):
        best = 0
        for k in range(1, hi - lo):
            if gains[k] > gains[best]:
                best = k
        if not gains[best] > 0.0:
            return
        gains[best] = 0.0
        wire, j = integers(near.back)[lo + best], integers(memory.sender)[lo + best]
        be_taught(worker, views, examples, memory, talk, near, j, wire, i, near.gradients)
        lesson = integers(near.lessons)[0]
        integers(near.taught)[2 * lesson] = e
        integers(near.taught)[2 * lesson + 1] = wire
        integers(near.lessons)[0] = lesson + 1


@inner
def be_taught(worker, views, examples, memory, talk, near, j, wire, i, gradient):
    """Agent j learns from a row that comes by a wire, and whose sender keeps its view of j up to date.

    It takes the gradient at its own weights, or, where it is sent that alone, the one at the sender's view.
    """
    back, outputs = integers(near.back)[wire], worker.shape.outputs
    slopes, eta, sees = (
        near.slopes + 16 * outputs,
        eta_of(worker, memory, j),
        part(worker, OBSERVE) != 0,
    )
    if near.views and back >= 0:
        _look_at(views, memory, near, back)
        if sees:
            observe_example(views, examples, back, i)
        _slopes_at(worker, examples, i, score_example(views, examples, back, i), slopes)
        answer_example(views, examples, back, i, slopes, eta)
    if not (gradient and near.views and back >= 0):
        if sees:
            observe_example(worker, examples, j, i)
        _slopes_at(worker, examples, i, score_example(worker, examples, j, i), slopes)
    answer_example(worker, examples, j, i, slopes, eta)
    if part(worker, FINISH) != 0:
        finish_copy(worker, j, max(integers(memory.turns)[j], 1), eta)
    _, _, n = row_at(worker, examples, i)
    indices = 4 * n if examples.indptr != 0 else 0
    integers(talk.messages)[wire] += 1
    integers(talk.bytes)[wire] += indices + 8 * (n * outputs if gradient else n + 1)
    integers(talk.arrived)[wire] += 1
