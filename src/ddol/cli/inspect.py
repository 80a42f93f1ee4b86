"""``ddol inspect``: what a model is."""

from __future__ import annotations

import json as json_format
from typing import Any

import numpy as np

from ddol.cli.errors import printable
from ddol.job.outputs import deviations, importance
from ddol.model import Model, load
from ddol.streams.store.files import size_of

STANDARD = "standard deviation of the feature"


def inspect(path: str, top: int, json: bool) -> None:
    """Print what a model is, as text or as JSON.

    Parameters
    ----------
    path : str
    top : int
        Largest weights to show, of each output.
    json : bool
    """
    found = described(load(path), path, top)
    if json:
        print(json_format.dumps(found, indent=2))
        return
    for name, value in found.items():
        if isinstance(value, dict):
            print(f"\n{name}")
            for part, figure in value.items():
                print(f"  {printable(part):<20} {_shown(figure)}")
        elif name not in ("largest", "unit"):
            print(f"{name:<22} {_shown(value)}")
    standard = found["unit"] == STANDARD
    for output in found["largest"]:
        print(f"\nlargest weights{printable(output['of'])}, per {found['unit']}")
        if standard and output["weights"]:
            print(f"  {'standardised':>14}  {'per unit':>14}")
        for (name, weight), (_, share) in zip(output["weights"], output["importance"], strict=True):
            raw = f"  {weight:>+14.6g}" if standard else ""
            print(f"  {share:>+14.6g}{raw}  {printable(name)}")


def described(model: Model, path: str, top: int) -> dict[str, Any]:
    """Plain values that describe a model."""
    encoding = model.encoding
    classes = None if model.classes is None else model.labels.tolist()
    return {
        "file": f"{path} ({size_of(path) or 0:,} bytes)",
        "version": model.version,
        "task": "regression" if classes is None else f"{len(classes)} classes",
        "classes": classes,
        "loss": model.loss,
        "label": encoding.label,
        "features": encoding.n_inputs if encoding.bits is None else None,
        "columns": None if encoding.columns is None else [c.name for c in encoding.columns],
        "intercept": encoding.intercept,
        "bits": encoding.bits,
        "sites": list(encoding.sites),
        "experts": 0 if encoding.stumps is None else len(encoding.stumps),
        "weights": list(model.weights.shape),
        "non_zero": int(np.count_nonzero(model.weights)),
        "norm": float(np.linalg.norm(model.weights)),
        "algorithm": model.algorithm,
        "training": model.training,
        "unit": STANDARD if deviations(model) is not None else "unit of the feature",
        "largest": [_largest(model, k, top) for k in range(len(model.weights))],
    }


def _largest(model: Model, output: int, top: int) -> dict[str, Any]:
    weights, shares = model.weights[output], importance(model)[output]
    # The constant has no deviation: it stands last, whatever its weight.
    order = np.lexsort((-np.abs(weights), -np.abs(shares)))[:top]
    order = order[weights[order] != 0.0].tolist()
    several = len(model.weights) > 1 and model.classes is not None
    names = model.encoding.feature_names(order)
    pairs = list(zip(order, names, strict=True))
    return {
        "of": f" of class {model.labels[output]}" if several else "",
        "weights": [[name, sign * float(weights[d])] for d, (name, sign) in pairs],
        "importance": [[name, sign * float(shares[d])] for d, (name, sign) in pairs],
    }


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if value is None or value == []:
        return "–"
    return printable(", ".join(map(str, value)) if isinstance(value, list) else str(value))
