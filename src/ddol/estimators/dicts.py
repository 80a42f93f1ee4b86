"""Examples that are dictionaries: features by name, indexed as they come or hashed."""

from __future__ import annotations

import math
import zlib
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from ddol.streams.rows import Rows

INTERCEPT = 0
"""Column of the constant 1, which comes first so that it stays when features are added."""


class FeatureColumns:
    """Columns of named features: 0 is the intercept, the others follow.

    Parameters
    ----------
    bits : int or None
        None gives every new name the next column. Otherwise names are hashed into 2^bits columns,
        which bounds the memory; names that fall together add up.

    Examples
    --------
    >>> columns = FeatureColumns()
    >>> rows = columns.rows([{"age": 30.0, "city": "Bern"}, {"age": 40.0}], [1.0, -1.0])
    >>> rows.to_scipy().toarray()
    array([[ 1., 30.,  1.],
           [ 1., 40.,  0.]])
    """

    def __init__(self, bits: int | None = None) -> None:
        self.bits = bits
        self.known: dict[Hashable, int] = {}

    @property
    def n_columns(self) -> int:
        """Columns so far, with the intercept."""
        return 1 + (len(self.known) if self.bits is None else 1 << self.bits)

    def rows(self, examples: Sequence[Mapping], answers: Any, learn: bool = True) -> Rows:
        """CSR rows with an intercept; names that are not known are left out unless ``learn``."""
        columns: list[int] = []
        values: list[float] = []
        lengths = [0]
        for example in examples:
            pairs = self._pairs(example, learn)
            columns.extend(pairs)
            values.extend(pairs.values())
            lengths.append(len(columns))
        return Rows(
            data=np.array(values, np.float64),
            indices=np.array(columns, np.uint32),
            indptr=np.array(lengths, np.int64),
            n_features=self.n_columns,
            y=np.array(answers, np.float64),
            weight=np.empty(0),
        )

    def _pairs(self, example: Mapping, learn: bool) -> dict[int, float]:
        """Values by column, in rising order."""
        pairs = {INTERCEPT: 1.0}
        for name, value in example.items():
            if isinstance(value, str):
                name, value = f"{name}={value}", 1.0
            number = float(value)
            if not math.isfinite(number):
                raise ValueError(f"feature {name!r} is {value!r}, expected a finite number")
            column = self._column(name, learn)
            if column is not None:
                pairs[column] = pairs.get(column, 0.0) + number
        return dict(sorted(pairs.items()))

    def _column(self, name: Hashable, learn: bool) -> int | None:
        if self.bits is not None:
            return 1 + (zlib.crc32(str(name).encode()) & ((1 << self.bits) - 1))
        if learn:
            return self.known.setdefault(name, 1 + len(self.known))
        return self.known.get(name)
