"""Examples and labels from elsewhere than HTTP: standard input, topics of a message broker.

``{"features": {…}, "label": …}`` is learned, ``{"id": …, "features": {…}}`` is predicted and waits, and
``{"id": …, "label": …}`` is its label. With all three, an example is learned once, however often it comes.

A source is a function that gives lines to a `LineTaker` and returns a function that ends it. Lines that a
broker sends again until they are acknowledged are acknowledged when they are on the disk (`durable`).
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urlsplit

from ddol.node.errors import NodeError, NotDurableError
from ddol.node.node import DUPLICATE, Node
from ddol.node.prediction import checked_name
from ddol.node.waiting import ANSWERED

_log = logging.getLogger("ddol.node")


class LineTaker:
    """Carries out lines of JSON on a node, one after the other.

    Parameters
    ----------
    node : Node
    tell : function of a text
        Called with every prediction, as a line of JSON.

    Examples
    --------
    >>> import ddol
    >>> taker = LineTaker(ddol.Node("eu", ddol.adaptive("logistic")), print)
    >>> taker.take('{"features": {"x": 1}, "label": "yes"}')
    >>> taker.take('{"id": "r1", "features": {"x": 2}}')
    {"id": "r1", "label": "yes", "probability": [1.0]}
    >>> for _ in range(2):
    ...     taker.take('{"id": "r1", "label": "no"}')
    ...     taker.take('{"id": "e1", "features": {"x": 1}, "label": "yes"}')
    >>> dict(taker.counts)
    {'learned': 2, 'predicted': 1, 'accepted': 1, 'duplicate': 2}
    """

    def __init__(self, node: Node, tell: Callable[[str], Any]) -> None:
        self.node, self.tell = node, tell
        self.counts: Counter = Counter()

    def take(self, line: str | bytes) -> None:
        """Carry out one line."""
        try:
            told = json.loads(line)
        except (ValueError, RecursionError):
            raise NodeError(f"found {line[:60]!r}, expected an object in JSON") from None
        if not isinstance(told, dict) or not {"features", "label"} & told.keys():
            raise NodeError(f"found {line[:60]!r}, expected features, a label, or both")
        features: Any = told.get("features")
        name: Any = told.get("id")
        if features is None:
            self.counts[self.node.answer(name, told["label"])] += 1
        elif "label" in told:
            self.counts[self._learn(name, features, told["label"])] += 1
        else:
            p = self.node.predict(features, id=name)
            self.counts["predicted"] += 1
            self.tell(json.dumps({"id": name, "label": p.label, "probability": p.proba}))

    def _learn(self, name: str | None, features: Any, label: Any) -> str:
        """Learn an example; what became of it."""
        if name is None:
            self.node.learn(features, label)
        elif self.node.status(checked_name(name)) == ANSWERED:
            return DUPLICATE
        else:
            self.node.check_answers([(name, label)])
            self.node.predict(features, id=name)
            self.node.answer(name, label)
        return "learned"

    def take_or_log(self, line: str | bytes, where: str) -> None:
        """Carry out one line; a bad one is logged and counted."""
        try:
            self.take(line)
        except ValueError as error:
            self.counts["refused"] += 1
            _log.error("%s: %s", where, error)

    def take_all(self, lines: Iterable[str | bytes], where: str) -> None:
        """Carry out lines to their end."""
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    self.take_or_log(line, f"{where}:{number}")
                except NotDurableError as error:
                    self.counts["refused"] += 1
                    _log.error("%s:%d: %s", where, number, error)
        _log.info("%s has ended: %s", where, dict(self.counts))

    def durable(self, then: Callable[[], Any]) -> None:
        """Call a function when all that was taken is on the disk; never, where it is lost."""
        journal = self.node.journal
        if journal is None:
            then()
            return
        place = journal.written
        safe = journal.every is None
        journal.when_flushed(place, lambda: then() if safe or journal.flushed >= place else None)


def mqtt_source(address: str, taker: LineTaker, name: str) -> Callable[[], None]:
    """Take the messages of a topic; predictions go to the topic with ``/predictions`` behind it.

    The broker keeps what comes while the node is away, and sends it again until it is on the node's disk.

    Parameters
    ----------
    address : str
        ``mqtt://host:port/topic``, or ``mqtts://`` with TLS; ``user:password@`` before the host.
    taker : LineTaker
    name : str
        By which the broker knows the node.
    """
    from ddol.node.transport.broker import mqtt_client

    client, place = mqtt_client(address, f"ddol-{name}-{urlsplit(address).path}", keeps=True)
    topic = urlsplit(address).path.strip("/")
    if not topic:
        raise NodeError(
            f"`sources`: found {address!r} without a topic, expected mqtt://HOST:PORT/TOPIC"
        )
    taker.tell = lambda line: client.publish(f"{topic.rstrip('/+#')}/predictions", line, qos=1)

    def came(_: Any, __: Any, message: Any) -> None:
        if message.topic.endswith("/predictions"):
            client.ack(message.mid, message.qos)
            return
        try:
            taker.take_or_log(message.payload, message.topic)
        except NotDurableError as error:  # not acknowledged: the broker sends it again
            _log.error("%s: %s", message.topic, error)
            return
        taker.durable(lambda: client.ack(message.mid, message.qos))

    client.on_message = came
    client.on_connect = lambda *_: client.subscribe(topic, qos=1)
    client.connect_async(*place, keepalive=10)
    client.loop_start()

    def end() -> None:
        client.disconnect()
        client.loop_stop()

    return end


SOURCES: dict[str, Callable[[str, LineTaker, str], Callable[[], None]]] = {
    "mqtt": mqtt_source,
    "mqtts": mqtt_source,
}
"""Sources by the scheme of their addresses."""


def begin_source(address: str, node: Node, model: str) -> Callable[[], None]:
    """Begin to take what comes from an address; a function that ends it."""
    scheme = urlsplit(address).scheme
    if scheme not in SOURCES:
        raise NodeError(
            f"`sources`: found {address!r}, expected {' or '.join(f'{s}://' for s in SOURCES)}; other "
            "systems can write lines to --stdin"
        )
    return SOURCES[scheme](address, LineTaker(node, lambda _: None), f"{node.name}-{model}")
