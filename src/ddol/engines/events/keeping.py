"""Checkpoints of a run of events: clock, mailboxes, labels and messages under way, rows, moments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from ddol.engines.events.kept_checks import check_clock, check_player
from ddol.engines.events.player import EventPlayer
from ddol.engines.events.row_pool import RowPool
from ddol.engines.events.views import NeighbourViews
from ddol.engines.state_checks import check_rows
from ddol.engines.workers.shadow import ShadowLearner
from ddol.recording import Moment
from ddol.schedules.clock import Clock
from ddol.schedules.events import FIELDS, Events
from ddol.schedules.keeping import (
    Kept,
    below,
    check_length,
    check_range,
    kept_of,
    load_arrays,
    under,
    value_of,
    words_of,
)
from ddol.storage import Expected, check_arrays
from ddol.streams.errors import DataError
from ddol.streams.rows import Rows

_PLAYER = (
    "turns", "words", "absent", "box", "version", "under_way", "references", "free", "slopes",
    "messages", "mass", "sums", "heard",
)  # fmt: skip
_AS_LONG = ("turns", "words", "absent", "box", "version", "mass", "sums", "heard")
_TALK = ("last", "news", "messages", "bytes", "arrived")
_NEAR = ("known", "use", "quiet", "pace")
_VIEWS = ("theta", "scalars")
_SHADOW = ("weights", "scalars", "sums", "drift", "own", "own_rows")
_NUMBERS = ("rounds", "time", "examples", "mistakes", "loss")
_SUMS = ("plays", "rated_squares", "last_rate", "longest", "smallest")


def player_state(player: EventPlayer) -> Kept:
    """Turns, mailboxes, and what is under way between agents; their state is kept besides."""
    talk, near = kept_of(player.talk, _TALK), _near_state(player.near)
    return kept_of(player, _PLAYER) | under("talk", talk) | under("near", near)


def load_player(player: EventPlayer, kept: Mapping[str, np.ndarray], where: str) -> None:
    """Let a player go on from where another one like it was."""
    _load_as_long(player, _AS_LONG, kept, where)
    _load_as_long(player.talk, _TALK, below("talk", kept), where)
    _load_near(player.near, below("near", kept), where)
    load_arrays(player, [name for name in _PLAYER if name not in _AS_LONG], kept, where)
    check_player(player, where)


def _near_state(near: NeighbourViews) -> Kept:
    """The views of neighbours, and the lessons so far."""
    if near.views is None:
        return {}
    lessons = events_state(Events.joined(near.given))
    lessons["after"] = np.concatenate([np.empty(0, np.int64), *near.after])
    views = kept_of(near.views.state, _VIEWS)
    return kept_of(near, (*_NEAR, "addressed")) | under("views", views) | under("lessons", lessons)


def _load_near(near: NeighbourViews, kept: Mapping[str, np.ndarray], where: str) -> None:
    if near.views is None:
        return
    _load_as_long(near, _NEAR, kept, where)
    load_arrays(near, ["addressed"], kept, where)
    state, views = near.views.state, below("views", kept)
    shapes = {name: Expected("float64", getattr(state, name).shape) for name in _VIEWS}
    check_arrays(where, views, shapes)
    copies: dict[str, Any] = {name: array.copy() for name, array in views.items()}
    near.views.adopt(replace(state, **copies))
    lessons = below("lessons", kept)
    after = lessons.pop("after", np.empty(0))
    near.given = [events_from(lessons, where)]
    check_arrays(where, {"after": after}, {"after": Expected("int64", (len(near.given[0]),))})
    near.after = [after]


def _load_as_long(
    owner: Any, names: Sequence[str], kept: Mapping[str, np.ndarray], where: str
) -> None:
    """Restore arrays, which must have the length they have."""
    sizes = {name: len(getattr(owner, name)) for name in names}
    load_arrays(owner, names, kept, where)
    for name, size in sizes.items():
        check_length(where, name, getattr(owner, name), size)


_STORED = tuple(f.name for f in fields(Rows) if f.name != "intercept")


def pool_state(pool: RowPool) -> Kept:
    """Rows that wait, and the numbers that rows have got so far."""
    rows = pool.rows.plain()
    plain = {f"rows_{name}": np.atleast_1d(getattr(rows, name)) for name in _STORED}
    whose = pool.numbers.whose().astype(np.int64)
    return plain | {
        "serials": pool.serials,
        "count": np.array([pool.numbers.count]),
        "whose": whose,
    }


def load_pool(pool: RowPool, kept: Mapping[str, np.ndarray], n_features: int, where: str) -> None:
    """Let a pool go on from where another one was."""
    shapes = {name: Expected("int64", (None,)) for name in ("serials", "count", "whose")}
    check_arrays(where, {name: kept[name] for name in shapes if name in kept}, shapes)
    parts: dict[str, Any] = {}
    for name in _STORED:
        array = kept.get(f"rows_{name}", np.empty(0))
        parts[name] = array.item() if name == "n_features" and array.size == 1 else array
    rows = Rows(**parts)
    check_rows(rows, n_features, f"{where}: waiting rows")
    serials, count = kept["serials"], int(kept["count"][0]) if len(kept["count"]) else -1
    if len(serials) != len(rows) or np.any(np.diff(serials) <= 0):
        raise DataError(
            f"{where}: found waiting rows out of order; the file is damaged, use an earlier checkpoint"
        )
    check_range(where, "serials", serials, 0, count - 1)
    check_range(where, "whose", kept["whose"], 0, pool.numbers.n_agents - 1)
    pool.load_state_dict(rows, serials, count, kept["whose"])


def shadow_state(shadow: ShadowLearner) -> Kept:
    """The shadow's weights and sums."""
    return kept_of(shadow, _SHADOW)


def load_shadow(shadow: ShadowLearner, kept: Mapping[str, np.ndarray], where: str) -> None:
    """Let a shadow go on from where another one like it was."""
    fresh = {name: Expected("float64", getattr(shadow, name).shape) for name in _SHADOW}
    for name in ("weights", "own_rows"):
        fresh[name] = Expected("float64", (*getattr(shadow, name).shape[:2], None))
    check_arrays(where, kept, fresh)
    load_arrays(shadow, _SHADOW, kept, where)


def moments_state(moments: Sequence[Moment]) -> Kept:
    """The run by its time; NaN where there is no shadow."""
    numbers = [[float(getattr(m, name)) for name in _NUMBERS] for m in moments]
    blank = [np.nan] * len(_SUMS)
    sums = [blank if m.shadow is None else [getattr(m.shadow, s) for s in _SUMS] for m in moments]
    drift = [m.shadow.drift for m in moments if m.shadow is not None]
    own = [m.shadow.own for m in moments if m.shadow is not None]
    return {
        "own": np.array(own, float).reshape(len(own), 2, own[0].shape[1] if own else 0),
        "numbers": np.array(numbers, float).reshape(-1, len(_NUMBERS)),
        "sums": np.array(sums, float).reshape(-1, len(_SUMS)),
        "drift": np.array(drift, float).reshape(len(drift), len(drift[0]) if drift else 0),
    }


def moments_from(
    kept: Mapping[str, np.ndarray], shadow: ShadowLearner | None, where: str
) -> list[Moment]:
    """The moments that were kept."""
    n = len(kept["numbers"]) if "numbers" in kept else 0
    drift = (0, None) if shadow is None else (n, len(shadow.drift) if n else None)
    shapes: dict[str, tuple[int | None, ...]] = {
        "numbers": (n, len(_NUMBERS)),
        "sums": (n, len(_SUMS)),
        "drift": drift,
        "own": (drift[0], 2, None),
    }
    check_arrays(where, kept, {name: Expected("float64", shape) for name, shape in shapes.items()})
    found = []
    for k, (rounds, time, examples, mistakes, loss) in enumerate(kept["numbers"].tolist()):
        seen = None
        if shadow is not None:
            plays, *others = kept["sums"][k].tolist()
            named = dict(zip(_SUMS[1:], others, strict=True))
            seen = replace(
                shadow.seen(), plays=int(plays), drift=kept["drift"][k], own=kept["own"][k], **named
            )
        found.append(Moment(int(rounds), time, int(examples), int(mistakes), loss, seen))
    return found


def events_state(events: Events) -> Kept:
    """A list of events in the types that files of checkpoints have."""
    return {
        name: getattr(events, name).astype(np.float64 if name == "time" else np.int64)
        for name in FIELDS
    }


def events_from(kept: Mapping[str, np.ndarray], where: str) -> Events:
    """The list that was kept."""
    n = len(kept["kind"]) if "kind" in kept else 0
    kinds = {name: "float64" if name == "time" else "int64" for name in FIELDS}
    check_arrays(where, kept, {name: Expected(kind, (n,)) for name, kind in kinds.items()})
    return Events.from_arrays(kept[name].astype(kind) for name, kind in FIELDS.items())


# --- the virtual clock ---------------------------------------------------------------------------

_CLOCK_FIXED = (
    "words", "now", "turns", "answers", "late", "absent", "parked", "ended", "queue_at", "queue_end",
    "first", "last",
)  # fmt: skip
"""Arrays of a clock that keep their size."""
_CLOCK_GROWING = (
    "queue", "delays", "next_answer", "due_turn", "row_of", "free_answers", "copies", "place_of",
    "free_messages", "due_time", "due_order", "due_what", "numbers",
)  # fmt: skip


def clock_state(clock: Clock) -> Kept:
    """The state of a clock, for checkpoints."""
    drawn = words_of(clock.rng.bit_generator.state)
    return kept_of(clock, (*_CLOCK_FIXED, *_CLOCK_GROWING)) | {"rng": drawn}


def load_clock(clock: Clock, kept: Mapping[str, np.ndarray], n_rows: int, where: str) -> None:
    """Let a clock go on from where another one like it was.

    Parameters
    ----------
    clock : Clock
    kept : dict of arrays
        From `clock_state`.
    n_rows : int
        Serial numbers that were given to rows so far.
    where : str
        Where it came from, for messages.
    """
    sizes = {name: len(getattr(clock, name)) for name in _CLOCK_FIXED}
    load_arrays(clock, (*_CLOCK_FIXED, *_CLOCK_GROWING), kept, where)
    for name, size in sizes.items():
        check_length(where, name, getattr(clock, name), size)
    check_clock(clock, n_rows, where)
    try:
        clock.rng.bit_generator.state = value_of(kept.get("rng", np.empty(0, np.uint8)), where)
    except (TypeError, ValueError, KeyError):
        raise DataError(f"{where}: found no state of a random generator") from None
