"""Examples and labels as JSON lines, from standard input or from a topic.

``{"features": {…}, "label": …}`` is learned, ``{"id": …, "features": {…}}`` is predicted and waits, and
``{"id": …, "label": …}`` is its label.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ddol.node.errors import NodeError
from ddol.node.node import Node

_log = logging.getLogger("ddol.node")


class LineTaker:
    """Lets a node do what lines say, one after the other.

    Parameters
    ----------
    node : Node
    tell : function of a text
        Given an answer to every prediction, as a line of JSON.

    Examples
    --------
    >>> import ddol
    >>> taker = LineTaker(ddol.Node("eu", ddol.adaptive("logistic")), print)
    >>> taker.take('{"features": {"x": 1}, "label": "yes"}')
    >>> taker.take('{"id": "r1", "features": {"x": 2}}')
    {"id": "r1", "label": "yes", "probability": [1.0]}
    >>> taker.take('{"id": "r1", "label": "no"}')
    >>> dict(taker.counts)
    {'learned': 1, 'predicted': 1, 'accepted': 1}
    """

    def __init__(self, node: Node, tell: Callable[[str], Any]) -> None:
        self.node, self.tell = node, tell
        self.counts: Counter = Counter()

    def take(self, line: str | bytes) -> None:
        """Do what one line says."""
        try:
            told = json.loads(line)
        except ValueError:
            raise NodeError(f"found {line[:60]!r}, expected an object in JSON") from None
        if not isinstance(told, dict) or not {"features", "label"} & told.keys():
            raise NodeError(f"found {line[:60]!r}, expected features, a label, or both")
        features, name = told.get("features"), told.get("id")
        if features is None:
            self.counts[self.node.answer(str(name), told["label"])] += 1
        elif "label" in told:
            self.node.learn(features, told["label"])
            self.counts["learned"] += 1
        else:
            p = self.node.predict(features, id=name)
            self.counts["predicted"] += 1
            self.tell(json.dumps({"id": name, "label": p.label, "probability": p.proba}))

    def take_all(self, lines: Iterable[str | bytes], where: str) -> None:
        """Do what lines say; a bad one is told in the log, and the next is taken."""
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    self.take(line)
                except (ValueError, RuntimeError) as error:
                    self.counts["refused"] += 1
                    _log.error("%s:%d: %s", where, number, error)
        _log.info("%s has ended: %s", where, dict(self.counts))
