"""JSON lines as tables: one object on a line, of numbers, truth values and text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ddol.streams.formats import ReadOptions
from ddol.streams.raw import MISSING_WORDS, Cells, Table, Text
from ddol.streams.store.chunks import Chunk
from ddol.streams.text.csv import is_text
from ddol.streams.text.lines import Lines, LineStream

_MOST_MESSAGES = 5
_LARGEST = int(np.finfo(np.float64).max)


@dataclass(frozen=True)
class JsonFormat:
    """An object on every line; what it holds inside another is called ``outer.inner``.

    A key that is not in an object, and null, is a missing value. Which keys are numbers is decided by the
    beginning of the first file: those that are hardly ever text there.

    Parameters
    ----------
    kinds
        Keys that are known to be ``"number"`` or ``"text"``; others may hold anything then.
    drop
        Keys that may hold anything, because they are left out.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "two.jsonl")
    >>> _ = path.write_text('{"age": 30, "home": {"town": "Rome"}}\\n{"age": null}\\n')
    >>> [(table, position)] = LineStream((str(path),), JsonFormat()).read()
    >>> table.columns["age"], table.columns["home.town"].values
    (array([30., nan]), ('Rome',))
    """

    kinds: Mapping[str, str] | None = None
    drop: tuple[str, ...] = ()

    @property
    def expected(self) -> str:
        """A line."""
        return 'lines such as {"label": 1, "age": 30, "town": "Rome"}'

    def layout(self, first: Chunk, before: dict[str, str] | None) -> dict[str, str]:
        """Kinds of the keys that are known by now."""
        if before is not None:
            return before
        seen: dict[str, list[int]] = {}
        for _, line in _lines(first):
            cells = _object(line)
            for name, value in cells.items() if isinstance(cells, dict) else ():
                if not _is_missing(value) and not self._is_unseen(name, value):
                    seen.setdefault(name, [0, 0])[not isinstance(value, str)] += 1
        found = {name: "text" if is_text(*counts) else "number" for name, counts in seen.items()}
        return {**found, **(self.kinds or {})}

    def parse(self, chunk: Chunk, layout: dict[str, str], lenient: bool) -> Lines:
        """Read the objects of a chunk."""
        rows: list[dict[str, Any]] = []
        starts: list[int] = []
        messages: list[str] = []
        n_bad = 0
        for at, line in _lines(chunk):
            cells = _object(line)
            problem = cells if isinstance(cells, str) else self._problem(cells, layout)
            if problem is None:
                assert isinstance(cells, dict)
                rows.append(cells)
                starts.append(at)
                continue
            n_bad += 1
            if len(messages) < _MOST_MESSAGES:
                messages.append(f"{chunk.place(at)}: {problem}")
            if not lenient:
                break
        return Lines(_table(rows, layout), np.array(starts, np.int64), n_bad, messages)

    def _is_unseen(self, name: str, value: Any) -> bool:
        """Whether a list is ignored: its key is dropped, or the model does not know it."""
        extra = self.kinds is not None and name not in self.kinds
        return isinstance(value, list) and (name in self.drop or extra)

    def _problem(self, cells: dict[str, Any], kinds: Mapping[str, str]) -> str | None:
        """The problem with an object, if any; ignored lists become null."""
        for name, value in cells.items():
            if self._is_unseen(name, value):
                cells[name] = None
            elif isinstance(value, list):
                return (
                    f"{name!r}: found a list, expected a number, text, true, false or null; "
                    f"write one key for each of its items, or use --drop {name}"
                )
            elif isinstance(value, int) and abs(value) > _LARGEST:
                return f"{name!r}: found a number of {len(str(abs(value)))} digits, expected fewer"
            wants_number = kinds.get(name) == "number"
            if wants_number and isinstance(value, str) and value.lower() not in MISSING_WORDS:
                return (
                    f"{name!r}: found the text {value[:40]!r}, expected a number as in most lines; "
                    "correct the line, or leave it out with --on-bad-line skip"
                )
        return None


def _lines(chunk: Chunk) -> Iterator[tuple[int, bytes]]:
    at = 0
    for line in chunk.text.tobytes().split(b"\n"):
        if line.strip():
            yield at, line
        at += len(line) + 1


def _object(line: bytes) -> dict[str, Any] | str:
    """The cells of a line by name, or what is wrong with it."""
    try:
        found = json.loads(line)
        if b"\\ud" in line.lower():
            json.dumps(found, ensure_ascii=False).encode()  # half a character is no text
    except (ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0]
        if line.lstrip().startswith(b"["):
            return "found the beginning of a list, expected an object on every line; write it by jq -c '.[]'"
        return (
            f"found no JSON ({reason}), expected an object; correct the line, it may have been cut"
        )
    if not isinstance(found, dict):
        return f'found {str(found)[:40]}, expected an object; write {{"label": …, "name": …}}'
    return dict(_flat(found, ""))


def _flat(given: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in given.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _table(rows: list[dict[str, Any]], kinds: Mapping[str, str]) -> Table:
    names = dict.fromkeys([*kinds, *(name for row in rows for name in row)])
    columns: dict[str, Cells] = {}
    for name in names:
        cells = [row.get(name) for row in rows]
        kind = kinds.get(name) or ("text" if any(isinstance(c, str) for c in cells) else "number")
        columns[name] = _numbers(cells) if kind == "number" else _texts(cells)
    return Table(columns)


def _numbers(cells: list[Any]) -> np.ndarray:
    return np.array(
        [np.nan if cell is None or isinstance(cell, str) else cell for cell in cells], np.float64
    )


def _texts(cells: list[Any]) -> Text:
    return Text.of([None if _is_missing(cell) else _written(cell) for cell in cells])


def _is_missing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and cell.lower() in MISSING_WORDS)


def _written(cell: Any) -> str:
    return cell if isinstance(cell, str) else json.dumps(cell)


def open_json_lines(paths: tuple[str, ...], options: ReadOptions) -> LineStream:
    """Stream over JSON lines."""
    return LineStream(
        paths,
        JsonFormat(options.kinds or None, options.drop),
        on_bad_line=options.on_bad_line,
        chunk_bytes=options.chunk_bytes,
    )
