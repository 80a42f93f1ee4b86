"""The Open Inference Protocol, version 2: tensors to examples, predictions to tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from ddol.node.errors import NodeError
from ddol.node.node import Prediction

_NUMBERS = {"BOOL", "FP16", "FP32", "FP64"} | {
    f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)
}
_MOST_EXAMPLES = 1 << 16


class InputTensor(msgspec.Struct):
    """One input: a feature of n examples, or all features of n examples as an array."""

    name: str
    shape: list[int]
    datatype: str
    data: list[Any]


class InferRequest(msgspec.Struct):
    """Examples to predict, and the identifier that their labels will be given by."""

    inputs: list[InputTensor]
    id: str | None = None


class Feedback(msgspec.Struct):
    """The label of a prediction."""

    id: str
    label: str | float | bool | int


decode_request = msgspec.json.Decoder(InferRequest).decode
decode_feedback = msgspec.json.Decoder(Feedback | list[Feedback]).decode
encode = msgspec.json.Encoder().encode


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
    columns = {tensor.name: _column(tensor, n) for tensor in inputs}
    if n == 1:
        return [{name: column[0] for name, column in columns.items()}]
    names = list(columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _column(tensor: InputTensor, n: int) -> list[Any]:
    size = tensor.shape[0] if len(tensor.shape) == 1 else math.prod(tensor.shape)
    if size != n or size != len(tensor.data) or not 0 < n <= _MOST_EXAMPLES:
        raise NodeError(
            f"input {tensor.name!r}: found shape {tensor.shape} and {len(tensor.data)} values, expected "
            f"[{n}] and as many"
        )
    if tensor.datatype == "BYTES":
        kinds: tuple[type, ...] = (str,)
    elif tensor.datatype in _NUMBERS:
        kinds = (int, float, bool)
    else:
        raise NodeError(
            f"input {tensor.name!r}: found datatype {tensor.datatype!r}, expected FP64, INT64, BOOL or BYTES"
        )
    for value in tensor.data:
        if type(value) not in kinds:
            raise NodeError(
                f"input {tensor.name!r}: found {value!r}, expected {tensor.datatype} values"
            )
    return tensor.data


def _rows(tensor: InputTensor) -> list[list[Any]]:
    n, width = tensor.shape
    data = tensor.data
    if data and isinstance(data[0], list):
        data = [value for row in data for value in row]
    flat = InputTensor(tensor.name, [n * width], tensor.datatype, data)
    if tensor.datatype == "BYTES":
        raise NodeError(f"input {tensor.name!r}: found text in an array, expected numbers")
    if n < 1 or width < 1 or n * width != len(data):
        raise NodeError(
            f"input {tensor.name!r}: found shape {tensor.shape} and {len(data)} values, expected as many"
        )
    values = _column(flat, n * width) if n * width <= _MOST_EXAMPLES else _large(flat)
    return [values[k * width : (k + 1) * width] for k in range(n)]


def _large(tensor: InputTensor) -> list[Any]:
    raise NodeError(
        f"input {tensor.name!r}: found {len(tensor.data):,} values, expected at most {_MOST_EXAMPLES:,}"
    )


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


def response(model: str, identifier: str | None, found: Sequence[Prediction]) -> dict[str, Any]:
    """Predictions as the protocol has them."""
    labels = [p.label for p in found]
    chances = [p.proba for p in found]
    n = len(found)
    told: dict[str, Any] = {"model_name": model}
    if identifier is not None:
        told["id"] = identifier
    told["outputs"] = [
        {"name": "label", "shape": [n], "datatype": datatype(labels), "data": labels},
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
