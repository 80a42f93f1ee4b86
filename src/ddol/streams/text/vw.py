"""Features by name: Vowpal Wabbit's text, and ``label name:value name=text word``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddol.streams.coding.hashing import HASH_START
from ddol.streams.formats import ReadOptions
from ddol.streams.raw import Named, Text
from ddol.streams.store.chunks import Bytes, Chunk, count_lines
from ddol.streams.text import vw_kernel as kernel
from ddol.streams.text.csv import is_text
from ddol.streams.text.lines import Lines, LineStream
from ddol.streams.text.number_kernel import exact_number
from ddol.streams.text.word_kernel import LazyNames, WordRoom, WordTable

_MOST_MESSAGES = 5
_LABELLED = {None: kernel.PERHAPS, True: kernel.ALWAYS, False: kernel.NEVER}


@dataclass(frozen=True)
class _Kind:
    """Whether labels are words, and room for them all."""

    worded: bool
    room: WordRoom = field(default_factory=WordRoom)


@dataclass(frozen=True)
class NamedFormat:
    """Lines whose features have names.

    With bars it is Vowpal Wabbit's text, ``label importance 'tag|space:2 word number:0.5 |other …``: the
    feature ``word`` of the namespace ``space`` is called ``space^word``, and a namespace's weight goes
    into its values. Without bars it is ``label price:0.5 colour=red word``. A feature without a number
    has the value 1. Whether labels are numbers or words is decided by the beginning of the first file.

    Parameters
    ----------
    bars
        Whether features stand behind bars.
    labelled
        Without bars: whether lines begin with a label. By default the first word is one where it has
        neither ``:`` nor ``=``.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "two.vw")
    >>> _ = path.write_text("1 0.5 'first|a red size:2\\n-1 |b red\\n")
    >>> [(named, position)] = LineStream((str(path),), NamedFormat()).read()
    >>> list(named.names), named.label, named.weight
    (['a^red', 'a^size', 'b^red'], array([ 1., -1.]), array([0.5, 1. ]))
    """

    bars: bool = True
    labelled: bool | None = None

    @property
    def expected(self) -> str:
        """A line."""
        return "lines 'label |space name:value …'" if self.bars else "lines 'label name:value …'"

    def layout(self, first: Chunk, before: _Kind | None) -> _Kind:
        """Whether labels are words."""
        if before is not None:
            return before
        found = self._features(first.text, _Kind(worded=False), lenient=True)
        bad = any(kind == kernel.BAD_LABEL for _, kind in found.bad)
        return _Kind(worded=bad and is_text(found.n_bad, len(found.starts)))

    def parse(self, chunk: Chunk, layout: _Kind, lenient: bool) -> Lines:
        """Read the features of a chunk."""
        found = self._features(chunk.text, layout, lenient)
        messages = [
            f"{chunk.place(at)}: {self._message(chunk, at, kind)}" for at, kind in found.bad
        ]
        return Lines(found.named(), found.starts, found.n_bad, messages)

    def _features(self, text: Bytes, layout: _Kind, lenient: bool) -> _Features:
        while True:
            found = _Features(self, text, layout)
            if found.parse(lenient):
                return found
            layout.room.grow()

    def _message(self, chunk: Chunk, at: int, kind: int) -> str:
        match = re.match(rb"[^ \t\r\n|]*", chunk.text[at : at + 60].tobytes())
        token = match.group().decode("utf-8", "replace")[:40] if match else ""
        return f"found {token!r}, {_EXPECTED[kind]}"


_EXPECTED = {
    kernel.BAD_LABEL: "expected a number as label, as in most lines; correct the line",
    kernel.BAD_WEIGHT: "expected an importance of at least 0 after the label; correct the line",
    kernel.BAD_BASE: "expected no initial prediction, which is not made use of; leave it out",
    kernel.NO_BAR: "expected a bar | before the features; use --format named for lines without bars",
    kernel.BAD_VALUE: "expected a finite number after ':'; correct the line, it may have been cut",
    kernel.TOO_MANY_SPACES: f"expected at most {kernel.MOST_SPACES} namespaces; join some",
    kernel.NO_NAME: "expected a name before ':'; correct the line",
}


class _Features:
    """Features of a chunk: room for them, and what they are."""

    def __init__(self, layout: NamedFormat, text: Bytes, kind: _Kind) -> None:
        self.layout, self.text, self.worded = layout, text, kind.worded
        lines, most = count_lines(text), 1 + len(text) // 2
        self.y, self.weight = np.empty(lines), np.empty(lines)
        self.label, self.starts = np.empty((2, lines), dtype=np.int64)
        self.indptr = np.empty(lines + 1, dtype=np.int64)
        self.codes, self.data = np.empty(most, dtype=np.int64), np.empty(most)
        self.words = WordTable(text, kind.room.words)
        self.spaces = np.zeros((4, kernel.MOST_SPACES), dtype=np.int64)
        self.spaces[1, 0] = np.uint64(HASH_START).view(np.int64)
        self.n_spaces = np.ones(1, dtype=np.int64)
        self.n_bad = 0
        self.bad: list[tuple[int, int]] = []

    def parse(self, lenient: bool) -> bool:
        """Read all lines; False where there are more words than room for them."""
        slow_at, slow_slot = np.empty((2, 1 + len(self.text) // 19), dtype=np.int64)
        bad, counts = np.empty((_MOST_MESSAGES, 2), np.int64), np.zeros(5, np.int64)
        keys, states, first, end = self.spaces
        arrays: dict[str, NDArray[Any]] = {
            "y": self.y, "label": self.label, "weight": self.weight, "starts": self.starts,
            "indptr": self.indptr, "codes": self.codes, "data": self.data, "space_keys": keys,
            "space_states": states, "space_first": first, "space_end": end,
            "n_spaces": self.n_spaces, "slow_at": slow_at, "slow_slot": slow_slot,
            "bad": bad, "counts": counts,
        }  # fmt: skip
        job = kernel.NamedJob(
            size=len(self.text), bars=self.layout.bars, stop=2 if self.layout.bars else 3,
            labelled=_LABELLED[self.layout.labelled],
            worded=self.worded, lenient=lenient, most_bad=len(bad),
            text=self.text.ctypes.data, words=self.words.places,
            **{name: array.ctypes.data for name, array in arrays.items()},
        )  # fmt: skip
        kernel.parse_named(job)
        n, nnz, n_slow, self.n_bad, full = counts.tolist()
        self.codes, self.data, self.indptr = self.codes[:nnz], self.data[:nnz], self.indptr[: n + 1]
        self.y, self.weight, self.label = self.y[:n], self.weight[:n], self.label[:n]
        self.starts = self.starts[:n]
        for at, slot in zip(slow_at[:n_slow].tolist(), slow_slot[:n_slow].tolist(), strict=True):
            target, place = (self.y, -1 - slot) if slot < 0 else (self.data, slot)
            target[place] = exact_number(self.text, at)
        self.bad = [tuple(each) for each in bad[: min(self.n_bad, len(bad))].tolist()]
        return not full

    def named(self) -> Named:
        """The features, by name."""
        chosen, codes = self._features()
        owners = self.words.owners
        spaces = ["", *(self._space(k) for k in range(1, int(self.n_spaces[0])))]
        prefixes = [space and f"{space}^" for space in spaces]

        def name(place: int) -> str:
            number = int(chosen[place])
            return prefixes[int(owners[number])] + self.words.word(number)

        def space(place: int) -> str:
            return spaces[int(owners[int(chosen[place])])]

        return Named(
            names=LazyNames(len(chosen), name),
            codes=codes,
            data=self.data,
            indptr=self.indptr,
            label=self._label(),
            weight=self.weight if (self.weight != 1.0).any() else np.empty(0),
            spaces=LazyNames(len(chosen), space) if len(spaces) > 1 else (),
            keys=self.words.keys[chosen],
        )

    def _features(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Numbers of the words that are features, and the features as places among them."""
        if not self.n_bad and not self.worded:
            return np.arange(len(self.words)), self.codes
        used = np.zeros(len(self.words), dtype=bool)
        used[self.codes] = True
        return np.flatnonzero(used), (np.cumsum(used) - 1)[self.codes]

    def _label(self) -> NDArray[np.float64] | Text | None:
        if not self.worded:
            return None if np.isnan(self.y).all() else self.y
        used = np.unique(self.label[self.label >= 0])
        places = np.full(len(self.words) + 1, -1, dtype=np.int64)
        places[used] = np.arange(len(used))
        return Text(places[self.label], tuple(map(self.words.word, used.tolist())))

    def _space(self, number: int) -> str:
        first, end = self.spaces[2:, number]
        return self.text[first:end].tobytes().decode("utf-8", "replace")


def open_vw(paths: tuple[str, ...], options: ReadOptions) -> LineStream:
    """Stream over Vowpal Wabbit's text."""
    return _opened(paths, options, NamedFormat())


def open_named(paths: tuple[str, ...], options: ReadOptions) -> LineStream:
    """Stream over lines ``label name:value name=text word``."""
    return _opened(paths, options, NamedFormat(bars=False, labelled=options.labelled))


def _opened(paths: tuple[str, ...], options: ReadOptions, layout: NamedFormat) -> LineStream:
    return LineStream(
        paths, layout, on_bad_line=options.on_bad_line, chunk_bytes=options.chunk_bytes
    )
