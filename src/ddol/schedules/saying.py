"""What an agent says and how it is written, in plain NumPy: the reference of `engines.kernels.talking`."""

from __future__ import annotations

import numpy as np

from ddol.communicate.talking import Compression
from ddol.update.contract import Layout

WEIGHTS, STATISTICS = 1, 2

Message = list[tuple[np.ndarray, np.ndarray]]
"""What an agent shares: rows and scalars, for each of its weight vectors."""


def pieces_moved(
    layout: Layout, now: Message, before: Message, start: Message, limit: float
) -> int:
    """Pieces of which a row has moved by more than a share of its squared way from the start.

    Examples
    --------
    >>> message = lambda *row: [(np.array([row]), np.empty(0))]
    >>> pieces_moved(Layout(("w",)), message(3.0, 4.0), message(3.0, 3.0), message(0.0, 0.0), 0.03)
    3
    """
    found = 0
    for r, piece in enumerate(_pieces_of_rows(layout)):
        if 0 < r < layout.statistics[0]:
            continue  # of statistics the counts tell how much is new
        apart = sum(
            float(np.sum((m[0][r] - b[0][r]) ** 2)) for m, b in zip(now, before, strict=True)
        )
        way = sum(float(np.sum((m[0][r] - s[0][r]) ** 2)) for m, s in zip(now, start, strict=True))
        moved = apart / way if way > 0.0 else (np.inf if apart > 0.0 else 0.0)
        if moved > limit:
            found |= piece
    return 3 if found and not layout.statistics[0] else found


def coded(
    layout: Layout,
    now: Message,
    before: Message,
    start: Message,
    pieces: int,
    how: Compression | None,
) -> Message:
    """The message as those who hear it will know it; before the first one, ``before`` is the start itself."""
    first = before is start
    rounded = how if how is not None and how.kind != "top" else None
    if first and rounded is not None and rounded.has_memory:
        rounded = None  # there is nothing that it could be a difference to
    out = [(rows.copy(), scalars.copy()) for rows, scalars in before]
    chosen = np.ones(now[0][0].shape[1], bool)
    if how is not None and how.kind == "top" and not first:
        chosen = _changed_most(layout, now, before, start, pieces, how.features(len(chosen)))
    for (rows, scalars), (had_rows, had_scalars), (to_rows, to_scalars) in zip(
        now, before, out, strict=True
    ):
        for r, piece in enumerate(_pieces_of_rows(layout)):
            if pieces & piece:
                new = rows[r] if rounded is None else _rounded(rounded, rows[r], had_rows[r], 3)
                to_rows[r, chosen] = new[chosen]
        for k in range(len(scalars)):
            if pieces & (STATISTICS if k < layout.statistics[1] else WEIGHTS):
                one = slice(k, k + 1)
                new = scalars[one]
                if rounded is not None:
                    new = _rounded(rounded, new, had_scalars[one], 7)
                to_scalars[one] = new
    return out


def _pieces_of_rows(layout: Layout) -> list[int]:
    rows, first = len(layout.message_rows), layout.statistics[0]
    return [STATISTICS] * first + [WEIGHTS] * (rows - first)


def _rounded(how: Compression, new: np.ndarray, had: np.ndarray, places: int) -> np.ndarray:
    """Single precision; or differences with so many bits behind the leading one, cut towards 0."""
    if how.kind == "float32":
        info = np.finfo(np.float32)
        size = np.clip(np.abs(new), info.tiny, info.max).astype(np.float32).astype(float)
        return np.where(new == 0.0, new, np.copysign(size, new))
    apart = new - had
    part, exponent = np.frexp(apart)
    short = np.ldexp(np.trunc(part * 2 ** (places + 1)), exponent - places - 1)
    largest = exponent[apart != 0.0].max(initial=-10_000)
    lost = (exponent < largest - 14) | (np.abs(apart) < np.finfo(float).tiny)
    return np.asarray(had + np.where(lost, 0.0, short))


def _changed_most(
    layout: Layout, now: Message, before: Message, start: Message, pieces: int, most: int
) -> np.ndarray:
    """The features that have changed most; of those that tie, the first ones."""
    sizes = np.zeros(now[0][0].shape[1])
    for r, piece in enumerate(_pieces_of_rows(layout)):
        if pieces & piece:
            way = sum(
                float(np.sum((m[0][r] - s[0][r]) ** 2)) for m, s in zip(now, start, strict=True)
            )
            for m, b in zip(now, before, strict=True):
                sizes += (m[0][r] - b[0][r]) ** 2 / (way if way > 0.0 else 1.0)
    chosen = np.zeros(len(sizes), bool)
    chosen[np.argsort(-sizes, kind="stable")[:most]] = True
    return chosen & (sizes > 0.0)
