"""Linear forms as ONNX graphs of double numbers: columns in, label, probability and score out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ddol.linear.form import LinearForm
from ddol.storage import written_beside
from ddol.streams.coding.encoding import NUMBER, TEXT
from ddol.streams.errors import DataError
from ddol.update.losses import loss_named

_OPSET, _ML_OPSET = 17, 3

Output = tuple[str, str, int, list[int | None]]
"""Name, node, type and shape."""


def write_onnx(form: LinearForm, path: str | Path) -> None:
    """Write a form; see `to_onnx`."""
    with written_beside(path) as beside:
        beside.write_bytes(to_onnx(form).SerializeToString())


def to_onnx(form: LinearForm) -> Any:
    """An ONNX model of a form.

    Inputs are ``numbers`` (n, columns of numbers) of doubles, or ``features`` where rows name their own,
    and a text of shape (n, 1) by the name of each column of text. Outputs are ``score``, and for classes
    ``label`` and, where the loss has them, ``probability``.
    """
    graph = _Graph()
    values = _inputs(form, graph)
    score = _within(form.range, graph, _score(form, graph, values))
    outputs: list[Output] = [
        ("score", score, graph.helper.TensorProto.DOUBLE, [None, len(form.bias)])
    ]
    if form.encoding.classes is not None:
        outputs += _classes(form, graph, score)
    return graph.model(outputs)


class _Graph:
    """Nodes and constants of a graph that is being made."""

    def __init__(self) -> None:
        try:
            import onnx
            from onnx import numpy_helper
        except ImportError:
            raise ImportError(
                "ONNX files need onnx; install it with: pip install 'ddol[export]'"
            ) from None
        self.onnx, self.helper, self._numpy = onnx, onnx.helper, numpy_helper
        self.inputs: list[Any] = []
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, array: np.ndarray) -> str:
        name = f"constant{len(self.constants)}"
        self.constants.append(self._numpy.from_array(array, name))
        return name

    def node(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(
            self.helper.make_node(kind, list(inputs), [name], domain=domain, **attributes)
        )
        return name

    def input(self, name: str, kind: int, width: int) -> str:
        self.inputs.append(self.helper.make_tensor_value_info(name, kind, [None, width]))
        return name

    def model(self, outputs: list[Output]) -> Any:
        named = []
        for name, node, kind, shape in outputs:
            self.nodes.append(self.helper.make_node("Identity", [node], [name]))
            named.append(self.helper.make_tensor_value_info(name, kind, shape))
        graph = self.helper.make_graph(self.nodes, "ddol", self.inputs, named, self.constants)
        sets = [
            self.helper.make_opsetid("", _OPSET),
            self.helper.make_opsetid("ai.onnx.ml", _ML_OPSET),
        ]
        model = self.helper.make_model(
            graph, opset_imports=sets, producer_name="ddol", ir_version=8
        )
        self.onnx.checker.check_model(model)
        return model


def _inputs(form: LinearForm, graph: _Graph) -> str:
    """Inputs, as one matrix of the form's features."""
    encoding, double = form.encoding, graph.helper.TensorProto.DOUBLE
    if not encoding.columns:
        return graph.input("features", double, len(form.features))
    numbers = [c.name for c in encoding.columns if c.kind == NUMBER]
    matrices: list[str] = []
    order: list[tuple[str | None, str]] = []
    if numbers:
        given = graph.input("numbers", double, len(numbers))
        if encoding.missing != "error":
            means = encoding.means if encoding.missing == "mean" and encoding.means else (0.0,)
            missing = graph.node("IsNaN", given)
            given = graph.node("Where", missing, graph.constant(np.array(means, float)), given)
        matrices.append(given)
        order += [(None, name) for name in numbers]
    for column in (c.name for c in encoding.columns if c.kind == TEXT):
        known = [f.value or "" for f in form.features if f.column == column]
        if not known:
            continue
        text = graph.input(column, graph.helper.TensorProto.STRING, 1)
        codes = graph.node("OneHotEncoder", text, domain="ai.onnx.ml", cats_strings=known, zeros=1)
        flat = graph.node("Reshape", codes, graph.constant(np.array([-1, len(known)], np.int64)))
        matrices.append(graph.node("Cast", flat, to=double))
        order += [(column, value) for value in known]
    whole = graph.node("Concat", *matrices, axis=1) if len(matrices) > 1 else matrices[0]
    place = {pair: k for k, pair in enumerate(order)}
    wanted = [place[f.column, f.name if f.column is None else f.value or ""] for f in form.features]
    if wanted == list(range(len(order))):
        return whole
    return graph.node("Gather", whole, graph.constant(np.array(wanted, np.int64)), axis=1)


def _score(form: LinearForm, graph: _Graph, values: str) -> str:
    total = graph.constant(form.bias[None, :])
    for part in form.parts:
        own, most = values, np.finfo(float).max
        if np.isfinite(part.lower).any() or np.isfinite(part.upper).any():
            own = graph.node("Max", own, graph.constant(np.maximum(part.lower, -most)[None, :]))
            own = graph.node("Min", own, graph.constant(np.minimum(part.upper, most)[None, :]))
        product = graph.node("MatMul", own, graph.constant(np.ascontiguousarray(part.weights.T)))
        total = graph.node("Add", total, product)
    return total


def _within(limits: tuple[float, float], graph: _Graph, score: str) -> str:
    """A score, clipped to a range if there is one."""
    if np.isinf(limits).all():
        return score
    low, high = (graph.constant(np.full(1, limit)) for limit in limits)
    return graph.node("Min", graph.node("Max", score, low), high)


def _classes(form: LinearForm, graph: _Graph, score: str) -> list[Output]:
    """Label and probability, as the model tells them from scores."""
    proto, labels = graph.helper.TensorProto, form.encoding.labels()
    if len(form.bias) == 1:
        zero = graph.constant(np.zeros(1))
        flat = graph.node("Reshape", score, graph.constant(np.array([-1], np.int64)))
        number = graph.node("Cast", graph.node("GreaterOrEqual", flat, zero), to=proto.INT64)
    else:
        number = graph.node("ArgMax", score, axis=1, keepdims=0)
    text = labels.dtype == object
    kind = proto.STRING if text else proto.INT64 if labels.dtype == np.int64 else proto.DOUBLE
    known = graph.constant(np.array(labels.tolist(), object) if text else labels)
    found: list[Output] = [("label", graph.node("Gather", known, number), kind, [None])]
    loss = loss_named(form.loss)
    if loss.probability is not None:
        if len(form.bias) == 1:
            each = _chance(form.loss, graph, score)
            rest = graph.node("Sub", graph.constant(np.ones(1)), each)
            each = graph.node("Concat", rest, each, axis=1)
        elif loss.together is not None:
            each = graph.node("Softmax", score, axis=1)
        else:
            each = _scaled(graph, _chance(form.loss, graph, score), len(form.bias))
        found.append(("probability", each, proto.DOUBLE, [None, max(len(form.bias), 2)]))
    return found


def _chance(loss: str, graph: _Graph, score: str) -> str:
    if loss in ("logistic", "logistic_one_vs_all"):
        return graph.node("Sigmoid", score)
    if loss in ("squared_hinge", "modified_huber"):
        high = graph.node("Min", score, graph.constant(np.ones(1)))
        low = graph.node("Max", high, graph.constant(-np.ones(1)))
        raised = graph.node("Add", low, graph.constant(np.ones(1)))
        return graph.node("Mul", raised, graph.constant(np.full(1, 0.5)))
    raise DataError(f"ddol cannot say the probabilities of the loss {loss} in ONNX; use --to json")


def _scaled(graph: _Graph, each: str, classes: int) -> str:
    """Probabilities of one class against all, scaled to sum to 1; uniform where all are 0."""
    axes = graph.constant(np.array([1], np.int64))
    total = graph.node("ReduceSum", each, axes, keepdims=1)
    some = graph.node("Greater", total, graph.constant(np.zeros(1)))
    divisor = graph.node("Where", some, total, graph.constant(np.ones(1)))
    alike = graph.constant(np.full(1, 1.0 / classes))
    return graph.node("Where", some, graph.node("Div", each, divisor), alike)
