"""An encoding that came from a file, against what one can be: what it says is used as it stands."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ddol.streams.errors import DataError

if TYPE_CHECKING:
    from ddol.streams.encoding import Encoding

_MOST_BITS = 31
_MOST_COLUMNS = 1 << 32


def check_encoding(encoding: Encoding) -> None:
    """Refuse fields of a wrong type or range, and stumps that look at columns that do not exist."""
    for name, (right, expected) in _rules().items():
        value = getattr(encoding, name)
        if not right(value):
            raise DataError(f"encoding: found {_short(value)} for `{name}`, expected {expected}")
    columns = [column.name for column in encoding.columns or ()]
    if len(set(columns)) < len(columns):
        raise DataError("encoding: found a column twice, expected names that differ")
    if encoding.stumps is not None:
        _check_stumps(encoding)


def _rules() -> dict[str, tuple[Callable[[Any], bool], str]]:
    text_or_none = lambda v: v is None or isinstance(v, str)  # noqa: E731
    texts = lambda v: all(isinstance(each, str) for each in v)  # noqa: E731
    flag = lambda v: isinstance(v, bool)  # noqa: E731
    return {
        "columns": (_are_columns, "names, each of a number or a text"),
        "n_features": (lambda v: v is None or _whole(v, 0, _MOST_COLUMNS), "a number of columns"),
        "label": (text_or_none, "a name"),
        "weight": (text_or_none, "a name"),
        "classes": (lambda v: v is None or _are_classes(v), "labels in rising order"),
        "numbered": (flag, "true or false"),
        "sites": (texts, "names"),
        "intercept": (flag, "true or false"),
        "bits": (lambda v: v is None or _whole(v, 1, _MOST_BITS), f"1 to {_MOST_BITS}"),
        "missing": (lambda v: v in ("error", "zero", "mean"), "error, zero or mean"),
        "means": (lambda v: all(isinstance(m, int | float) for m in v), "numbers"),
        "interactions": (texts, "names"),
        "names": (texts, "names"),
    }


def _are_columns(columns: Any) -> bool:
    each = columns or ()
    return all(isinstance(c.name, str) and c.kind in ("number", "text") for c in each)


def _are_classes(classes: Any) -> bool:
    texts = all(isinstance(c, str) for c in classes)
    numbers = all(isinstance(c, int | float) and math.isfinite(c) for c in classes)
    rising = all(a < b for a, b in pairwise(classes)) if texts or numbers else False
    return len(classes) >= 1 and rising


def _check_stumps(encoding: Encoding) -> None:
    stumps, known = encoding.stumps, encoding.n_inputs
    assert stumps is not None
    kinds = {"features": np.int64, "thresholds": np.float64, "signs": np.float64}
    for name, kind in kinds.items():
        array = getattr(stumps, name)
        if array.dtype != kind or array.shape != (len(stumps),) or not len(stumps):
            raise DataError(
                f"encoding: found {array.dtype} {array.shape} for `{name}` of the experts, expected "
                f"{kind.__name__} ({len(stumps)},)"
            )
    most = math.inf if known is None else known + encoding.intercept
    if stumps.features.min() < 0 or stumps.features.max() >= most:
        raise DataError(f"encoding: found experts on columns outside of 0 to {most - 1}")
    if not np.all(np.abs(stumps.signs) == 1.0) or np.isnan(stumps.thresholds).any():
        raise DataError("encoding: found experts without a sign or a threshold")


def _whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}…"
