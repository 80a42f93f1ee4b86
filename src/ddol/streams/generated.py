"""Examples that Python code makes one by one: generators, iterators, and functions that return them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from ddol.streams.errors import DataError
from ddol.streams.rows import Rows
from ddol.streams.stream import Position

_BLOCK = 1024


@dataclass(frozen=True)
class GeneratedStream:
    """Examples ``(x, y)`` or ``(x, y, weight)``, or arrays of several, as they come.

    Parameters
    ----------
    source : iterator, or function without arguments that returns one
        An iterator is read once; a function is called again for every pass, and to go on from a
        checkpoint, and must then give the same examples.
    name : str
        What messages call it.
    block : int
        Examples that are learned at a time: the first is waited for that long.

    Examples
    --------
    >>> stream = GeneratedStream(lambda: (([k, 1.0], k % 2) for k in range(5)), block=2)
    >>> [(rows.y.tolist(), position) for rows, position in stream.read(position=2)]
    [([0.0, 1.0], 4), ([0.0], 5)]
    >>> arrays = iter([(np.eye(2), np.array([1, 0])), (np.eye(2)[:1], np.array([1]))])
    >>> [rows.y.tolist() for rows, _ in GeneratedStream(arrays).read()]
    [[1.0, 0.0, 1.0]]
    """

    source: Iterator[tuple] | Callable[[], Iterable[tuple]]
    name: str = "generator"
    block: int = _BLOCK
    n_features: int | None = None
    n_examples: int | None = None

    @property
    def restartable(self) -> bool:
        """Whether a function makes the examples, which can be called again."""
        return callable(self.source)

    def read(
        self, position: Position | None = None, pass_number: int = 0
    ) -> Iterator[tuple[Rows, Position]]:
        """Yield blocks of examples, from a position on."""
        done = position or 0
        if callable(self.source):
            examples = _one_by_one(self.source())
            for _ in islice(examples, done):
                pass
        elif position or pass_number:
            raise DataError(
                f"{self.name}: an iterator can be read once only; give the function that makes it"
            )
        else:
            examples = _one_by_one(self.source)
        while taken := list(islice(examples, self.block)):
            rows = self._rows(taken, done)
            done += len(rows)
            yield rows, done

    def _rows(self, taken: list[tuple], before: int) -> Rows:
        for place, example in enumerate(taken):
            if not isinstance(example, tuple) or len(example) not in (2, 3):
                raise DataError(
                    f"{self.locate(before, place)}: found {_shown(example)}, expected (x, y) or "
                    "(x, y, weight)"
                )
        x, y, *weight = zip(*taken, strict=True)
        lengths = [len(np.atleast_1d(np.asarray(row))) for row in x]
        odd = next((k for k, n in enumerate(lengths) if n != lengths[0]), None)
        if odd is not None:
            raise DataError(
                f"{self.locate(before, odd)}: found {lengths[odd]} features, expected {lengths[0]}"
            )
        rows = Rows.from_dense(np.array(x, float), np.array(y, float), *map(np.array, weight))
        return rows.check_finite(self.locate(before, 0))

    def describe(self) -> str:
        """The name."""
        return self.name

    def progress(self, position: Position | None) -> tuple[int, int] | None:
        """The length is unknown."""
        return None

    def locate(self, position: Position | None, row: int) -> str:
        """Name and number of the example."""
        return f"{self.name}: example {(position or 0) + row}"


def _one_by_one(source: Iterable[tuple]) -> Iterator[tuple]:
    """Examples, of arrays of several one after the other."""
    for example in source:
        if isinstance(example, tuple) and len(example) > 1 and np.ndim(example[1]) == 1:
            lengths = [len(part) for part in example]
            if len(set(lengths)) > 1:
                raise DataError(f"found arrays of {lengths} examples, expected as many in each")
            yield from zip(*example, strict=True)
        else:
            yield example


def _shown(example: Any) -> str:
    return f"{example!r:.60}"
