"""Dates and times as features: the trend in years, the month, the weekday and the hour."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import numpy as np

from ddol.streams.coding.cells import note
from ddol.streams.raw import Cells, Table, Text

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_HOURS = tuple(f"{hour:02}" for hour in range(24))
_TEXTS = {"month": _MONTHS, "weekday": _WEEKDAYS, "hour": _HOURS}
_SECONDS = re.compile(r"\d{9,13}(\.\d*)?")
"""Seconds since 1970 (from 1973 on), or milliseconds; eight digits are a date, 20240331."""
_FIRST = datetime(2000, 1, 1)
_YEAR = timedelta(days=365.2425)

Parts = tuple[float, int, int, int]
"""Years since 2000, and places among the months, weekdays and hours (-1: none)."""

NO_DATE: Parts = (0.0, -1, -1, -1)


@lru_cache(1 << 16)
def date_parts(text: str) -> Parts | None:
    """Parts of a date or time, or None if the text is neither.

    ISO 8601 is read, and seconds since 1970 (in UTC), also with milliseconds. A time zone is left aside:
    what counts is what the clock said there. A date without a time has no hour.

    Examples
    --------
    >>> date_parts("2000-03-04"), date_parts("2000-01-01T13:45:00+01:00")[1:], date_parts("4.3.2000")
    ((0.172488..., 2, 5, -1), (0, 5, 13), None)
    """
    text = text.strip()
    try:
        if _SECONDS.fullmatch(text):
            seconds = float(text) / (1.0 if len(text.partition(".")[0]) < 12 else 1000.0)
            when, with_time = datetime.fromtimestamp(seconds, UTC), True
        else:
            when, with_time = datetime.fromisoformat(text), len(text) > len("2024-03-31")
    except (ValueError, OverflowError, OSError):
        return None
    when = when.replace(tzinfo=None)
    hour = when.hour if with_time else -1
    return (when - _FIRST) / _YEAR, when.month - 1, when.weekday(), hour


def checked_dates(name: str, cells: Text, bad: dict[int, str]) -> None:
    """Note the rows whose cell is no date."""
    for place, value in enumerate(cells.values):
        if date_parts(value) is None:
            found = f"column {name!r}: found {value[:40]!r}, expected a date such as 2024-03-31 or "
            note(bad, cells.codes == place, found + "2024-03-31T14:05; correct it")


def part_names(name: str) -> tuple[str, ...]:
    """Columns that a column of dates becomes.

    Examples
    --------
    >>> part_names("due")
    ('due.years', 'due.month', 'due.weekday', 'due.hour')
    """
    return tuple(f"{name}.{part}" for part in ("years", *_TEXTS))


def split_dates(table: Table, dates: Sequence[str]) -> Table:
    """The table with the parts of dates in the place of the dates; a missing date has none.

    Examples
    --------
    >>> table = split_dates(Table({"due": Text.of(["2000-01-01", None])}), ["due"])
    >>> table.columns["due.month"], table.columns["due.hour"].cell(0)
    (Text(codes=array([ 0, -1]), values=('Jan', 'Feb', ..., 'Dec')), None)
    """
    columns: dict[str, Cells] = {}
    for name, cells in table.columns.items():
        if name not in dates or not isinstance(cells, Text):
            columns[name] = cells
            continue
        found = [date_parts(value) or NO_DATE for value in cells.values]
        parts = np.array([*found, NO_DATE])[cells.codes]
        years, *codes = parts.T
        texts = [
            Text(own.astype(np.int64), values)
            for own, values in zip(codes, _TEXTS.values(), strict=True)
        ]
        columns |= zip(part_names(name), (years, *texts), strict=True)
    return replace(table, columns=columns)


def split_example(example: Mapping[str, object], dates: Sequence[str]) -> dict[str, object]:
    """One example by name with the parts of its dates.

    Raises
    ------
    ValueError
        A date is none.

    Examples
    --------
    >>> split_example({"due": "2000-01-03", "price": 2.0}, ["due"])
    {'due.years': 0.0054758..., 'due.month': 'Jan', 'due.weekday': 'Mon', 'price': 2.0}
    """
    found: dict[str, object] = {}
    for name, value in example.items():
        if name not in dates:
            found[name] = value
            continue
        parts = date_parts(str(value))
        if parts is None:
            raise ValueError(
                f"feature {name!r}: found {str(value)[:40]!r}, expected a date such as 2024-03-31 or "
                "2024-03-31T14:05"
            )
        years, month, weekday, hour = part_names(name)
        found |= {years: parts[0], month: _MONTHS[parts[1]], weekday: _WEEKDAYS[parts[2]]}
        if parts[3] >= 0:
            found[hour] = _HOURS[parts[3]]
    return found
