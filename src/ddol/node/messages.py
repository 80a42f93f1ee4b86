"""Messages between nodes: numbers to average, with digests of algorithm and encoding.

A message is a header of plain values and an array. Nothing in it is executed; its sizes are checked before
memory is taken. Who has sent it is not proved here: envelopes are signed around it (`ddol.node.identity`).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from ddol.algorithm import Algorithm
from ddol.node.errors import RefusedMessageError
from ddol.presets import PRESETS

_MAGIC, _HEAD = b"ddolmsg1", struct.Struct("<8sII")
MOST_BYTES, _MOST_HEADER, _MOST_NAMES = 1 << 28, 1 << 24, 1 << 20
_LARGEST = 1e150
_FORMATS = {"float64": np.float64, "float32": np.float32}


class Message(NamedTuple):
    """A message of a node.

    Parameters
    ----------
    sender : str
    number : int
        Increases with every message, across restarts.
    algorithm, encoding : str
        Digests of the algorithm, and of how examples become columns.
    agents : int
        Nodes that the sender averages with, itself included.
    examples : int
        That the sender has learned from.
    schema : dict
        `names` and `kinds` of columns, `classes`, and whether these are `fixed`.
    numbers : (outputs, rows · columns + scalars)
    columns : uint32 (n,), or None for all
    """

    sender: str
    number: int
    algorithm: str
    encoding: str
    agents: int
    examples: int
    schema: dict[str, Any]
    numbers: np.ndarray
    columns: np.ndarray | None

    def write(self, kind: str = "float64") -> bytes:
        """The message as bytes, with numbers of type `kind`."""
        header = self._asdict() | {
            "shape": list(self.numbers.shape),
            "columns": None if self.columns is None else len(self.columns),
            "numbers": kind,
        }
        text = json.dumps(header, separators=(",", ":")).encode()
        columns = b"" if self.columns is None else self.columns.astype("<u4").tobytes()
        numbers = np.ascontiguousarray(self.numbers)
        if kind == "float32":
            numbers = _single(numbers)
        body = columns + numbers.tobytes()
        return _HEAD.pack(_MAGIC, len(text), len(body)) + text + body


def _single(numbers: np.ndarray) -> np.ndarray:
    """In single precision; what is not 0 stays so, and what is finite too."""
    kind = np.finfo(np.float32)
    sizes = np.clip(np.abs(numbers), float(kind.tiny), float(kind.max))
    return np.where(numbers == 0.0, 0.0, np.copysign(sizes, numbers)).astype(np.float32)


def read_message(blob: bytes) -> Message:
    """The message that bytes are, or `RefusedMessageError`.

    Examples
    --------
    >>> sent = Message("eu", 1, "a", "e", 2, 10, {}, np.ones((1, 3)), None)
    >>> read_message(sent.write()).sender
    'eu'
    >>> read_message(b"rubbish")
    Traceback (most recent call last):
    ...
    ddol.node.errors.RefusedMessageError: found 7 bytes that are no message of ddol
    """
    if len(blob) > MOST_BYTES:
        raise RefusedMessageError(
            "oversized", f"found {len(blob):,} bytes, expected {MOST_BYTES:,}"
        )
    header, body = _parts(blob)
    try:
        return _checked(header, body)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, RefusedMessageError):
            raise
        raise RefusedMessageError("malformed", "found a message whose header is damaged") from None


def _parts(blob: bytes) -> tuple[dict[str, Any], memoryview]:
    strange = f"found {len(blob)} bytes that are no message of ddol"
    if len(blob) < _HEAD.size:
        raise RefusedMessageError("malformed", strange)
    magic, header, body = _HEAD.unpack_from(blob)
    if magic != _MAGIC or header > _MOST_HEADER or _HEAD.size + header + body != len(blob):
        raise RefusedMessageError("malformed", strange)
    text = blob[_HEAD.size : _HEAD.size + header]
    try:
        found = json.loads(text)
        if b"\\ud" in text.lower():  # half of a pair could not be told to others
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise RefusedMessageError("malformed", strange)
    return found, memoryview(blob)[_HEAD.size + header :]


def _checked(header: dict[str, Any], body: memoryview) -> Message:
    outputs, size = (_whole(n) for n in header["shape"])
    n = 0 if header["columns"] is None else _whole(header["columns"])
    kind = _FORMATS[header["numbers"]]
    if 4 * n + outputs * size * np.dtype(kind).itemsize != len(body):
        raise RefusedMessageError("malformed", "found a message of another length than it says")
    columns = None
    if header["columns"] is not None:
        columns = np.frombuffer(body[: 4 * n], np.uint32).copy()
        if n > 1 and not (columns[1:] > columns[:-1]).all():
            raise RefusedMessageError("malformed", "found columns that do not rise")
    numbers = np.frombuffer(body[4 * n :], kind).astype(np.float64).reshape(outputs, size)
    sender = header["sender"]
    if not isinstance(sender, str) or len(sender) > 200:
        raise RefusedMessageError("malformed", "found a message without a sender")
    with np.errstate(all="ignore"):
        total = float(np.abs(numbers).sum())
    if not total < _LARGEST:
        raise RefusedMessageError(
            "not finite",
            f"found a message of {sender} with numbers that are not finite, or whose squares are none",
            sender,
        )
    return Message(
        sender, _whole(header["number"]), str(header["algorithm"]), str(header["encoding"]),
        _whole(header["agents"]), _whole(header["examples"]), _checked_schema(header["schema"]),
        numbers, columns,
    )  # fmt: skip


def _checked_schema(schema: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(schema, dict):
        raise RefusedMessageError("malformed", "found a message without a schema")
    names, classes, kinds = schema.get("names"), schema.get("classes", []), schema.get("kinds", {})
    right = (
        (names is None or _texts(names))
        and isinstance(kinds, dict)
        and _texts(list(kinds.values()))
        and isinstance(classes, list)
        and all(isinstance(c, str | int | float) and c == c for c in classes)
        and isinstance(schema.get("fixed", False), bool)
    )
    if not right or len(names or ()) > _MOST_NAMES:
        raise RefusedMessageError("malformed", "found a message whose schema is damaged")
    return schema


def _texts(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(each, str) for each in given)


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 62:
        raise RefusedMessageError("malformed", f"found {value!r} in a message, expected a count")
    return value


# --- digests --------------------------------------------------------------------------------------


def algorithm_digest(algorithm: Algorithm) -> str:
    """What must be the same at nodes that average: how the algorithm was made, whatever its outputs."""
    loss = loss_name(algorithm), list(algorithm.loss.parameters)
    if algorithm.recipe is None:
        parameters = np.asarray(algorithm.update.parameters(), float).tolist()
        made: Any = [type(algorithm.update).__qualname__, algorithm.name, parameters, loss]
    else:
        # Parameters at their defaults are left out: a later version may have more of them.
        known = PRESETS[algorithm.recipe["preset"]].parameters
        made = {
            name: value
            for name, value in algorithm.recipe.items()
            if name not in known or value != known[name].default
        } | {"loss": loss}  # a recipe may name it, or have it as a value
    kind = "private" if algorithm.privacy is not None else algorithm.safe
    return _digest([made, algorithm.average, algorithm.C, kind])


def loss_name(algorithm: Algorithm) -> str:
    """The loss as users name it: a mixture has another one for several classes."""
    name = algorithm.loss.name
    return name.removesuffix("_one_vs_all") if algorithm.has_mixture else name


def encoding_digest(columns: str, labels: str) -> str:
    """The same for how examples are read."""
    return _digest([columns, labels])


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return blake2b(text.encode(), digest_size=16).hexdigest()


def short_digest(blob: bytes) -> str:
    """Names a message in journals."""
    return blake2b(blob, digest_size=12).hexdigest()


def listed_names(names: Sequence[str], most: int = 5) -> str:
    """The first names, for messages to people."""
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
