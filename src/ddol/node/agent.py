"""The agent of a node, without locks: it carries out records of a journal, live and in a replay."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.node import records as r
from ddol.node.errors import NodeError, RefusedMessageError
from ddol.node.features import Features, LiveRow
from ddol.node.labels import LiveLabel, LiveLabels
from ddol.node.learning import Learning, Told
from ddol.node.messages import (
    Message,
    algorithm_digest,
    encoding_digest,
    read_message,
)
from ddol.node.options import NodeOptions
from ddol.node.waiting import Pending, WaitingRoom
from ddol.update.checks import check_message
from ddol.update.contract import DUAL
from ddol.update.losses import REGRESSION


class LiveAgent:
    """Learning, labels, features and predictions that wait, of one node.

    Every change of it is one of the records of a journal: played again, they give the same agent, to the bit.

    Parameters
    ----------
    name : str
    algorithm : Algorithm
    options : NodeOptions
    seed : int
        Of the noise in messages, where there is any: a secret of the node.

    Examples
    --------
    >>> import ddol
    >>> agent = LiveAgent("eu", ddol.adaptive("logistic"), NodeOptions())
    >>> row = agent.features.row({"price": 3.5})
    >>> agent.wait("r1", row, None, 0.0); _ = agent.answer("r1", True, 1.0); agent.examples
    1
    """

    def __init__(
        self, name: str, algorithm: Algorithm, options: NodeOptions, seed: int = 0
    ) -> None:
        self.name, self.options = name, options
        self.regression = algorithm.loss.task == REGRESSION
        self.features = Features(options.hash_bits, options.n_features, options.columns)
        self.labels = LiveLabels(options.classes, self.regression, options.labels)
        self.learning = Learning(_robust(algorithm, options), self.features, self.labels, seed)
        self.room = WaitingRoom(options.waiting, options.expire_seconds)
        self.digest = algorithm_digest(algorithm)
        self.number = 0
        """Of its last message."""
        self.heard: dict[str, int] = {}
        """Numbers of the messages of others that were averaged last."""
        self.examples = self.answers = self.mistakes = 0
        self.since_sent = 0
        """Examples learned since its last message."""
        self.loss_sum = 0.0
        """Of a regression: the sum of squared errors."""
        self.window: deque[float] = deque(maxlen=options.window)
        self.window_sum = 0.0

    # --- encoding -----------------------------------------------------------------------------------

    @property
    def encoding(self) -> tuple[str, str]:
        """How columns and labels are read, in words."""
        columns = "names" if self.features.bits is None else f"hashed to {self.features.bits} bits"
        if self.features.dense:
            columns = f"{self.features.n_values} numbers"
        labels = "numbers" if self.regression else "classes"
        return columns, labels

    # --- what happens -------------------------------------------------------------------------------

    def wait(self, name: str, row: LiveRow, scores: Sequence[float] | None, time: float) -> None:
        """A prediction begins to wait for its label."""
        self.room.add(name, Pending(row, self.learning.said(scores), time))

    def answer(self, name: str, label: LiveLabel, weight: float) -> tuple[LiveRow, float]:
        """The label of a prediction that waits; its row, and the number that the label is."""
        pending = self.room.take(name)
        y = self.learning.learn(pending.row, label, weight)
        self.answers += 1
        self._count(pending.said, y)
        return pending.row, y

    def learn(self, row: LiveRow, label: LiveLabel, weight: float) -> float:
        """An example with its label, which is predicted first; the number that the label is."""
        said = self.learning.said(self.learning.scores(row))
        y = self.learning.learn(row, label, weight)
        self._count(said, y)
        return y

    def _count(self, said: float, y: float) -> None:
        """Progressive error: of what was predicted, not of what would be predicted now."""
        self.examples += 1
        self.since_sent += 1
        if self.regression:
            distance = said - y if said == said else y
            cost = distance * distance
            self.loss_sum += cost
        else:
            cost = float(said != y)
            self.mistakes += said != y
        window = self.window
        if len(window) == window.maxlen:
            self.window_sum -= window[0]
        window.append(cost)
        self.window_sum += cost

    def mix(self, heard: Sequence[r.Heard]) -> bool:
        """Average with messages that were checked; whether anything changed."""
        messages = [read_message(h.blob) for h in heard]
        self.heard.update({m.sender: m.number for m in messages})
        told = [self.told(m, h.weight) for m, h in zip(messages, heard, strict=True)]
        if not self.examples:
            # A newcomer goes on from where the others are; rates count from their beginning.
            player = self.learning.begun()
            player.t = max([player.t, *(1 + m.examples for m in messages)])
        return self.learning.mix(told)

    def told(self, message: Message, weight: float) -> Told:
        """A message that was checked, with this node's columns and labels, which it may add to."""
        schema, columns = message.schema, message.columns
        places = [0]
        if not self.regression:
            classes = schema["classes"]
            places = self.labels.learn_classes(classes, schema["fixed"])
            places = [0] if self.labels.binary else places
        numbers, names = message.numbers, schema.get("names")
        if names is not None and columns is not None and self.features.bits is None:
            own = self.features.learn_names(names, schema.get("kinds"))
            rows = self.learning.message_rows(len(columns))
            numbers, columns = _renamed(numbers, columns, np.concatenate([[0], own]), rows)
        elif columns is None and self.features.named is None:
            self.features.named = False
            self.features.n_values = schema["n_values"]
        return Told(numbers[: len(places)], columns, places, weight)

    def play(self, record: r.Record) -> None:
        """Carry out a record."""
        kind, body = record
        if kind == r.PREDICT:
            name, row, said, time = r.read_predicted(body)
            self.features.check_row(row)
            self.room.add(name, Pending(row, said, time))
        elif kind == r.ANSWER:
            name, label, weight = r.read_answered(body)
            self.answer(name, label, weight)
        elif kind == r.LEARN:
            row, label, weight = r.read_learned(body)
            self.features.check_row(row)
            self.learn(row, label, weight)
        elif kind == r.NAMES:
            told = json.loads(body)
            if told["n_values"] is not None:
                self.features.named, self.features.n_values = False, told["n_values"]
            else:
                self.features.learn_names(told["names"], told["kinds"])
        elif kind == r.MIX:
            heard = r.read_mixed(body)
            for each in heard:
                self._check_schema(read_message(each.blob))
            self.mix(heard)
        elif kind == r.SEND:
            self.number, self.since_sent = json.loads(body)["number"], 0
        elif kind == r.NETWORK:
            self.learning.tell_network(json.loads(body)[0])

    # --- messages -----------------------------------------------------------------------------------

    def message(self, agents: int) -> Message:
        """The message that peers average with."""
        columns, numbers = self.learning.message()
        features, labels = self.features, self.labels
        classes = labels.classes
        schema: dict[str, Any] = {"classes": list(classes), "fixed": labels.fixed}
        if features.dense:
            schema["n_values"] = features.n_values
        elif features.bits is None:
            schema |= {"names": features.names, "kinds": features.kinds}
        else:
            schema["kinds"] = features.kinds
        if len(numbers) > 1:
            numbers = numbers[: len(classes)]
        return Message(
            self.name, self.number, self.digest, encoding_digest(*self.encoding), agents,
            self.examples, schema, numbers, columns,
        )  # fmt: skip

    def check(self, message: Message) -> None:
        """Refuse a message that cannot be averaged with; nothing is changed."""
        sender = message.sender
        if sender == self.name:
            raise RefusedMessageError(
                "own name", f"found a message of {sender}, which is this node", sender
            )
        if message.algorithm != self.digest:
            raise RefusedMessageError(
                "algorithm",
                f"{sender}: found another algorithm or another setting of it "
                f"({message.algorithm[:8]}), expected {self.learning.algorithm.name} ({self.digest[:8]}); "
                "give all nodes the same",
                sender,
            )
        if message.encoding not in self._encodings(message):
            raise RefusedMessageError(
                "encoding",
                f"{sender}: found other columns or labels, expected {' and '.join(self.encoding)}; give "
                "all nodes the same",
                sender,
            )
        try:
            self._check_schema(message)
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, RefusedMessageError):
                raise
            raise RefusedMessageError("schema", f"{sender}: {error}", sender) from None

    def _encodings(self, message: Message) -> list[str]:
        """Digests that go with this node, which may not have decided yet."""
        columns, labels = self.encoding
        found = [columns]
        if self.features.named is None:
            found = ["names", f"{message.schema.get('n_values')} numbers"]
        return [encoding_digest(each, labels) for each in found]

    def _check_schema(self, message: Message) -> None:
        schema, labels, features = message.schema, self.labels, self.features
        if not self.regression:
            labels.check_classes(schema["classes"], schema["fixed"])
        for name in features.kinds.keys() & schema.get("kinds", {}).keys():
            if features.kinds[name] != schema["kinds"][name]:
                raise NodeError(
                    f"feature {name!r}: found a {schema['kinds'][name]}, here it is a "
                    f"{features.kinds[name]}"
                )
        self._check_size(message)

    def _check_size(self, message: Message) -> None:
        schema, (outputs, size) = message.schema, message.numbers.shape
        algorithm = self.learning.algorithm
        layout = algorithm.update.layout(algorithm.average, 1)
        scalars = layout.linear_scalars + layout.largest_scalars
        binary = schema.get("fixed") and len(schema["classes"]) == 2
        states = 1 if self.regression or binary else len(schema["classes"])
        if message.columns is None:
            n = 1 + int(schema["n_values"])
            last, most = 0, n
        else:
            n, bits = len(message.columns), self.features.bits
            most = 1 + (len(schema["names"]) if bits is None else 1 << bits)
            last = int(message.columns[-1]) if n else 0
        rows = self.learning.message_rows(n) if size >= n else 0
        if outputs != states or size != rows * n + scalars or last >= most:
            raise RefusedMessageError(
                "size",
                f"{message.sender}: found {outputs} × {size} numbers, expected "
                f"{states} × {rows * n + scalars} for its schema",
                message.sender,
            )
        self._check_numbers(message, n)

    def _check_numbers(self, message: Message, n: int) -> None:
        """Refuse numbers that the layout does not allow: compiled loops trust them."""
        algorithm, rows = self.learning.algorithm, self.learning.message_rows(n)
        layout = algorithm.update.layout(algorithm.average, n)
        for each in message.numbers:
            body, scalars = each[: rows * n].reshape(rows, n), each[rows * n :]
            check_message(layout, body, scalars, message.sender)


def _robust(algorithm: Algorithm, options: NodeOptions) -> Algorithm:
    """The algorithm with the node's rule of averages; what it sends is the same."""
    if options.robust is None:
        return algorithm
    if algorithm.average != DUAL:
        raise NodeError(
            f"`average` {options.robust.name} is for algorithms that average in the dual, expected no "
            f"average={algorithm.average!r}"
        )
    return replace(algorithm, robust=options.robust)


def _renamed(
    numbers: np.ndarray, columns: np.ndarray, own: np.ndarray, rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """A message with this node's columns, rising; names without a column are left out."""
    places = own[columns]
    order = np.argsort(places, kind="stable")
    order = order[(places[order] > 0) | (columns[order] == 0)]
    outputs, n = len(numbers), len(columns)
    body = numbers[:, : rows * n].reshape(outputs, rows, n)[:, :, order]
    joined = np.hstack([body.reshape(outputs, rows * len(order)), numbers[:, rows * n :]])
    return joined, places[order].astype(np.uint32)
