"""The live node: it predicts at once, learns when labels arrive, and exchanges messages with peers."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.node import private
from ddol.node import records as r
from ddol.node.agent import LiveAgent
from ddol.node.errors import DivergedError, NodeError, NotDurableError, RefusedMessageError
from ddol.node.features import LiveRow, rows_of
from ddol.node.journal import Journal
from ddol.node.labels import LiveLabel
from ddol.node.listening import Listening
from ddol.node.mailbox import PeerMailbox
from ddol.node.messages import Message, read_message, short_digest
from ddol.node.options import NodeOptions
from ddol.node.prediction import (
    Prediction,
    check_ticket,
    check_weight,
    checked_name,
    no_chances,
)
from ddol.node.recovery import recover
from ddol.node.sites import figures, released_by
from ddol.node.snapshots import snapshot_of
from ddol.node.waiting import ANSWERED, EXPIRED, UNKNOWN, WAITING, clock
from ddol.presets import adaptive
from ddol.together import safe

_log = logging.getLogger("ddol.node")
ACCEPTED, DUPLICATE = "accepted", "duplicate"
_BECAME = {ANSWERED: DUPLICATE, EXPIRED: EXPIRED, UNKNOWN: UNKNOWN}


class Node:
    """An agent of a live network in your own process; it is thread-safe.

    Parameters
    ----------
    name : str
        Name that peers know the node by.
    algorithm : Algorithm, optional
        Of one agent: the network is the nodes that are alive.
        By default ``ddol.safe(ddol.adaptive("logistic"))``.
    **options
        Those of `NodeOptions`: `hash_bits`, `classes`, `store`, `durability`, `waiting`, `expire`, ….

    Examples
    --------
    >>> import ddol
    >>> node = ddol.Node("eu", ddol.safe(ddol.adaptive("logistic")), waiting=1000, expire="30m")
    >>> p = node.predict({"price": 3.5, "country": "fr"}, id="r1")
    >>> p.label, node.answer("r1", True), node.answer("r1", True), node.answer("r2", True)
    (None, 'accepted', 'duplicate', 'unknown')
    >>> node.learn({"price": 1.0, "country": "de"}, False)
    >>> node.predict({"price": 3.4, "country": "fr"}).label
    True

    Messages can be sent by any means:

    >>> other = ddol.Node("us")
    >>> other.receive(node.message())
    >>> other.predict({"price": 3.4, "country": "fr"}).label
    True
    """

    def __init__(self, name: str, algorithm: Algorithm | None = None, **options: Any) -> None:
        right = isinstance(name, str) and 0 < len(name) <= 200 and name.isprintable()
        if not right or any(c in name for c in "/*$?#"):
            raise NodeError(f"`name`: found {name!r}, expected letters, digits, - and _")
        try:
            self.options = NodeOptions(**options)
        except TypeError as error:
            raise NodeError(f"Node: {error}; see ddol.node.options.NodeOptions") from None
        algorithm = safe(adaptive("logistic")) if algorithm is None else algorithm
        if not isinstance(algorithm, Algorithm):
            raise NodeError(
                f"`algorithm`: found {algorithm!r}, expected one such as ddol.safe(ddol.adaptive('logistic'))"
            )
        self.name = name
        self._lock = threading.RLock()
        self.mailbox = PeerMailbox(robust=self.options.robust)
        self.counts: Counter = Counter()
        """Predictions, and answers by what became of them."""
        self.messages_sent = self.bytes_sent = 0
        self.news: list[str] = []
        """What was restored at the start, one line each."""
        self.changed = threading.Event()
        """Set when an example was learned."""
        self._account = private.account_of(algorithm, self.options)
        self._seed = 0 if self._account is None else int(self._account.seed)
        self._agent = LiveAgent(name, algorithm, self.options, self._seed)
        self._journal: Journal | None = None
        self._told = (0, 0, self._agent.features.named)
        self._unwritten: set[str] = set()
        """Waiting predictions that are not in the journal: the disk was full."""
        self._snapshots: threading.Thread | None = None
        self.stale = False
        """Whether weights have changed since the last message."""
        if self.options.store is not None:
            self._recover()
        self.listening = Listening(self._agent)
        """Which peers are averaged with, where the algorithm is safe."""

    def _recover(self) -> None:
        """Go on from the store."""
        self._agent, self._journal, self.news = recover(self._agent, self._account)
        for sender, number in self._agent.heard.items():
            self.mailbox.remember(sender, number)
        features = self._agent.features
        self._told = len(features.names), len(features.kinds), features.named
        self.stale = self._agent.examples > 0

    # --- predicting ---------------------------------------------------------------------------------

    def predict(self, x: Any, id: str | None = None) -> Prediction:  # noqa: A002
        """Predict one example: a dictionary, a row of a frame, an array or a line of Vowpal Wabbit's.

        Parameters
        ----------
        x : example
        id : str, optional
            By which its label will be given; without it the prediction is forgotten at once.
        """
        with self._lock:
            row = self._agent.features.row(x)
            if id is not None:
                check_ticket(id)
            return self._predicted(row, id)

    def _predicted(self, row: LiveRow, name: str | None) -> Prediction:
        scores = self._agent.learning.scores(row)
        if scores is not None and not math.isfinite(sum(scores)):
            raise DivergedError(
                f"{self.name}: found scores that are not finite: {self._agent.learning.algorithm.name} has "
                "diverged; begin a new store, with features of a smaller scale, a smaller rate, or adaptive"
            )
        self.counts["predictions"] += 1
        if name is not None:
            self._keep(name, row, scores)
        return self._prediction(name, scores)

    def predict_many(
        self, examples: Any, ids: Sequence[str | None] | None = None
    ) -> list[Prediction]:
        """Predict the examples of a list, a frame or a matrix, with an identifier each or none.

        All are checked before any is predicted.
        """
        given = rows_of(examples)
        names = [None] * len(given) if ids is None else list(ids)
        if len(names) != len(given):
            raise NodeError(f"found {len(names)} identifiers, expected {len(given)}")
        with self._lock:
            rows = [self._agent.features.row(x) for x in given]
            for name in names:
                if name is not None:
                    check_ticket(name)
            return [self._predicted(row, name) for row, name in zip(rows, names, strict=True)]

    def _keep(self, name: str, row: LiveRow, scores: list[float] | None) -> None:
        """Let a prediction wait; where the disk is full it is not written, and may be lost."""
        agent, room, now = self._agent, self._agent.room, clock()
        room.purge(now)
        if room.done and room.done.get(name) == ANSWERED:
            return  # asked again for what was answered: the answer has been learned
        agent.wait(name, row, scores, now)
        if self._journal is not None:
            said = room.pending[name].said
            try:
                self._write(r.predicted(name, row, said, now))
                self._unwritten.discard(name)
            except NotDurableError:
                self.counts["not written"] += 1
                if len(self._unwritten) > room.most:
                    self._unwritten &= room.pending.keys()
                self._unwritten.add(name)

    def _prediction(self, name: str | None, scores: list[float] | None) -> Prediction:
        labels = self._agent.labels
        if scores is None:
            return Prediction(name, None, [], no_chances)
        said = self._agent.learning.said(scores)
        if labels.regression:
            return Prediction(name, said, scores, no_chances)
        if labels.binary:
            return Prediction(name, labels.classes[said > 0.0], scores, self._chances)
        kept = scores[: len(labels.classes)]
        return Prediction(name, labels.classes[int(said)], kept, self._chances)

    def _chances(self, scores: list[float]) -> list[float]:
        loss = self._agent.learning.algorithm.loss
        if loss.probability is None:
            return []
        if len(scores) == 1:
            if not self._agent.labels.binary:
                return [1.0]
            chance = float(loss.probability(scores[0]))
            return [1.0 - chance, chance]
        found: list[float] = loss.chances(np.array([scores]))[0].tolist()
        return found

    # --- learning -----------------------------------------------------------------------------------

    def answer(self, id: str, label: LiveLabel, weight: float = 1.0) -> str:  # noqa: A002
        """Give the label of a prediction.

        Returns ``accepted``, ``duplicate`` (it has one, nothing is learned), ``expired`` or ``unknown``.
        With ``durability="sync"`` an accepted answer is on the disk when this returns.
        """
        became, place = self._answer(id, label, weight)
        if place and self._journal is not None and self._journal.every == 0.0:
            self._journal.wait(place)
        return became

    def answer_many(self, answers: Sequence[tuple[str, LiveLabel]]) -> tuple[Counter, int]:
        """Give several labels: what became of them, and the place in the journal to wait for.

        All are checked before any is learned.
        """
        with self._lock:
            self.check_answers(answers)
            found, last = Counter({ACCEPTED: 0, DUPLICATE: 0, UNKNOWN: 0, EXPIRED: 0}), 0
            for name, label in answers:
                became, place = self._answer(name, label, 1.0)
                found[became] += 1
                last = max(last, place)
            return found, last

    def check_answers(self, answers: Sequence[tuple[str, LiveLabel]]) -> None:
        """Refuse identifiers and labels that cannot be any; nothing is learned."""
        with self._lock:
            for name, _ in answers:
                checked_name(name)
            self._agent.labels.check_all([label for _, label in answers])

    def status(self, id: str) -> str:  # noqa: A002
        """Whether a prediction is ``waiting``, was ``answered``, has ``expired``, or is ``unknown``."""
        with self._lock:
            self._agent.room.purge(clock())
            return self._agent.room.status(id)

    def _answer(self, name: str, label: LiveLabel, weight: float) -> tuple[str, int]:
        with self._lock:
            agent, place = self._agent, 0
            agent.room.purge(clock())
            status = agent.room.status(checked_name(name))
            if status != WAITING:
                self.counts[_BECAME[status]] += 1
                return _BECAME[status], 0
            label = agent.labels.checked(label)
            check_weight(weight)
            if self._journal is not None:
                text = r.answered(name, label, weight)
                if name in self._unwritten:
                    row, said, begun = agent.room.pending[name]
                    text = r.predicted(name, row, said, begun) + text
                place = self._write(text)
                self._unwritten.discard(name)
            self.listening.test(*agent.answer(name, label, weight))
            self._learned(ACCEPTED)
            return ACCEPTED, place

    def learn(self, x: Any, label: LiveLabel, weight: float = 1.0) -> None:
        """Learn one example whose label is known; it is predicted first, and counted."""
        with self._lock:
            agent, place = self._agent, 0
            row, label = agent.features.row(x), agent.labels.checked(label)
            check_weight(weight)
            if self._journal is not None:
                place = self._write(r.learned(row, label, weight))
            self.listening.test(row, agent.learn(row, label, weight))
            self._learned("learned")
        if place and self._journal is not None and self._journal.every == 0.0:
            self._journal.wait(place)

    def learn_many(self, examples: Any, labels: Sequence[LiveLabel]) -> None:
        """Learn the examples of a list, a frame or a matrix, one after the other."""
        rows = rows_of(examples)
        if len(rows) != len(labels):
            raise NodeError(f"found {len(labels)} labels of {len(rows)} examples, expected as many")
        for x, label in zip(rows, labels, strict=True):
            self.learn(x, label)

    def _learned(self, how: str) -> None:
        self.counts[how] += 1
        self.stale = True
        if not self.changed.is_set():
            self.changed.set()

    # --- what peers say -----------------------------------------------------------------------------

    @property
    def agents(self) -> int:
        """Nodes that this one averages with, itself included."""
        return self._agent.learning.agents

    def tell_network(self, agents: int) -> None:
        """Set how many nodes average with this one, including itself."""
        with self._lock:
            if agents != self._agent.learning.agents:
                if self._journal is not None:
                    self._write(r.plain(r.NETWORK, [agents]))
                self._agent.learning.tell_network(agents)

    def message(self) -> bytes:
        """The message that peers average with."""
        with self._lock:
            number = max(self._agent.number + 1, time.time_ns() // 1_000_000)
            before, self._agent.number = self._agent.number, number
            try:
                message = self._agent.message(self.agents)
                released = released_by(self._agent)
            except NodeError:
                self._agent.number = before
                raise
            if self._journal is not None:
                self._write(r.plain(r.SEND, {"number": number, "agents": self.agents}))
            self._agent.since_sent, self.stale = 0, False
        if self._account is not None and self.options.store is not None:
            self.flush()
            private.note_sent(self._account, self.options.store, released)
        blob = message.write(self.options.compress or "float64")
        with self._lock:
            self.messages_sent += 1
            self.bytes_sent += len(blob)
            if self._journal is not None:
                self._write(r.plain(r.SENT, {"number": number, "digest": short_digest(blob)}))
        return blob

    def receive(self, blob: bytes, sender: str | None = None, mix: bool = True) -> None:
        """Take a message, and average with it.

        Parameters
        ----------
        blob : bytes
            What another node's `message` gave.
        sender : str, optional
            Who is known to have sent it, where an envelope says so; another name in it is refused.
        mix : bool
            Average at once; else when `mix` is called.

        What cannot be averaged is refused with `RefusedMessageError`, and counted by sender.
        """
        try:
            message = read_message(blob)
            if sender is not None and message.sender != sender:
                raise RefusedMessageError(
                    "forged", f"{sender} sent a message in the name of {message.sender}", sender
                )
            with self._lock:
                self._agent.check(message)
                if self.mailbox.put(message, blob):
                    self.listening.hear(message)
                if mix:
                    self.mix()
        except RefusedMessageError as error:
            with self._lock:
                self.mailbox.refuse(error, sender or "")
            raise

    def mix(self, near: Collection[str] | None = None) -> bool:
        """Average with messages that have come since the last time, or robustly with the newest of all peers;
        whether anything changed.

        Parameters
        ----------
        near : names, optional
            Of those to average with; by default all.
        """
        with self._lock:
            found = self.mailbox.fresh()
            fresh = [
                (m, blob)
                for m, blob in found
                if (near is None or m.sender in near)
                and self.listening.trusts(m.sender)
                and self._fits(m)
            ]
            if not self.mailbox.waits(m.sender for m, _ in fresh):
                return False
            if few := self.mailbox.too_few(len(fresh)):
                _log.warning("%s: %s", self.name, few)
            degree = max(self.agents, 1 + len(fresh))
            heard = [r.Heard(1.0 / max(degree, m.agents), blob) for m, blob in fresh]
            if not self._agent.examples:  # a newcomer has nothing of its own to average with
                heard = [r.Heard(1.0 / len(fresh), blob) for _, blob in fresh]
            if self._journal is not None:
                self._write(r.mixed(heard))
            self.mailbox.taken([m.sender for m, _ in fresh])
            changed = self._agent.mix(heard)
            self.stale = self.stale or changed
            return changed

    def _fits(self, message: Message) -> bool:
        """Whether a message still goes with this node: its labels may have come after the message."""
        try:
            self._agent.check(message)
        except RefusedMessageError as error:
            self.mailbox.drop(message.sender)
            self.mailbox.refuse(error)
            return False
        return True

    # --- looking ------------------------------------------------------------------------------------

    @property
    def since_sent(self) -> int:
        """Examples learned since the last message, over restarts too."""
        return self._agent.since_sent

    @property
    def classes(self) -> list[LiveLabel]:
        """Labels so far, in the order of probabilities."""
        return list(self._agent.labels.classes)

    @property
    def takes_arrays(self) -> bool:
        """Whether examples may be arrays: no feature has a name yet."""
        return not self._agent.features.named

    def state(self) -> dict[str, Any]:
        """Current metrics, as plain values."""
        with self._lock:
            told = figures(self._agent)
            told["predictions"] = self.counts["predictions"]
            told["duplicate"], told["unknown"] = self.counts[DUPLICATE], self.counts[UNKNOWN]
            told["messages_sent"], told["bytes_sent"] = self.messages_sent, self.bytes_sent
            told["durable"] = None if self._journal is None else not self._journal.failed
            told["peers"] = [
                peer | {"trusted": self.listening.trusts(peer["name"])}
                for peer in self.mailbox.shown()
            ]
            return told

    def weights(self) -> np.ndarray:
        """Primal weights (outputs, columns); column 0 is the constant."""
        with self._lock:
            player = self._agent.learning.player
            return np.empty((0, 0)) if player is None else player.weights()[0]

    def read(self, look: Callable[[LiveAgent], Any]) -> Any:
        """The result of a function of the agent, called under the lock."""
        with self._lock:
            return look(self._agent)

    # --- durability ---------------------------------------------------------------------------------

    def _write(self, text: bytes) -> int:
        """Write records, behind the names of features that are new; after many, begin a new log first."""
        assert self._journal is not None
        if self._journal.size > self.options.log_bytes:
            self._snapshot_later()
        features = self._agent.features
        now = len(features.names), len(features.kinds), features.named
        if now != self._told:
            text = self._names_since(self._told) + text
        place = self._journal.append(text)
        self._told = now
        return place

    def _names_since(self, told: tuple) -> bytes:
        features = self._agent.features
        kinds = {name: features.kinds[name] for name in features.with_kinds[told[1] :]}
        new = {"names": features.names[told[0] :], "kinds": kinds, "n_values": features.n_values}
        return r.plain(r.NAMES, new)

    @property
    def journal(self) -> Journal | None:
        """Where a durable node writes."""
        return self._journal

    def flush(self) -> None:
        """Return when all that was acknowledged is on the disk."""
        if self._journal is not None:
            self._journal.wait(self._journal.written)

    def snapshot(self) -> None:
        """Write a snapshot to the store, and begin a new journal."""
        if self._journal is None or self._journal.closed:
            raise NodeError("this node has no open `store` to write a snapshot to")
        with self._lock:
            _, path = self._journal.rotate()
            write = snapshot_of(self._agent)
        write(path)
        self._unwritten.clear()
        self._journal.remove_old()

    def _snapshot_later(self) -> None:
        """Begin a new journal now, and write the snapshot before it in another thread."""
        assert self._journal is not None
        if self._snapshots is not None and self._snapshots.is_alive():
            return
        journal = self._journal
        try:
            _, path = journal.rotate()
        except OSError:
            return  # the disk is full: the log of now goes on
        write = snapshot_of(self._agent)

        def work() -> None:
            try:
                write(path)
                journal.remove_old()
            except OSError as error:
                _log.error("%s: the snapshot could not be written (%s)", path, error)

        self._snapshots = threading.Thread(target=work, name="ddol snapshot")
        self._snapshots.start()

    def close(self) -> list[str]:
        """Write a snapshot and release the store; returns what could not be written, one line each.

        A closed node with a store predicts, but takes no labels.
        """
        if self._journal is None or self._journal.closed:
            return []
        if self._snapshots is not None:
            self._snapshots.join()
        lost = []
        try:
            self.snapshot()
        except OSError as error:
            lost.append(
                f"{self.options.store}: the last snapshot could not be written ({error}); the journal has "
                "all labels that were acknowledged"
            )
            if self._unwritten:
                lost.append(f"{len(self._unwritten)} waiting predictions could not be written")
        with self._lock:
            self._journal.close()
        return lost

    def __enter__(self) -> Node:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
