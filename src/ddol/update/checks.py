"""Check states and messages from elsewhere against what their layout declares: compiled loops trust them."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ddol.streams.errors import DataError
from ddol.update.layout import (
    COUNT,
    INDEX,
    INTEGER,
    NUMBER,
    UNBOUNDED,
    FeatureList,
    Field,
    Layout,
)

_AT_ONCE = 1 << 20
"""Numbers that are looked at together: what this takes of memory must not depend on the state's size."""


def check_vectors(
    layout: Layout, theta: np.ndarray, scalars: np.ndarray, where: str | Path = "the state"
) -> None:
    """Refuse what a layout does not allow: NaN, indices out of range, a feature twice in a list.

    Parameters
    ----------
    layout : Layout
        Of the update whose state it is.
    theta : (…, rows, D)
        Rows of D numbers of any number of agents and outputs.
    scalars : (…, scalars)
    where : str or Path
        Where they come from, for messages.

    Raises
    ------
    DataError
        One line: where, which field, what was found, and what was expected.

    Examples
    --------
    >>> layout = Layout(rows=("w",), scalars=(Field("seen", holds=COUNT),))
    >>> check_vectors(layout, np.zeros((1, 3)), np.array([3.0]))
    >>> check_vectors(layout, np.zeros((1, 3)), np.array([4.0]))
    Traceback (most recent call last):
    ddol.streams.errors.DataError: the state: found 4 for `seen`, expected a whole number from 0 to 3; ...
    """
    width = theta.shape[-1]
    rows = theta.reshape(-1, len(layout.rows), width)
    numbers = scalars.reshape(len(rows), len(layout.scalars))
    _check_fields(layout.row_fields, rows, width, where)
    _check_fields(layout.scalar_fields, numbers[:, :, None], width, where)
    for listed in layout.lists:
        for own, few in zip(rows, numbers, strict=True):
            _check_list(layout, listed, own, few, where)


def check_message(
    layout: Layout,
    rows: np.ndarray,
    scalars: np.ndarray,
    where: str | Path = "the message",
    n_features: int | None = None,
) -> None:
    """Refuse a neighbour's message whose shape or numbers the layout does not allow.

    Parameters
    ----------
    layout : Layout
        Of the receiver's update.
    rows : (…, rows of a message, n)
        Of all features or of some.
    scalars : (…, linear scalars and those whose largest is taken)
    where : str or Path
        Who sent it, for messages.
    n_features : int, optional
        D, where the message is of some features only.

    Examples
    --------
    >>> layout = Layout(rows=("w",))
    >>> check_message(layout, np.array([[1.0, np.nan]]), np.empty(0), "peer eu")
    Traceback (most recent call last):
    ddol.streams.errors.DataError: peer eu: found nan for `w`, expected a finite number; ...
    """
    sent = layout.scalar_fields[: layout.linear_scalars + layout.largest_scalars]
    expected = (len(layout.message_fields), len(sent))
    found = (rows.shape[-2] if rows.ndim > 1 else 0, scalars.shape[-1] if scalars.ndim else 0)
    if found != expected or rows.dtype != np.float64 or scalars.dtype != np.float64:
        raise DataError(
            f"{where}: found {found[0]} rows of {rows.dtype} and {found[1]} scalars of "
            f"{scalars.dtype}, expected {expected[0]} and {expected[1]} of float64"
        )
    n, width = rows.shape[-1], rows.shape[-1] if n_features is None else n_features
    _check_fields(layout.message_fields, rows.reshape(-1, expected[0], n), width, where)
    _check_fields(
        sent, scalars.reshape(math.prod(scalars.shape[:-1]), expected[1], 1), width, where
    )


def allowed_numbers(layout: Layout, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest that `check_message` allows for every number of a message, in its order.

    Examples
    --------
    >>> layout = Layout(rows=("w", Field("root", least=0.0)))
    >>> allowed_numbers(layout, 2)[0].tolist()
    [-inf, -inf, 0.0, 0.0]
    """
    sent = layout.scalar_fields[: layout.linear_scalars + layout.largest_scalars]
    each = [_bounds(field, n_features) for field in (*layout.message_fields, *sent)]
    times = [n_features] * len(layout.message_fields) + [1] * len(sent)
    least, most = np.repeat(np.array(each, np.float64).reshape(-1, 2), times, axis=0).T
    return least, most


@functools.lru_cache(maxsize=64)
def _alike(fields: Sequence[Field]) -> tuple[tuple[Field, slice], ...]:
    """Runs of fields that hold the same, each with its first: a matrix of D rows is looked at at once."""
    found: list[tuple[Field, slice]] = []
    for place, field in enumerate(fields):
        if found and found[-1][0][3:] == field[3:]:
            found[-1] = (found[-1][0], slice(found[-1][1].start, place + 1))
        else:
            found.append((field, slice(place, place + 1)))
    return tuple(found)


def _check_fields(
    fields: tuple[Field, ...], values: np.ndarray, width: int, where: str | Path
) -> None:
    """Check what every field holds, in values (states, fields, numbers)."""
    some = max(_AT_ONCE // max(values.shape[-1], 1), 1)
    for own in values:
        for first, run in _alike(fields):
            for lo in range(run.start, run.stop, some):
                part = own[lo : min(lo + some, run.stop)]
                good = _good(first, part, width)
                if not good.all():
                    at = tuple(np.argwhere(~good)[0])
                    raise _refused(fields[lo + int(at[0])], float(part[at]), width, where)


def _good(field: Field, values: np.ndarray, width: int) -> np.ndarray:
    """Which values a field may hold."""
    least, most = _bounds(field, width)
    with np.errstate(invalid="ignore"):
        if field.holds == UNBOUNDED:
            return (values >= least) & (values <= most)
        if field.holds == NUMBER:
            good = np.isfinite(values)
            if math.isfinite(least) or math.isfinite(most):
                good &= (values >= least) & (values <= most)
            return good
        return (values >= least) & (values <= most) & (np.floor(values) == values)


def _bounds(field: Field, width: int) -> tuple[float, float]:
    if field.holds == INDEX:
        return max(field.least, 0.0), min(field.most, width - 1.0)
    if field.holds == COUNT:
        return max(field.least, 0.0), min(field.most, float(width))
    if field.holds == INTEGER:  # beyond this not every number has a successor
        return max(field.least, -(2.0**53)), min(field.most, 2.0**53)
    return field.least, field.most


def _refused(field: Field, value: float, width: int, where: str | Path) -> DataError:
    least, most = _bounds(field, width)
    kind = {NUMBER: "a finite number", UNBOUNDED: "a number"}.get(field.holds, "a whole number")
    bounded = math.isfinite(least) or math.isfinite(most)
    limits = f" from {least:g} to {most:g}" if bounded else ""
    return DataError(
        f"{where}: found {value:g} for `{field.name}`, expected {kind}{limits}; it is damaged or was not "
        "written by ddol"
    )


def _check_list(
    layout: Layout, listed: FeatureList, rows: np.ndarray, scalars: np.ndarray, where: str | Path
) -> None:
    """Refuse a list that is too long, names what is no feature, names one twice, or names others."""
    width, names = rows.shape[-1], [field.name for field in layout.row_fields]
    numbers = {field.name: scalars[k] for k, field in enumerate(layout.scalar_fields)}
    count, entries = numbers[listed.length], rows[names.index(listed.row)]
    for field, values in (
        (Field(listed.length, holds=COUNT), np.array([count])),
        (Field(listed.row, holds=INDEX), entries[: int(max(min(count, width), 0))]),
    ):
        good = _good(field, values, width)
        if not good.all():
            raise _refused(field, float(values[~good][0]), width, where)
    features = np.sort(entries[: int(count)])
    if np.any(features[1:] == features[:-1]):
        raise DataError(f"{where}: found a feature twice in the list `{listed.row}`, expected once")
    if listed.nonzero is None or (listed.stale is not None and numbers[listed.stale] != 0.0):
        return
    meant = np.flatnonzero(rows[names.index(listed.nonzero)])
    if not np.array_equal(meant, features):
        raise DataError(
            f"{where}: found {len(features)} features in the list `{listed.row}`, expected the "
            f"{len(meant)} whose `{listed.nonzero}` is not 0; it is damaged or was not written by ddol"
        )
