"""What to tell about a line of LIBSVM text that cannot be read."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from ddol.streams import libsvm_kernel as kernel

_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)$", re.IGNORECASE)


def describe_error(text: NDArray[np.uint8], at: int, kind: int, base: int, limit: int) -> str:
    """Say what was found at byte `at`, what was expected, and what to do."""
    token = _token(text, at)
    if any(not character.isprintable() for character in token):
        return (
            f"found binary data {token!r}, expected lines 'label index:value ...'; "
            "check that the file is LIBSVM text and that its ending names its compression"
        )
    finite = _NOT_FINITE.match(token)
    if kind in (kernel.BAD_LABEL, kernel.BAD_VALUE) and finite:
        return f"found {token!r}, expected a finite number; remove or impute missing values"
    if kind == kernel.BAD_LABEL:
        advice = (
            "name the file .csv, or use --format csv, if its columns are separated by commas"
            if "," in token
            else "begin every line with one label"
        )
        return f"found {token!r}, expected a number as label; {advice}"
    if kind in (kernel.BAD_INDEX, kernel.NO_COLON):
        return f"found {token!r}, expected index:value; correct the line, it may have been cut"
    if kind == kernel.BAD_VALUE:
        found = repr(token) if token else "nothing after ':'"
        return f"found {found}, expected a number; correct the line, it may have been cut"
    if kind == kernel.OVERFLOW:
        return f"found {token!r}, expected a number below 1.8e308; scale the column"
    return _describe_index(token.split(":")[0], kind, base, limit)


def _describe_index(index: str, kind: int, base: int, limit: int) -> str:
    if kind == kernel.BELOW_BASE:
        return f"found index {index}, expected indices from {base}; use --zero-based"
    if kind == kernel.NOT_ASCENDING:
        return (
            f"found index {index} at or below the one before it, expected ascending indices; "
            "sort the line and join repeated features"
        )
    if limit < 1 << 31:
        return (
            f"found index {index}, expected at most {limit + base - 1} because there are "
            f"{limit} columns; use the columns of the model, or hash them"
        )
    return f"found index {index}, expected at most 2**31; number the features from {base}, or hash"


def _token(text: NDArray[np.uint8], at: int) -> str:
    found = re.match(rb"[^ \t\r\n#]*", text[at : at + 60].tobytes())
    token = found.group().decode("latin-1") if found else ""
    return token if len(token) <= 40 else token[:40] + "…"
