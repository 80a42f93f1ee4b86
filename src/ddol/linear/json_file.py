"""Linear forms as JSON: complete, exact, and readable by any program.

::

    {"format": "ddol-linear", "version": 1, "loss": "logistic", "classes": ["no", "yes"],
     "features": [{"name": "age"}, {"name": "town=Rome", "column": "town", "value": "Rome"}],
     "missing": "error", "means": {}, "bias": [0.1],
     "range": [null, null], "parts": [{"weights": [[0.5, -0.2]], "lower": [0, null], "upper": [90, null]}]}

The score of a row is the bias plus, for every part, the weights times the values clipped to the limits of the
part (null: no limit). Two classes have one score, and the second class where it is at least 0; more classes
have one each, and the largest wins; without classes the score is the prediction, clipped to the range (null:
no limit).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ddol.linear.form import Feature, LinearForm, LinearPart, finite_or_none
from ddol.storage import damaged, write_text
from ddol.streams.coding.encoding import NUMBER, TEXT, Column, Encoding, check_encoding
from ddol.streams.errors import DataError
from ddol.update.losses import LOSSES

FORMAT, VERSION = "ddol-linear", 1
_MOST_BYTES = 1 << 31


def to_plain(form: LinearForm) -> dict[str, Any]:
    """A form as values that JSON can hold."""
    encoding = form.encoding
    means = dict(zip(encoding.numbers, encoding.means, strict=False))
    features = [
        {"name": f.name}
        if f.column is None
        else {"name": f.name, "column": f.column, "value": f.value}
        for f in form.features
    ]
    return {
        "format": FORMAT,
        "version": VERSION,
        "loss": form.loss,
        "classes": None if encoding.classes is None else encoding.labels().tolist(),
        "label": encoding.label,
        "columns": None
        if encoding.columns is None
        else [{"name": c.name, "kind": c.kind} for c in encoding.columns],
        "features": features,
        "missing": encoding.missing,
        "means": means,
        "bias": form.bias.tolist(),
        "range": finite_or_none(np.array(form.range)),
        "parts": [
            {
                "weights": part.weights.tolist(),
                "lower": finite_or_none(part.lower),
                "upper": finite_or_none(part.upper),
            }
            for part in form.parts
        ],
    }


def write_json(form: LinearForm, path: str | Path) -> None:
    """Write a form."""
    write_text(path, json.dumps(to_plain(form), indent=1, ensure_ascii=False) + "\n")


def read_json(path: str | Path) -> LinearForm:
    """Read a form, which may be from an untrusted source: types, sizes and numbers are checked."""
    file = Path(path)
    if file.stat().st_size > _MOST_BYTES:
        raise DataError(
            f"{path}: found {file.stat().st_size:,} bytes, expected at most {_MOST_BYTES:,}"
        )
    try:
        plain = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path}: found no JSON ({error}), expected what ddol export wrote"
        ) from None
    with damaged(path, "linear model"):
        return from_plain(plain)


def from_plain(plain: dict[str, Any]) -> LinearForm:
    """The form that `to_plain` described."""
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise DataError(f"found another format, expected {FORMAT}")
    if plain.get("version") != VERSION:
        raise DataError(f"found version {plain.get('version')!r}, expected {VERSION}; upgrade ddol")
    if plain["loss"] not in LOSSES:
        raise DataError(f"found the loss {plain['loss']!r}, expected one of {', '.join(LOSSES)}")
    features = tuple(Feature(f["name"], f.get("column"), f.get("value")) for f in plain["features"])
    encoding = _encoding(plain, features)
    outputs, width = encoding.n_outputs, len(features)
    bias = _numbers(plain["bias"], (outputs,), "bias")
    parts = tuple(_part(part, outputs, width) for part in plain["parts"])
    if not parts:
        raise DataError("found no parts, expected at least one")
    return LinearForm(bias, parts, features, encoding, plain["loss"], _range(plain))


def _range(plain: dict[str, Any]) -> tuple[float, float]:
    given = plain.get("range") or [None, None]
    low, high = _numbers([0.0 if v is None else v for v in given], (2,), "range").tolist()
    low, high = (-np.inf if given[0] is None else low), (np.inf if given[1] is None else high)
    if low > high:
        raise DataError("found a range whose lower end is above the upper one")
    return low, high


def _part(part: dict[str, Any], outputs: int, width: int) -> LinearPart:
    weights = _numbers(part["weights"], (outputs, width), "weights")
    limits = []
    for name, none in (("lower", -np.inf), ("upper", np.inf)):
        given = part.get(name) or [None] * width
        finite = _numbers([0.0 if v is None else v for v in given], (width,), name)
        limits.append(np.where([v is None for v in given], none, finite))
    if not np.all(limits[0] <= limits[1]):
        raise DataError("found a lower limit above the upper one")
    return LinearPart(weights, *limits)


def _numbers(values: Any, shape: tuple[int, ...], name: str) -> np.ndarray:
    found = np.array(values, float).reshape(shape) if np.size(values) == np.prod(shape) else None
    if found is None or not np.isfinite(found).all():
        raise DataError(
            f"found `{name}` that is not {shape} finite numbers; export the model again"
        )
    return found


def _encoding(plain: dict[str, Any], features: tuple[Feature, ...]) -> Encoding:
    classes = plain["classes"]
    kinds = plain.get("columns")
    columns = None if kinds is None else tuple(Column(c["name"], c["kind"]) for c in kinds)
    numbers = [c.name for c in columns or () if c.kind == NUMBER]
    named = [f.name for f in features]
    if columns is not None and named[: len(numbers)] != numbers:
        raise DataError(
            "found features in another order than the columns of numbers, expected these first"
        )
    means = plain.get("means") or {}
    encoding = Encoding(
        columns=columns,
        n_features=len(features) if columns is None else None,
        classes=None
        if classes is None
        else tuple(c if isinstance(c, str) else float(c) for c in classes),
        label=plain.get("label"),
        intercept=True,
        missing=plain.get("missing", "error"),
        means=tuple(float(means.get(name, 0.0)) for name in numbers) if means else (),
        names=tuple(named[len(numbers) :]) if columns is not None else (),
    )
    check_encoding(encoding)
    if any(c.kind not in (NUMBER, TEXT) for c in columns or ()):
        raise DataError("found a column that holds neither numbers nor text")
    return encoding
