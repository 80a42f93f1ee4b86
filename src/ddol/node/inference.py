"""The Open Inference Protocol, version 2: tensors to examples, predictions to tensors."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from ddol.node.errors import NodeError
from ddol.node.node import Prediction

_REAL, _WHOLE = (float, int), (int,)
_KINDS: dict[str, tuple[type, ...]] = {
    "BYTES": (str,), "BOOL": (bool,), "FP16": _REAL, "FP32": _REAL, "FP64": _REAL,
    "INT8": _WHOLE, "INT16": _WHOLE, "INT32": _WHOLE, "INT64": _WHOLE,
    "UINT8": _WHOLE, "UINT16": _WHOLE, "UINT32": _WHOLE, "UINT64": _WHOLE,
}  # fmt: skip
"""Types of values, by datatype."""
_BINARY = {
    "BOOL": "?", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
    **{f"{sign.upper()}INT{8 * n}": f"<{sign or 'i'}{n}" for sign in ("u", "") for n in (1, 2, 4, 8)},
}  # fmt: skip
_ONE = [1]
_MOST_EXAMPLES = 1 << 16


class InputTensor(msgspec.Struct, gc=False):
    """One input: a feature of n examples, or all features of n examples as an array."""

    name: str
    shape: list[int]
    datatype: str
    data: list[Any] = []
    parameters: dict[str, Any] | None = None


class AskedOutput(msgspec.Struct):
    """An output that is asked for: `label` or `probability`."""

    name: str


class InferRequest(msgspec.Struct):
    """Examples to predict, the identifier that their labels will be given by, and the outputs, or all."""

    inputs: list[InputTensor]
    id: str | None = None
    outputs: list[AskedOutput] | None = None


class Feedback(msgspec.Struct):
    """The label of a prediction."""

    id: str
    label: str | float | bool | int


decode_request = msgspec.json.Decoder(InferRequest).decode
decode_feedback = msgspec.json.Decoder(Feedback | list[Feedback]).decode


def decode_binary(body: bytes, header: str) -> InferRequest:
    """A request whose tensors follow its JSON as bytes: the protocol's binary extension.

    Parameters
    ----------
    body : bytes
    header : str
        Bytes of the JSON, as the client's header says.

    Examples
    --------
    >>> text = b'{"inputs":[{"name":"x","shape":[2],"datatype":"FP32","parameters":{"binary_data_size":8}}]}'
    >>> decode_binary(text + np.array([1.5, 2.0], "<f4").tobytes(), str(len(text))).inputs[0].data
    [1.5, 2.0]
    """
    place = int(header) if header.isdigit() else len(body) + 1
    if place > len(body):
        raise NodeError(
            f"found a body of {len(body)} bytes, expected {header[:20]} of JSON and the tensors"
        )
    request = decode_request(body[:place])
    for tensor in request.inputs:
        size = (tensor.parameters or {}).get("binary_data_size")
        if size is None:
            continue
        if type(size) is not int or not 0 <= size <= len(body) - place:
            raise NodeError(
                f"input {tensor.name!r}: found {size!r} for binary_data_size, expected its bytes"
            )
        tensor.data = _from_bytes(tensor, body[place : place + size])
        place += size
    if place != len(body):
        raise NodeError(f"found {len(body) - place} bytes that belong to no input")
    return request


def _from_bytes(tensor: InputTensor, body: bytes) -> list[Any]:
    """The values of a tensor that came as bytes: text has its length before it."""
    wrong = NodeError(f"input {tensor.name!r}: found bytes that are no {tensor.datatype} values")
    if tensor.datatype != "BYTES":
        kind = _BINARY.get(tensor.datatype)
        if kind is None or len(body) % np.dtype(kind).itemsize:
            raise wrong
        found: list[Any] = np.frombuffer(body, kind).tolist()
        return found
    texts, place = [], 0
    while place < len(body):
        length = int.from_bytes(body[place : place + 4], "little")
        text = body[place + 4 : place + 4 + length]
        place += 4 + length
        try:
            texts.append(text.decode())
        except UnicodeDecodeError:
            raise wrong from None
    if place != len(body):
        raise wrong
    return texts


def examples_of(request: InferRequest, arrays: bool) -> list[Any]:
    """The examples of a request: dictionaries, or rows of one array.

    Parameters
    ----------
    request : InferRequest
    arrays : bool
        The model may be given arrays: one input of two dimensions is one.

    Examples
    --------
    >>> request = InferRequest([InputTensor("price", [2], "FP64", [3.5, 4.0])])
    >>> examples_of(request, arrays=True)
    [{'price': 3.5}, {'price': 4.0}]
    """
    inputs = request.inputs
    if not inputs:
        raise NodeError("`inputs`: found none, expected at least one")
    if arrays and len(inputs) == 1 and len(inputs[0].shape) == 2:
        return _rows(inputs[0])
    n = inputs[0].shape[0] if inputs[0].shape else 1
    if n == 1:
        row = {tensor.name: _value(tensor) for tensor in inputs}
        found = [row]
    else:
        columns = {tensor.name: _column(tensor, n) for tensor in inputs}
        row, names = columns, list(columns)
        found = [
            dict(zip(names, each, strict=True)) for each in zip(*columns.values(), strict=True)
        ]
    if len(row) < len(inputs):
        counts = Counter(tensor.name for tensor in inputs)
        raise NodeError(f"`inputs`: found {counts.most_common(1)[0][0]!r} twice, expected it once")
    return found


def _value(tensor: InputTensor) -> Any:
    """The value of a tensor of one example; what is usual is not looked at closely."""
    if tensor.shape == _ONE and len(tensor.data) == 1:
        value = tensor.data[0]
        usual = _KINDS.get(tensor.datatype, ())
        if usual and type(value) is usual[0] and usual is not _WHOLE:
            return value
    return _column(tensor, 1)[0]


def _column(tensor: InputTensor, n: int) -> list[Any]:
    """The values of a tensor of n examples."""
    size = tensor.shape[0] if len(tensor.shape) == 1 else math.prod(tensor.shape)
    if not 0 < n <= _MOST_EXAMPLES:
        raise NodeError(
            f"input {tensor.name!r}: found shape {tensor.shape}, expected 1 to {_MOST_EXAMPLES:,} examples"
        )
    tensor.data = _flat(tensor, n)
    if size != n or size != len(tensor.data):
        raise NodeError(
            f"input {tensor.name!r}: found shape {tensor.shape} and {len(tensor.data)} values, expected "
            f"[{n}] and as many"
        )
    _check_values(tensor)
    return tensor.data


def _flat(tensor: InputTensor, n: int) -> list[Any]:
    """The values of a tensor, which may come in a list for each example."""
    data = tensor.data
    if not data or not isinstance(data[0], list):
        return data
    if any(type(row) is not list for row in data):
        raise NodeError(f"input {tensor.name!r}: found a row that is none, expected {n} rows")
    return [value for row in data for value in row]


def _check_values(tensor: InputTensor) -> None:
    """Refuse values that are not what the datatype says."""
    datatype = tensor.datatype
    if datatype not in _KINDS:
        raise NodeError(
            f"input {tensor.name!r}: found datatype {datatype!r}, expected FP64, INT64, BOOL or BYTES"
        )
    kinds, least, most = _KINDS[datatype], 0, 0
    if kinds is _WHOLE:
        bits = int(datatype.rpartition("INT")[2])
        least, most = (0, 1 << bits) if datatype[0] == "U" else (-1 << bits - 1, 1 << bits - 1)
    for value in tensor.data:
        if type(value) not in kinds or (most and not least <= value < most):
            raise NodeError(f"input {tensor.name!r}: found {value!r}, expected {datatype} values")


def _rows(tensor: InputTensor) -> list[list[Any]]:
    """The rows of one array of all features."""
    n, width = tensor.shape
    data = _flat(tensor, n)
    if tensor.datatype == "BYTES":
        raise NodeError(f"input {tensor.name!r}: found text in an array, expected numbers")
    if n < 1 or width < 1 or n * width != len(data):
        raise NodeError(
            f"input {tensor.name!r}: found shape {tensor.shape} and {len(data)} values, expected as many"
        )
    _check_values(InputTensor(tensor.name, [len(data)], tensor.datatype, data))
    return [data[k * width : (k + 1) * width] for k in range(n)]


def tickets(identifier: str | None, n: int) -> list[str | None]:
    """The identifiers of n examples.

    Examples
    --------
    >>> tickets("r1", 1), tickets("r1", 2)
    (['r1'], ['r1/0', 'r1/1'])
    """
    if identifier is None:
        return [None] * n
    return [identifier] if n == 1 else [f"{identifier}/{k}" for k in range(n)]


def chosen_outputs(request: InferRequest, told: dict[str, Any]) -> dict[str, Any]:
    """The response with the outputs that were asked for."""
    if request.outputs:
        names, known = [each.name for each in request.outputs], ("label", "probability")
        for name in names:
            if name not in known:
                raise NodeError(f"`outputs`: found {name!r}, expected label or probability")
        told["outputs"] = [each for each in told["outputs"] if each["name"] in names]
    return told


def response(model: str, identifier: str | None, found: Sequence[Prediction]) -> dict[str, Any]:
    """Predictions as the protocol has them."""
    labels = [p.label for p in found]
    chances = [p.proba for p in found]
    n = len(found)
    kind = datatype(labels)
    if kind == "BYTES":  # text, beside labels of other types
        labels = [label if label is None else str(label) for label in labels]
    told: dict[str, Any] = {"model_name": model}
    if identifier is not None:
        told["id"] = identifier
    told["outputs"] = [
        {"name": "label", "shape": [n], "datatype": kind, "data": labels},
        {
            "name": "probability",
            "shape": [n, len(chances[0])],
            "datatype": "FP64",
            "data": [chance for row in chances for chance in row],
        },
    ]
    return told


def datatype(labels: Sequence[Any]) -> str:
    """The protocol's name of what labels are.

    Examples
    --------
    >>> datatype(["yes"]), datatype([True]), datatype([3]), datatype([0.5]), datatype([None])
    ('BYTES', 'BOOL', 'INT64', 'FP64', 'BYTES')
    """
    kinds = {type(label) for label in labels}
    if kinds == {bool}:
        return "BOOL"
    if kinds == {int}:
        return "INT64"
    return "FP64" if kinds <= {int, float} and kinds else "BYTES"
