"""Write the prediction of every example before it is learned from."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TextIO

import numpy as np

from ddol.job.outputs import STDOUT
from ddol.storage import naming
from ddol.streams.coding.encoding import Encoding
from ddol.streams.coding.labels import class_numbers, shown_labels
from ddol.streams.rows import Block


class PredictionWriter:
    """Writes one line for every example, in the order in which they are learned from.

    Where agents have files of their own a line begins with the agent's name.

    Parameters
    ----------
    path : str
        ``-`` is standard output. Every piece of rounds is flushed when it has been played, and stays if the
        run is stopped.
    encoding : Encoding
    before : int
        Examples that a run which is resumed had predicted: so many lines of the file are kept.

    Attributes
    ----------
    kept : int
        Lines that were kept; fewer than `before` if the file has not got them.
    """

    def __init__(self, path: str, encoding: Encoding, before: int = 0) -> None:
        self.path = path
        self.kept = before
        if path != STDOUT:
            with naming(path):
                self.kept = _cut_after(Path(path), before)
        self.file = sys.stdout if path == STDOUT else _opened(path)
        self.encoding = encoding

    def __enter__(self) -> PredictionWriter:
        return self

    def __exit__(self, *failure: object) -> None:
        if self.path != STDOUT:
            with naming(self.path):
                self.file.close()

    def __call__(self, block: Block) -> None:
        """Write the predictions of rounds that were played."""
        with nullcontext() if self.path == STDOUT else naming(self.path):
            self.file.write(self._text(block))
            self.file.flush()

    def _text(self, block: Block) -> str:
        assert block.scores is not None
        table = block.table
        if not self.encoding.sites:
            # Examples are dealt in turn: their order is that of the stream.
            rows = np.sort(table[table >= 0])
            return text_of(self._answers(block.scores[rows]))
        rounds, agents, places = np.nonzero(table >= 0)
        said = text_of(self._answers(block.scores[table[rounds, agents, places]])).split("\n")[:-1]
        names = [self.encoding.sites[agent] for agent in agents]
        return "".join(f"{name}\t{line}\n" for name, line in zip(names, said, strict=True))

    def _answers(self, scores: np.ndarray) -> np.ndarray:
        classes = self.encoding.classes
        if classes is None:
            return scores[:, 0]
        return shown_labels(classes)[class_numbers(scores)]


def _opened(path: str) -> TextIO:
    """The file; bytes of a site's name that are not UTF-8 are written as ``\\udce9``."""
    return Path(path).open("a", encoding="utf-8", errors="backslashreplace")


def _cut_after(path: Path, lines: int) -> int:
    """Keep the first lines of a file; how many it has then. Pipes and devices keep nothing."""
    if not path.is_file():
        return 0
    with path.open("rb+") as file:
        kept = end = 0
        while kept < lines and (line := file.readline()).endswith(b"\n"):
            kept, end = kept + 1, end + len(line)
        file.truncate(end)
    return kept


def text_of(found: np.ndarray) -> str:
    """One line for every row; numbers as short as they can be without loss.

    Examples
    --------
    >>> text_of(np.array([1.0, 0.25])), text_of(np.array(["no"], dtype=object))
    ('1.0\\n0.25\\n', 'no\\n')
    """
    if found.ndim == 1:
        show = _one_line if found.dtype == object else repr
        return "".join(f"{show(value)}\n" for value in found.tolist())
    return "".join(" ".join(map(repr, row)) + "\n" for row in found.tolist())


def _one_line(label: object) -> str:
    """A label as text; line breaks in it are written as ``\\n`` and ``\\r``."""
    return str(label).replace("\r", "\\r").replace("\n", "\\n")
