"""Finding the encoding of data: what the beginning shows, and all of it where that is not enough."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ddol.streams.coding.columns import choose_columns, one_of
from ddol.streams.coding.encoding import DATE, NUMBER, TEXT, Column, Encoding
from ddol.streams.coding.labels import Label, checked_classes, listed, mapped_label
from ddol.streams.coding.order import LabelOrder
from ddol.streams.coding.sites import (
    SiteSample,
    check_labels,
    check_spellings,
    joined_columns,
    site_sample,
)
from ddol.streams.coding.summary import MOST_LABELS, joined, label_cells, scan
from ddol.streams.errors import DataError
from ddol.streams.formats import ReadOptions
from ddol.streams.over.wrapped import ReadAhead
from ddol.streams.raw import Cells, Raw, Table, Text
from ddol.streams.rows import Rows
from ddol.streams.stream import Stream

MANY_CLASSES = 20
"""More classes than this are worth a warning: they may be measurements."""

_MOST_KEPT = 256 << 20
_TIME = r"\d{1,2}:\d{2}(:\d{2})?([.,]\d+)?( ?[ap]\.?m\.?)?( ?(z|utc|gmt|[-+]\d{2}:?\d{2}))?"
_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DAY = "|".join(
    [
        r"\d{4}[-./]\d{1,2}[-./]\d{1,2}",
        r"\d{1,2}[-./]\d{1,2}[-./]\d{4}|\d{1,2}[-/]\d{1,2}[-/]\d{2}",
        rf"\d{{1,2}}[- ]{_MONTH}[- ,]+(\d{{4}}|\d{{2}})|{_MONTH} \d{{1,2}},? \d{{4}}",
    ]
)
# Compiled where they are used: only tables have text.
_DATE = rf"(?i)({_DAY})([t ,]+{_TIME})?|\d{{1,2}}:\d{{2}}:\d{{2}}([.,]\d+)?"
_NEARLY_ALL = 0.9
_COMMAS = r"[-+]?[\d.,]*\d([eE][-+]?\d+)?"
_FEW = 3
"""As many different numbers with commas are no names of categories."""


@dataclass(frozen=True)
class SchemaHints:
    """What is known of an encoding before the data are looked at.

    Parameters
    ----------
    reading
        How files are read: the label, what to leave out, all labels, … as far as they are given.
    classification
        Whether labels are classes; else they are numbers.
    two_classes
        Whether there may be no more than two classes.
    intercept, sites
        See `Encoding`.
    """

    reading: ReadOptions = field(default_factory=ReadOptions)
    classification: bool = True
    two_classes: bool = False
    intercept: bool = False
    sites: tuple[str, ...] = ()


@dataclass(frozen=True)
class SchemaSample:
    """What the beginning of a stream shows.

    Parameters
    ----------
    name
        Of the stream.
    columns
        Features of a table; empty where rows name their own; None where columns have numbers.
    label, weight
        Names of these columns of a table.
    labels
        Distinct labels.
    rows
        Rows that were read.
    order
        How labels follow each other in them.
    site
        What they look like, where there are several sites.
    dropped
        Columns that are there, and left out on purpose.
    """

    name: str
    columns: tuple[Column, ...] | None
    label: str | None
    weight: str | None
    labels: tuple[Label, ...]
    rows: int
    order: LabelOrder
    site: SiteSample | None = None
    dropped: tuple[str, ...] = ()


def sample_schema(stream: Stream, hints: SchemaHints, least_rows: int = 1) -> SchemaSample:
    """Read until there are two labels and enough rows; what can be read once only is kept.

    Parameters
    ----------
    stream
        A restartable stream, or a `ReadAhead`.
    hints
        Which column is the label, and which to leave out.
    least_rows
        Rows to see at least, if the stream has them.

    Examples
    --------
    >>> from ddol.streams.arrays import array_stream
    >>> seen = sample_schema(array_stream(np.eye(3), [1, 1, 2]), SchemaHints())
    >>> seen.labels, seen.rows, seen.order.run
    ((1.0, 2.0), 3, 2)
    """
    blocks: Iterable[tuple[Any, Any]] = stream.read()
    if kept := isinstance(stream, ReadAhead):
        blocks = stream.look()
    name = stream.describe()
    columns: tuple[Column, ...] | None = None
    label = weight = None
    labels: set[Label] = set()
    order, site = LabelOrder(hints.classification), None
    dropped: tuple[str, ...] = ()
    aliases = dict(hints.reading.aliases)
    rows = size = 0
    for block, _ in blocks:
        if not rows:
            columns, label, weight = _shape(block, hints, name)
            site = site_sample(block, label, columns) if hints.sites else None
            dropped = tuple(
                n for n in hints.reading.drop if isinstance(block, Table) and n in block.columns
            )
        elif isinstance(block, Table) and columns is not None:
            columns = tuple(map(_wider, columns, _columns(block, hints, label, weight, name)))
        found = label_cells(block, label)
        if found is not None and (hints.classification or not isinstance(found, Text)):
            order.add(found)
        if hints.classification and found is not None:
            here = {mapped_label(each, aliases) for each in _labels_in(found)}
            labels = set(sorted(labels | here, key=str)[: MOST_LABELS + 1])
        rows += len(block)
        size += block.nbytes
        if rows >= least_rows and (len(labels) > 1 or not hints.classification):
            break
        if kept and size > _MOST_KEPT:
            raise DataError(
                f"{name}: found one class only (label {listed(sorted(labels, key=str))}) in the first "
                f"{rows} rows, expected two; shuffle the data, or name the labels with --labels"
            )
    return SchemaSample(name, columns, label, weight, _ordered(labels), rows, order, site, dropped)


def learn_encoding(
    streams: Sequence[Stream],
    hints: SchemaHints,
    samples: Sequence[SchemaSample],
    gather: Callable[[list[Any]], list[Any]] = list,
) -> Encoding:
    """The encoding that the data show, stumps aside.

    Parameters
    ----------
    streams
        Those of this process.
    hints
        What is wanted of it.
    samples
        What the beginning of every stream of all processes shows.
    gather
        Joins the lists of all processes, where there are several.

    Examples
    --------
    >>> from ddol.streams.arrays import array_stream
    >>> streams = [array_stream([[1.0], [2.0]], [7, 9])]
    >>> learn_encoding(streams, SchemaHints(), [sample_schema(streams[0], SchemaHints())]).classes
    (7.0, 9.0)
    """
    leader, reading = samples[0], hints.reading
    for pair in reading.interactions:
        _check_pair(pair, reading.bits, leader)
    _check_columns(samples, reading)
    if reading.columns is None:
        columns, optional = joined_columns(samples, reading.missing, streams)
    else:
        columns, optional = (
            tuple(Column(*said) for said in reading.columns),
            _lacking(samples, hints),
        )
    classes = _classes(streams, hints, samples, gather) if hints.classification else None
    return Encoding(
        columns=columns,
        n_features=reading.features if columns is None else None,
        label=leader.label,
        weight=leader.weight,
        dropped=reading.drop,
        classes=classes,
        sites=hints.sites,
        intercept=hints.intercept,
        bits=reading.bits,
        missing=reading.missing,
        interactions=reading.interactions,
        optional=optional,
        fills=_fills(samples, columns) if optional and reading.missing == "mean" else (),
        aliases=reading.aliases if classes is not None else (),
    )


def _lacking(samples: Sequence[SchemaSample], hints: SchemaHints) -> tuple[str, ...]:
    """Columns of a given schema that may be absent: those that it says, and those that a site lacks."""
    names = [name for name, _ in hints.reading.columns or ()]
    absent = {
        name
        for seen in samples
        for name in names
        if name not in {c.name for c in seen.columns or ()}
    }
    lacks = absent if hints.reading.missing != "error" else set()
    return tuple(name for name in names if name in hints.reading.optional or name in lacks)


def _fills(
    samples: Sequence[SchemaSample], columns: tuple[Column, ...] | None
) -> tuple[float, ...]:
    """Mean of each column of numbers at the sites that have it, as their beginnings show it."""
    sites = [seen.site.moments for seen in samples if seen.site is not None]
    found = []
    for column in columns or ():
        if column.kind == NUMBER:
            known = [site[column.name] for site in sites if column.name in site]
            n = sum(count for count, *_ in known)
            found.append(sum(count * mean for count, mean, *_ in known) / max(n, 1))
    return tuple(found)


def _check_columns(samples: Sequence[SchemaSample], reading: ReadOptions) -> None:
    """Refuse columns that options name and no site has, or that they name as two kinds."""
    twice = sorted(set(reading.text) & set(reading.number))
    if twice:
        raise DataError(
            f"--text {twice[0]} and --number {twice[0]} contradict each other; leave one out"
        )
    dropped = {name for seen in samples for name in seen.dropped}
    columns = [column for seen in samples for column in seen.columns or ()]
    dates = {column.name for column in columns if column.kind == DATE}
    names = {column.name for column in columns} | {name for name, _ in reading.columns or ()}
    there = names | dropped | {str(n) for seen in samples for n in (seen.label, seen.weight)}
    _check_there(samples, reading.drop, dropped, "to drop")
    _check_there(samples, reading.dates, dates, "of dates")
    _check_there(samples, (*reading.text, *reading.number), there, "for --text or --number")


def _check_there(
    samples: Sequence[SchemaSample], asked: Sequence[str], there: Collection[str], purpose: str
) -> None:
    """Refuse names that are options of the user, and no column of any site."""
    strange = [name for name in asked if name not in there]
    names = [column.name for seen in samples for column in seen.columns or ()]
    if strange and names:
        raise DataError(
            f"{samples[0].name}: found no column {strange[0]!r} {purpose}, expected "
            f"{one_of(dict.fromkeys(names), strange[0])}; correct the name"
        )


def _check_pair(pair: str, bits: int | None, seen: SchemaSample) -> None:
    """Refuse products of what has no name, or of columns that are not there."""
    if bits is None:
        raise DataError(
            f"--interactions {pair}: products of features are hashed; say to how many places, such as "
            "--bits 18"
        )
    if seen.columns is None:
        raise DataError(f"{seen.name}: --interactions {pair}: columns have numbers here, not names")
    names = [column.name for column in seen.columns if column.kind != DATE]
    dates = [column.name for column in seen.columns if column.kind == DATE]
    if dates:
        from ddol.streams.coding.dates import part_names

        names += [part for date in dates for part in part_names(date)]
    lost = [side for side in pair.split("*") if "*" in pair and names and side not in names]
    if lost:
        raise DataError(
            f"{seen.name}: --interactions {pair}: found no column {lost[0]!r}, expected "
            f"{one_of(names, lost[0])}"
        )


def doubts(encoding: Encoding, where: str) -> Iterator[str]:
    """Warnings about classes that may be measurements, and a column that may be the number of its row.

    Examples
    --------
    >>> list(doubts(Encoding(classes=(0.0, 1.0)), "a.csv"))
    []
    >>> next(doubts(Encoding(classes=tuple(map(float, range(72)))), "a.csv"))
    'a.csv: found 72 classes (0, 1, 2, …); if they are measurements, use --loss squared; ...
    """
    if encoding.classes is not None and len(encoding.classes) > MANY_CLASSES:
        yield (
            f"{where}: found {len(encoding.classes)} classes ({listed(encoding.classes, 3)}); if they are "
            "measurements, use --loss squared; if another column is the label, name it with --label"
        )
    if any(column.name == "" for column in encoding.columns or ()):
        yield (
            f"{where}: a column without a name is learned from like others; if it is the number of the "
            "row, leave it out with --drop ''"
        )


def _shape(
    block: Raw, hints: SchemaHints, where: str
) -> tuple[tuple[Column, ...] | None, str | None, str | None]:
    """Columns, label and weight of a block."""
    if not isinstance(block, Table):
        for option in ("drop", "dates", "text", "number"):
            if getattr(hints.reading, option):
                raise DataError(
                    f"{where}: --{option} is for tables, whose columns have names; leave it out"
                )
        return None if isinstance(block, Rows) else (), None, None
    reading = hints.reading
    chosen = choose_columns(
        tuple(block.columns), reading.label, reading.weight, where, reading.drop
    )
    label = chosen.names[chosen.label]
    weight = None if chosen.weight is None else chosen.names[chosen.weight]
    return _columns(block, hints, label, weight, where), label, weight


def _columns(
    block: Table, hints: SchemaHints, label: str | None, weight: str | None, where: str
) -> tuple[Column, ...]:
    kinds = hints.reading.kinds
    taken = {label, weight, *hints.reading.drop}
    found = []
    for name, cells in block.columns.items():
        if name in taken:
            continue
        kind = TEXT if isinstance(cells, Text) else NUMBER
        if isinstance(cells, Text) and name not in kinds:
            refuse_no_words(name, cells, where)
        found.append(Column(name, kinds.get(name, kind)))
    _refuse_one_feature_twice(found, where)
    return tuple(found)


def _refuse_one_feature_twice(columns: Sequence[Column], where: str) -> None:
    """Refuse a column that is called like a value of a text column beside it, such as ``town=Rome``."""
    begins = {f"{column.name}=": column.name for column in columns if column.kind == TEXT}
    for column in columns:
        start = column.name.partition("=")[0] + "="
        if start in begins and column.name.startswith(start):
            raise DataError(
                f"{where}: found a column {column.name!r} beside the text column {begins[start]!r}, whose "
                "values would be features of the same name; rename one, or leave it out with --drop"
            )


def refuse_no_words(name: str, cells: Text, where: str, advice: str | None = None) -> None:
    """Refuse dates, and numbers that are written with commas: as text, each would be a feature.

    Parameters
    ----------
    name, cells, where
        The column, and what messages call the table.
    advice
        What to do about dates; by default an option.
    """
    use = f"use --dates {name} for features of month, weekday and hour, or --drop {name}"
    values = [value.strip() for value in cells.values]
    dates = list(filter(re.compile(_DATE).fullmatch, values))
    if dates and len(dates) >= _NEARLY_ALL * len(values):
        raise DataError(
            f"{where}: column {name!r}: found dates such as {dates[0]!r}, expected numbers or "
            f"text; {advice or use}"
        )
    with_comma = [value for value in values if "," in value]
    if len(with_comma) >= _FEW and all(map(re.compile(_COMMAS).fullmatch, values)):
        raise DataError(
            f"{where}: column {name!r}: found numbers such as {with_comma[0]!r}, expected them with a "
            f"decimal point and without other marks; write them so, or use --drop {name}"
        )


def _wider(one: Column, other: Column) -> Column:
    return one if one.kind == other.kind else Column(one.name, TEXT)


def _labels_in(cells: Cells) -> set[Label]:
    """Distinct labels of a block."""
    if isinstance(cells, Text):
        return {cells.values[code] for code in np.unique(cells.codes[cells.codes >= 0]).tolist()}
    numbers = np.asarray(cells, np.float64)
    return set(joined(np.empty(0), numbers[~np.isnan(numbers)])[: MOST_LABELS + 1].tolist())


def _ordered(labels: set[Label]) -> tuple[Label, ...]:
    mixed = len({isinstance(label, str) for label in labels}) > 1
    return tuple(sorted(labels, key=str) if mixed else sorted(labels))


def _classes(
    streams: Sequence[Stream],
    hints: SchemaHints,
    samples: Sequence[SchemaSample],
    gather: Callable[[list[Any]], list[Any]],
) -> tuple[Label, ...]:
    if hints.reading.labels is not None:
        return checked_classes(hints.reading.labels, "--labels")
    found = _ordered({label for each in samples for label in each.labels})
    where = samples[0].name
    if not found:
        raise DataError(f"{where}: found examples without labels, expected one for each")
    refuse_quantities(found, where)
    aliases = dict(hints.reading.aliases)
    sites = [(seen.name, seen.labels) for seen in samples]
    if len(found) > 2 and not (hints.two_classes and not hints.sites):
        sites = gather([_all_labels(stream, samples[0].label, aliases) for stream in streams])
        found = _ordered({label for _, labels in sites for label in labels})
    if hints.sites or (len(sites) > 1 and len(found) > 2):
        check_labels(sites)
    check_spellings(found, where)
    if len(found) > 2 and hints.two_classes:
        raise DataError(
            f"{where}: found {len(found)} labels ({listed(found)}), expected two classes; "
            "use a multi-class algorithm, or a regression loss if they are quantities"
        )
    return checked_classes(found, where)


def refuse_quantities(labels: Sequence[Label], where: str) -> None:
    """Refuse more than two labels that are not whole numbers: they are measurements.

    Examples
    --------
    >>> refuse_quantities((0.5, 1.5), "a.csv")
    >>> refuse_quantities((0.5, 1.0, 2.25), "a.csv")
    Traceback (most recent call last):
    ...
    ddol.streams.errors.DataError: a.csv: found labels such as 0.5 and 1, expected classes as whole ...
    """
    numbers = [label for label in labels if not isinstance(label, str)]
    if len(numbers) > 2 and any(label != round(label) for label in numbers):
        raise DataError(
            f"{where}: found labels such as {numbers[0]:g} and {numbers[1]:g}, expected classes as "
            "whole numbers or text; for quantities use a regression loss, such as --loss squared; if "
            "another column is the label, name it with --label"
        )


def _all_labels(
    stream: Stream, label: str | None, aliases: Mapping[str, str]
) -> tuple[str, tuple[Label, ...]]:
    """Name and all labels of a stream: with more than two in sight all must be known."""
    if not stream.restartable:
        raise DataError(
            f"{stream.describe()}: found more than two classes, expected to know all of them "
            "beforehand; name them with --labels"
        )
    found = checked_classes_of(stream, label)
    return stream.describe(), _ordered({mapped_label(each, aliases) for each in found})


def checked_classes_of(stream: Stream, label: str | None) -> tuple[Label, ...]:
    """All labels of a stream, or an error where there are too many to be classes."""
    found = scan(stream, label).labels
    return checked_classes(None, stream.describe()) if found is None else found
