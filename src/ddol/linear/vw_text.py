"""Linear forms in the readable text of Vowpal Wabbit (``--invert_hash``): name, place and weight by line."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np

from ddol.linear.form import Feature, LinearForm, LinearPart
from ddol.storage import write_text
from ddol.streams.coding.encoding import Encoding
from ddol.streams.errors import DataError

_BITS = 18
_CONSTANT, _CONSTANT_PLACE = "Constant", 11650396
_LINE = re.compile(
    r"(?P<name>.*?)(?:\[(?P<output>\d+)\])?:(?P<place>\d+):(?P<weight>[-+.\deE]+)(?: .*)?"
)
_PLACED = re.compile(r"\d+:[-+.\deE]+(?: .*)?")
_MOST_OUTPUTS = 100_000


def write_vw(form: LinearForm, path: str | Path) -> None:
    """Write a form; VW clips no features, so that of a clipped form it is an approximation."""
    outputs = len(form.bias)
    bits = max(_BITS, math.ceil(math.log2(max(len(form.features) * outputs, 1))) + 2)
    low, high = (-50.0, 50.0) if form.encoding.classes is not None else form.range
    if not math.isfinite(low + high):
        low, high = 0.0, 0.0
    lines = [
        "Version 9.10.0", "Id ", f"Min label:{low:.9g}", f"Max label:{high:.9g}", f"bits:{bits}", "lda:0",
        "0 ngram:", "0 skip:", f"options:{f' --oaa {outputs}' if outputs > 1 else ''}", "Checksum: 0", ":0",
    ]  # fmt: skip
    weights, mask = form.weights, (1 << bits) - 1
    stride = 1 << (outputs - 1).bit_length()
    named = [(f.name, _place(f.name), weights[:, k]) for k, f in enumerate(form.features)]
    for name, place, own in [(_CONSTANT, _CONSTANT_PLACE, form.bias), *named]:
        for k in range(outputs):
            if own[k] != 0.0:
                shown = f"{name}[{k}]" if k else name
                lines.append(f"{shown}:{(place * stride + k) & mask}:{own[k]:.17g}")
    write_text(path, "\n".join(lines) + "\n")


def _place(name: str) -> int:
    """The hash that VW gives a feature, with its namespace before ``^``."""
    from sklearn.utils import murmurhash3_32

    namespace, _, feature = name.rpartition("^")
    seed = int(murmurhash3_32(namespace, 0, positive=True)) if namespace else 0
    if feature.isdigit():
        return int(feature) + seed
    return int(murmurhash3_32(feature, seed, positive=True))


def read_vw(path: str | Path, loss: str) -> LinearForm:
    """Read a model that ``vw --invert_hash FILE`` wrote; such text does not say of which loss it is."""
    lines = Path(path).read_text(encoding="utf-8", errors="replace").split("\n")
    names: dict[str, int] = {}
    found: list[tuple[int, int, float]] = []
    body = next((k + 1 for k, line in enumerate(lines) if re.fullmatch(r":\d+", line)), None)
    if body is None:
        raise DataError(
            f"{path}: found no end of the header, expected what vw --invert_hash writes"
        )
    for number, line in enumerate(lines[body:], body + 1):
        matched = _LINE.fullmatch(line)
        if matched is None:
            if _PLACED.fullmatch(line):
                raise DataError(
                    f"{path}:{number}: found a weight without the name of its feature; write the model with "
                    "vw --invert_hash instead of --readable_model"
                )
            continue  # figures of the run
        place = names.setdefault(matched["name"], len(names))
        output, weight = int(matched["output"] or 0), _number(matched["weight"])
        if not math.isfinite(weight) or output >= _MOST_OUTPUTS:
            raise DataError(
                f"{path}:{number}: found {line[:80]!r}, expected a name, a place and a weight"
            )
        found.append((place, output, weight))
    return _form(path, names, found, loss)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _form(
    path: str | Path, names: dict[str, int], found: list[tuple[int, int, float]], loss: str
) -> LinearForm:
    outputs = 1 + max((output for _, output, _ in found), default=0)
    if not found or (len(names) * outputs > 100_000_000):
        raise DataError(f"{path}: found {len(names)} features, expected at least one with a weight")
    weights = np.zeros((outputs, len(names)))
    for place, output, weight in found:
        weights[output, place] = weight
    features = [name for name in names if name != _CONSTANT]
    bias = weights[:, names[_CONSTANT]] if _CONSTANT in names else np.zeros(outputs)
    own = weights[:, [names[name] for name in features]]
    from ddol.update.losses import REGRESSION, loss_named

    labels = (-1.0, 1.0) if outputs == 1 else tuple(float(k + 1) for k in range(outputs))
    classes = None if loss_named(loss).task == REGRESSION else labels
    encoding = Encoding(columns=(), classes=classes, intercept=True, names=tuple(features))
    infinite = np.full(len(features), np.inf)
    part = LinearPart(own, -infinite, infinite)
    return LinearForm(bias, (part,), tuple(map(Feature, features)), encoding, loss)
