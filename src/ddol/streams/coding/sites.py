"""Schemas of several sites joined into one, and what their data look like beside each other.

The joint schema is the union of the columns: one that a site lacks is missing values there. What cannot be
decided for the user (labels that differ, a column that is a number here and text there) is an error that
shows both sides and the ways to decide it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ddol.streams.coding.encoding import NUMBER, TEXT, Column
from ddol.streams.coding.labels import Label, listed
from ddol.streams.coding.summary import label_cells
from ddol.streams.errors import DataError
from ddol.streams.raw import Named, Raw, Table, Text

if TYPE_CHECKING:
    from ddol.streams.coding.discovery import SchemaSample
    from ddol.streams.stream import Stream

Moments = tuple[int, float, float, float]

_FEW = 5
_MOST_COLUMNS = 4096
_MOST_SHOWN = 12


@dataclass(frozen=True)
class SiteSample:
    """The first rows of a site's data.

    Parameters
    ----------
    labels
        Rows with each label.
    missing
        Share of missing cells of each column that lacks some.
    moments
        Count, mean, standard and mean absolute deviation of each feature that is a number.
    words
        The first cell of each text column that is no number, and its row.
    """

    labels: Mapping[Label, int]
    missing: Mapping[str, float]
    moments: Mapping[str, Moments]
    words: Mapping[str, tuple[str, int]]


def site_sample(block: Raw, label: str | None, columns: Sequence[Column] | None) -> SiteSample:
    """Look at the first block of a site.

    Examples
    --------
    >>> table = Table({"ill": np.array([1.0, 0.0]), "age": np.array([30.0, np.nan])})
    >>> seen = site_sample(table, "ill", [Column("age")])
    >>> seen.labels, seen.missing, seen.moments
    ({0.0: 1, 1.0: 1}, {'age': 0.5}, {'age': (1, 30.0, 0.0, 0.0)})
    """
    labels = _label_counts(label_cells(block, label))
    missing: dict[str, float] = {}
    words: dict[str, tuple[str, int]] = {}
    moments = _moments(block, columns)
    if isinstance(block, Table):
        for column in columns or ():
            cells = block.columns[column.name]
            none = cells.codes < 0 if isinstance(cells, Text) else np.isnan(cells)
            if none.any():
                missing[column.name] = float(none.mean())
            if isinstance(cells, Text):
                found = _first_word(cells)
                if found is not None:
                    words[column.name] = found
    return SiteSample(labels, missing, moments, words)


def _label_counts(cells: Any) -> dict[Label, int]:
    if isinstance(cells, Text):
        values, counts = np.unique(cells.codes[cells.codes >= 0], return_counts=True)
        return dict(zip([cells.values[v] for v in values.tolist()], counts.tolist(), strict=True))
    if cells is None:
        return {}
    numbers = np.asarray(cells, np.float64)
    values, counts = np.unique(numbers[~np.isnan(numbers)], return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def _first_word(cells: Text) -> tuple[str, int] | None:
    """The first cell that is no number, and its row."""
    words = np.array([not _is_number(value) for value in cells.values] + [False])
    there = words[cells.codes]
    row = int(there.argmax()) if there.any() else -1
    return None if row < 0 else (cells.cell(row) or "", row)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _moments(block: Raw, columns: Sequence[Column] | None) -> dict[str, Moments]:
    if isinstance(block, Table):
        numbers = {c.name: block.columns[c.name] for c in columns or () if c.kind == NUMBER}
        return {k: _moments_of(c) for k, c in numbers.items() if not isinstance(c, Text)}
    if isinstance(block, Named):
        order = np.argsort(block.codes, kind="stable")
        ends = np.searchsorted(block.codes[order], np.arange(len(block.names) + 1))
        few = range(min(len(block.names), _MOST_COLUMNS))
        return {block.names[k]: _moments_of(block.data[order[ends[k] : ends[k + 1]]]) for k in few}
    if block.n_features > _MOST_COLUMNS:
        return {}
    matrix = block.to_scipy().tocsc()
    parts = np.split(matrix.data, matrix.indptr[1:-1])
    return {f"column {k + 1}": _moments_of(part) for k, part in enumerate(parts)}


def _moments_of(cells: Any) -> Moments:
    numbers = np.asarray(cells, np.float64)
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        return 0, 0.0, 0.0, 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # squares of 1e300 are infinite
        mean = numbers.mean()
        distance = np.abs(numbers - mean).mean()
        return len(numbers), float(mean), float(numbers.std()), float(distance)


# --- columns ---------------------------------------------------------------------------------------


def joined_columns(
    samples: Sequence[SchemaSample], missing: str, streams: Sequence[Stream] = ()
) -> tuple[tuple[Column, ...] | None, tuple[str, ...]]:
    """The union of the sites' columns, and those that some of them lack.

    Parameters
    ----------
    samples
        What the beginning of every site shows.
    missing
        What is done about missing values.
    streams
        Of the sites, where they are at hand, for messages.
    """
    tables = [seen for seen in samples if seen.columns]
    first = samples[0].columns
    if len(tables) < len(samples) or first is None:
        return first, ()
    _check_roles(tables)
    kinds: dict[str, str] = {}
    for seen in tables:
        for column in seen.columns or ():
            kinds[column.name] = _joint_kind(column.name, tables, streams)
    names = [column.name for column in first]
    if any([c.name for c in seen.columns or ()] != names for seen in tables):
        names = sorted(kinds)  # the same, whichever file comes first
    there = [{c.name for c in seen.columns or ()} for seen in tables]
    optional = tuple(name for name in names if not all(name in own for own in there))
    if optional and missing == "error":
        name = optional[0]
        lacks = next(seen for seen, own in zip(tables, there, strict=True) if name not in own)
        has = next(seen for seen, own in zip(tables, there, strict=True) if name in own)
        raise DataError(
            f"{lacks.name}: found no column {name!r}, which {has.name} has; a column that a site lacks is "
            f"missing values: use --missing mean or --missing zero, rename it, or use --drop {name}"
        )
    return tuple(Column(name, kinds[name]) for name in names), optional


def _check_roles(tables: Sequence[SchemaSample]) -> None:
    """Refuse sites whose label or weight are different columns."""
    first = tables[0]
    for role in ("label", "weight"):
        for seen in tables[1:]:
            one, other = getattr(first, role), getattr(seen, role)
            if one != other:
                raise DataError(
                    f"found the {role} {one!r} in {first.name} and {other!r} in {seen.name}, expected one "
                    f"column for all; name it with --{role}"
                )


def _joint_kind(name: str, tables: Sequence[SchemaSample], streams: Sequence[Stream]) -> str:
    """Kind of a column at all sites; what is a number here and text there is a question."""
    kinds: dict[str, SchemaSample] = {}
    for seen in tables:
        own = {c.name: c.kind for c in seen.columns or ()}
        if name in own and not _all_missing(name, seen):
            kinds.setdefault(own[name], seen)
    if len(kinds) < 2:
        return next(iter(kinds), NUMBER)
    text, number = kinds[TEXT], kinds[NUMBER]
    word, row = ("", 0) if text.site is None else text.site.words.get(name, ("", 0))
    where = text.name
    for stream in streams:
        if stream.describe() == text.name and stream.restartable:
            where = stream.locate(None, row)
    cell = f"the text {word[:40]!r}" if word else "text"
    raise DataError(
        f"{where}: column {name!r}: found {cell}, but numbers in {number.name}; correct it, or say what the "
        f"column is: --text {name} (a feature for each value), --number {name} (such cells are bad lines), "
        f"or --drop {name}"
    )


def _all_missing(name: str, seen: SchemaSample) -> bool:
    return seen.site is not None and seen.site.missing.get(name) == 1.0


# --- labels ----------------------------------------------------------------------------------------


def check_spellings(labels: Sequence[Label], where: str) -> None:
    """Refuse classes that differ by capital letters, by blanks around them, or by how letters are composed.

    Examples
    --------
    >>> check_spellings(("no", "yes"), "a.csv")
    >>> check_spellings(("no", "Yes", "yes"), "a.csv")
    Traceback (most recent call last):
    ...
    ddol.streams.errors.DataError: a.csv: found the labels 'Yes' and 'yes', expected one spelling; if ...
    """
    known: dict[str, str] = {}
    for label in map(str, labels):
        other = known.setdefault(_spelled(label), label)
        if other == label:
            continue
        if label.casefold() != other.casefold():
            raise DataError(
                f"{where}: found the labels {other!a} and {label!a}, which look alike, expected one "
                "spelling; write them with the same characters and without blanks around them"
            )
        raise DataError(
            f"{where}: found the labels {other!r} and {label!r}, expected one spelling; if they mean the "
            f"same, say so with --labels-map {label}={other}; if they are different classes, with "
            f"--labels {','.join(sorted(map(str, labels))[:_FEW])}"
        )


def _spelled(label: str) -> str:
    """What two spellings of a label have in common."""
    return unicodedata.normalize("NFKC", label).strip().casefold()


def check_labels(sites: Sequence[tuple[str, Sequence[Label]]]) -> None:
    """Refuse sites whose labels are not all among those of one of them.

    Parameters
    ----------
    sites
        Name and labels of every site; other spellings are replaced already.

    Examples
    --------
    >>> check_labels([("a", ("no", "yes")), ("b", ("no",))])
    >>> check_labels([("a", ("no", "yes")), ("b", (0.0, 1.0))])
    Traceback (most recent call last):
    ...
    ddol.streams.errors.DataError: sites have different labels: a has no, yes; b has 0, 1; if ...
    """
    names = [name for name, _ in sites]
    sets = {
        name if names.count(name) == 1 else f"{name} of agent {k}": {listed([e]) for e in labels}
        for k, (name, labels) in enumerate(sites)
        if labels
    }
    together = set().union(*sets.values()) if sets else set()
    if not sets or any(own == together for own in sets.values()):
        return
    groups: dict[frozenset[str], list[str]] = {}
    for name, own in sets.items():
        groups.setdefault(frozenset(own), []).append(name)
    found = [
        f"{listed(names, 3)} {'has' if len(names) == 1 else 'have'} {listed(sorted(own), 5)}"
        for own, names in list(groups.items())[:4]
    ]
    raise DataError(
        f"sites have different labels: {'; '.join(found)}; if they mean the same, say so with --labels-map "
        f"{_example(sets)} (or a file of such lines); if all of them are different classes, with --labels "
        f"{','.join(sorted(together))}"
    )


def _example(sets: Mapping[str, set[str]]) -> str:
    """How to map two labels that are spelled alike; others are not guessed, as "ja" may not mean "no"."""
    (first, *others) = sets.values()
    for own in others:
        for label in sorted(own - first):
            alike = [known for known in sorted(first) if _spelled(known) == _spelled(label)]
            if alike:
                return f"{alike[0]}={label}"
    return "LABEL=OTHER"


# --- what they look like ----------------------------------------------------------------------------


def site_lines(
    samples: Sequence[SchemaSample], sites: Sequence[str], optional: Sequence[str]
) -> list[str]:
    """A line about each site: rows that were looked at, labels, and columns that are not there."""
    lines = []
    for name, seen in list(zip(sites, samples, strict=False))[:_MOST_SHOWN]:
        if seen.site is None:
            continue
        parts = [f"{seen.rows:,} rows looked at", *_shares(seen.site.labels)]
        own = {column.name for column in seen.columns or ()}
        absent = [column for column in optional if column not in own]
        if absent:
            parts.append(f"lacks {listed(absent, _FEW)}")
        gaps = [f"{c} {100 * share:.0f} %" for c, share in seen.site.missing.items()]
        if gaps:
            parts.append(f"missing: {listed(gaps, _FEW)}")
        lines.append(f"  {name}: {'; '.join(parts)}")
    left = len(sites) - _MOST_SHOWN
    return [*lines, f"  … and {left} more"] if left > 0 else lines


def _shares(labels: Mapping[Label, int]) -> list[str]:
    total = sum(labels.values())
    if not total or len(labels) > _FEW:
        return []
    each = sorted(labels.items(), key=lambda pair: str(pair[0]))
    shown = [f"{listed([label])} {100 * n / total:.0f} %" for label, n in each]
    return [", ".join(shown)]
