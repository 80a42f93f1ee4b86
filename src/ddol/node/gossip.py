"""Exchange of messages: a thread sends, averages, and watches which peers are alive."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ddol.node.errors import NodeError, NotDurableError, RefusedMessageError, worth_telling
from ddol.node.journal import seconds_of
from ddol.node.node import Node
from ddol.node.transport.meeting import ALIVE, WEIGHTS, Transport

_log = logging.getLogger("ddol.node")
_LOOK = 0.05
"""Seconds between two looks at how many answers there are, or how far weights have moved."""


@dataclass(frozen=True)
class Exchange:
    """When a node sends what it has learned.

    Parameters
    ----------
    seconds, answers, drift : float or None
        After a time, after so many answers, or when the numbers have moved so far, relative to their size.

    Examples
    --------
    >>> Exchange.of("1s").seconds, Exchange.of("100 answers").answers, Exchange.of("drift:0.1").drift
    (1.0, 100, 0.1)
    """

    seconds: float | None = None
    answers: int | None = None
    drift: float | None = None

    @classmethod
    def of(cls, text: str) -> Exchange:
        """Parse ``1s``, ``100 answers`` or ``drift:0.1``."""
        found = re.fullmatch(r"\s*(\d+)\s*answers?\s*", str(text))
        if found and int(found[1]) > 0:
            return cls(answers=int(found[1]))
        kind, colon, number = str(text).partition(":")
        try:
            if colon and kind == "drift" and 0.0 < float(number) < float("inf"):
                return cls(drift=float(number))
            seconds = seconds_of(text)
        except ValueError:
            seconds = 0.0
        if colon or seconds <= 0.0:
            raise NodeError(f"`exchange`: found {text!r}, expected 1s, 100 answers or drift:0.1")
        return cls(seconds=seconds)


def neighbours(own: str, names: Sequence[str], graph: str | Sequence[str]) -> list[str]:
    """Peers that a node averages with; all nodes derive the same graph from the sorted names of the living.

    Examples
    --------
    >>> names = ["a", "b", "c", "d", "e"]
    >>> neighbours("a", names, "ring"), neighbours("a", names, "exponential"), neighbours("a", names, "all")
    (['b', 'e'], ['b', 'c', 'd', 'e'], ['b', 'c', 'd', 'e'])
    >>> neighbours("a", names, ["c", "z"])
    ['c']
    """
    others = sorted(set(names) - {own})
    if graph == "all":
        return others
    if not isinstance(graph, str):
        return [name for name in others if name in graph]
    everyone = sorted({own, *names})
    n, place = len(everyone), everyone.index(own)
    steps = [1] if graph == "ring" else [1 << k for k in range(n.bit_length()) if 1 << k < n]
    found = {everyone[(place + sign * step) % n] for step in steps for sign in (1, -1)}
    return sorted(found - {own})


class Gossip:
    """Exchange of one node with its peers; a prediction waits at most for one average.

    Parameters
    ----------
    node : Node
    transport : Transport
    exchange : str
        ``1s``, ``100 answers`` or ``drift:0.1``.
    peers : "all", "ring", "exponential", or names
    least : int
        Least number of answers learned between two messages.
    topic : str
        The name of the model.

    Examples
    --------
    >>> import ddol
    >>> from ddol.node.transport.memory import MemoryTransport
    >>> meeting = MemoryTransport.meeting()
    >>> nodes = [ddol.Node(name, ddol.adaptive("logistic")) for name in ("eu", "us")]
    >>> talks = [Gossip(node, MemoryTransport(node.name, meeting), "10 answers") for node in nodes]
    >>> for k in range(30):
    ...     nodes[0].learn({"x": k % 2}, bool(k % 2))
    >>> talks[0].exchange_now(); talks[1].exchange_now()
    >>> nodes[1].predict({"x": 1.0}).label
    True
    >>> for talk in talks:
    ...     talk.close()
    """

    def __init__(
        self,
        node: Node,
        transport: Transport,
        exchange: str = "1s",
        peers: str | Sequence[str] = "all",
        least: int = 1,
        topic: str = "default",
    ) -> None:
        self.node, self.transport, self.topic = node, transport, topic
        self.exchange, self.graph, self.least = Exchange.of(exchange), peers, least
        self.living: set[str] = set()
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._last: np.ndarray | None = None
        self._told = ""
        node.mailbox.envelopes = transport.refused
        self._thread: threading.Thread | None = None
        transport.subscribe(f"{topic}/{WEIGHTS}", self._heard)
        transport.alive(f"{topic}/{ALIVE}", self._came)

    def start(self) -> Gossip:
        """Begin to exchange."""
        self._thread = threading.Thread(target=self._run, daemon=True, name="ddol gossip")
        self._thread.start()
        return self

    # --- hearing ------------------------------------------------------------------------------------

    def _heard(self, sender: str | None, blob: bytes) -> None:
        """Keep a message; it is averaged at the next exchange."""
        try:
            self.node.receive(blob, sender, mix=False)
        except RefusedMessageError as error:
            count = self.node.mailbox.refused(error.sender or sender or "", error.reason)
            if worth_telling(count):
                _log.warning("refused a message (%s, %s so far): %s", error.reason, count, error)

    def _came(self, name: str, there: bool) -> None:
        """A peer has joined or left."""
        if name == self.node.name:
            return
        with self._lock:
            if not there and name not in self.living | self.node.mailbox.peers.keys():
                return
            (self.living.add if there else self.living.discard)(name)
        peer = self.node.mailbox.peer(name)
        if peer.alive != there or peer.number < 0:
            _log.info("%s has %s", name, "come" if there else "gone")
        peer.alive = there

    # --- saying -------------------------------------------------------------------------------------

    def exchange_now(self) -> None:
        """Send what was learned since the last message, then average with the messages received.

        The order matters: averaging first would leave 1/n of what this node has learned for its message.
        """
        node = self.node
        with self._lock:
            living = sorted(self.living)
        near = neighbours(node.name, living, self.graph)
        try:
            node.tell_network(1 + len(near))
            if node.stale and (node.since_sent >= self.least or not node.since_sent):
                blob = node.message()
                node.flush()  # a restart must know what was sent, or it may send too soon
                self.transport.put(f"{self.topic}/{WEIGHTS}", blob)
                self._last = None
            node.mix(set(near) if self.graph != "all" else None)
        except NotDurableError as error:
            _log.error("%s", error)
        except NodeError as error:
            if node.since_sent and str(error) != self._told:  # else it has seen no label yet
                self._told = str(error)
                _log.error("%s: nothing is sent: %s", self.topic, error)

    def _is_due(self, since: float) -> bool:
        exchange, node = self.exchange, self.node
        if exchange.seconds is not None:
            return time.monotonic() - since >= exchange.seconds
        if exchange.answers is not None:
            return node.since_sent >= exchange.answers
        assert exchange.drift is not None
        if not node.messages_sent:  # its peers know nothing of it yet
            return node.since_sent >= self.least
        return node.since_sent > 0 and self._moved() > exchange.drift

    def _moved(self) -> float:
        """How far the weights have moved since the last message, relative to their size."""
        now = self.node.weights().ravel()
        before, self._last = self._last, now if self._last is None else self._last
        if before is None or len(before) != len(now):
            self._last = now
            return 0.0 if before is None else float("inf")
        return float(np.linalg.norm(now - before)) / max(float(np.linalg.norm(before)), 1e-12)

    def _run(self) -> None:
        pause = self.exchange.seconds or _LOOK
        since = time.monotonic()
        while not self._ended.wait(min(pause, 0.5) if self.exchange.seconds is None else pause):
            if self._is_due(since) or self.exchange.seconds is not None:
                since = time.monotonic()
                _quietly(self.exchange_now)

    def finish(self) -> None:
        """Send a last message."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            _quietly(self.exchange_now)

    def close(self) -> None:
        """Send a last message, and leave."""
        self.finish()
        self.transport.close()


def _quietly(call: Callable[[], None]) -> None:
    """Log an error of the transport; the exchange goes on."""
    try:
        call()
    except Exception:
        _log.exception("an exchange failed; the next one tries again")
