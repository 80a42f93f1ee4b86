"""Importances of examples from a file of their own, for formats that have no place for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ddol.streams.errors import DataError
from ddol.streams.over.wrapped import WrappedStream
from ddol.streams.rows import Floats, Rows
from ddol.streams.stream import Position


@dataclass(frozen=True)
class WeightedStream(WrappedStream):
    """Another stream whose rows have the weights that stand in a file, one per line.

    Parameters
    ----------
    stream
        Where the rows come from.
    path
        Text file with as many numbers as there are rows.
    """

    path: str

    in_place = False
    own_positions = True

    @cached_property
    def weights(self) -> Floats:
        """All numbers of the file."""
        try:
            with open(self.path, encoding="utf-8") as file:  # noqa: PTH123
                found = np.array([float(line) for line in file if line.strip()])
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise DataError(
                f"{self.path}: cannot be read as weights ({reason}), expected one number per line"
            ) from None
        if not np.all(found >= 0.0) or not np.all(np.isfinite(found)):
            line = int(np.argmin((found >= 0.0) & np.isfinite(found))) + 1
            raise DataError(f"{self.path}:{line}: found a weight below 0 or not finite")
        return found

    @property
    def n_examples(self) -> int | None:
        """Number of rows: that of the weights."""
        return len(self.weights)

    def read(
        self, position: Position | None = None, pass_number: int = 0
    ) -> Iterator[tuple[Rows, Position]]:
        """Yield the rows with their weights."""
        at, row = (position["at"], position["row"]) if position else (None, 0)
        for rows, after in self.stream.read(at, pass_number):
            weight = self.weights[row : row + len(rows)]
            row += len(rows)
            if len(weight) < len(rows):
                self._refuse("more")
            yield replace(rows, weight=weight), {"at": after, "row": row}
        if row < len(self.weights):
            self._refuse("fewer")

    def _refuse(self, more: str) -> None:
        raise DataError(
            f"{self.path}: found {len(self.weights)} weights, and {more} rows in {self.describe()}; "
            "expected one for each row"
        )
