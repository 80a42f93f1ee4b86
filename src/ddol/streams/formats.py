"""How files are read: the options of a user, which every reader has, and the formats by name.

A format is a module with a function ``(paths, options) -> Stream`` and a line in `FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path, PurePath
from typing import Annotated, Literal, cast

from ddol.parameters import Bounds, Count, declared
from ddol.streams.errors import DataError
from ddol.streams.store.compression import ENDINGS
from ddol.streams.store.files import CHUNK_BYTES
from ddol.streams.stream import Stream


def format_names() -> list[str]:
    """Names of the file formats."""
    return list(FORMATS)


def is_pair_of_features(text: str) -> bool:
    """Whether a text names two namespaces by their first letters, or two columns.

    Examples
    --------
    >>> is_pair_of_features("ab"), is_pair_of_features("town*age"), is_pair_of_features("a.csv")
    (True, True, False)
    """
    sides = text.split("*")
    return (len(sides) == 2 and all(sides)) or (len(sides) == 1 and len(text) == 2)


def pair_of_features(text: str) -> str:
    """Two namespaces or two columns of an interaction; others are refused."""
    if is_pair_of_features(text):
        return text
    raise ValueError(
        f"--interactions: found {text!r}, expected the first letters of two namespaces, such as ab, or "
        "two columns, such as town*age"
    )


def listed_labels(text: str) -> tuple[float | str, ...]:
    """Labels that were named with commas between them: numbers if all of them are."""
    words = [word.strip() for word in text.split(",")]
    try:
        return tuple(float(word) for word in words)
    except ValueError:
        return tuple(words)


def spellings_of(text: str) -> tuple[tuple[str, str], ...]:
    """Other spellings of labels, each with the label: of ``no=No,0``, or of a file of such lines.

    Examples
    --------
    >>> spellings_of("no=No,0")
    (('No', 'no'), ('0', 'no'))
    """
    lines, where = [text], f"--labels-map {text}"
    if "=" not in text or Path(text).is_file():
        try:
            lines = Path(text).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(
                f"{where}: {getattr(error, 'strerror', None) or error}; expected no=No,0 or a file of such "
                "lines"
            ) from None
    pairs: list[tuple[str, str]] = []
    for number, line in enumerate(lines, start=1):
        label, mark, others = line.partition("=")
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        words = [word.strip() for word in others.split(",")]
        if not mark or not label.strip() or not all(words):
            raise ValueError(f"{where}:{number}: found {line!r}, expected a line such as no=No,0")
        pairs += [(word, label.strip()) for word in words]
    return tuple(pairs)


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How files are read, and what their columns are; what a format has no use for is left alone.

    Parameters
    ----------
    columns : pairs of name and kind, optional
        Of a schema that was agreed on before.
    optional : tuple of str
        Columns of it that a file may lack.
    known : dict, optional
        Kinds of columns by name, where an encoding knows them all.
    labelled : bool, optional
        Whether lines of LIBSVM, VW and named text begin with a label; None where it depends on each.
    chunk_bytes : int
        Text that is read at a time.

    Examples
    --------
    >>> ReadOptions(format="csv", label="outcome", on_bad_line="skip").label
    'outcome'
    """

    format: str | None = declared(
        None, "Format of the files; by default their extension decides.", names=format_names
    )
    header: bool | None = declared(
        None,
        "Whether the first line of CSV text is a header or an example.",
        shown="names if no cell is a number or comes again below, or one stands above a number",
    )
    label: str | None = declared(
        None,
        "Column of the label, by its name, or by its number from 0 (-1 is the last).",
        shown="label, y or target in any case, else the first column",
    )
    labels: tuple[float | str, ...] | None = declared(
        None,
        "All labels, if the first examples do not show them all.",
        metavar="a,b",
        read=listed_labels,
    )
    labels_map: tuple[str, ...] = declared(
        (),
        "Other spellings of a label, such as no=No,0; or a file of such lines; may be repeated.",
        metavar="no=No,0",
        many=True,
    )
    drop: tuple[str, ...] = declared((), "Leave a column out; may be repeated.", many=True)
    text: tuple[str, ...] = declared(
        (), "Take a column as text: a feature for each value; may be repeated.", many=True
    )
    number: tuple[str, ...] = declared(
        (), "Take a column as numbers: other cells are bad lines; may be repeated.", many=True
    )
    dates: tuple[str, ...] = declared(
        (),
        "Take a column as dates or times (2024-03-31, 2024-03-31T14:05, seconds since 1970): features for "
        "the trend in years, the month, the weekday and the hour; may be repeated.",
        many=True,
    )
    weight: str | None = declared(
        None, "Column of example weights; for LIBSVM text a file with a number in each line."
    )
    missing: Literal["error", "zero", "mean"] = declared(
        "error",
        "A missing value (empty, NA, ?, null): error: stop there; zero: it is 0; mean: it is the "
        "column's mean so far.",
    )
    features: Count | None = declared(None, "Number of features, if known.", metavar="D")
    zero_based: bool = declared(False, "LIBSVM indices begin at 0, not 1.")
    bits: Annotated[int, Bounds(least=1, most=31)] | None = declared(
        None, "Hash the features to 2^b columns.", metavar="b"
    )
    interactions: tuple[str, ...] = declared(
        (),
        "Add products of features, hashed: ab multiplies the namespaces that begin with a and b, "
        "NAME*NAME two columns; may be repeated.",
        metavar="ab",
        many=True,
        read=pair_of_features,
    )
    on_bad_line: Literal["stop", "skip"] = declared(
        "stop", "At a line that cannot be read: stop, or skip it and count it."
    )
    columns: tuple[tuple[str, str], ...] | None = None
    optional: tuple[str, ...] = ()
    known: Mapping[str, str] | None = None
    labelled: bool | None = None
    chunk_bytes: int = CHUNK_BYTES

    @property
    def kinds(self) -> Mapping[str, str]:
        """Kind of each column of which it is known, by name."""
        if self.known is not None:
            return self.known
        said = dict(self.columns or ())
        said |= dict.fromkeys(self.text, "text") | dict.fromkeys(self.number, "number")
        return said | dict.fromkeys(self.dates, "date")

    @property
    def aliases(self) -> tuple[tuple[str, str], ...]:
        """Other spellings of labels, each with the label that it stands for."""
        found: dict[str, str] = {}
        for other, label in (pair for text in self.labels_map for pair in spellings_of(text)):
            if found.setdefault(other, label) != label:
                raise ValueError(
                    f"--labels-map: found {other!r} for {found[other]!r} and for {label!r}, expected one "
                    "label; a map begins with the label and lists its other spellings: no=No,0"
                )
        return tuple(found.items())


Opener = Callable[[tuple[str, ...], ReadOptions], Stream]

FORMATS: dict[str, tuple[str, tuple[str, ...]]] = {
    "libsvm": ("ddol.streams.text.libsvm:open_libsvm", ("", ".libsvm", ".svm", ".txt", ".dat")),
    "named": ("ddol.streams.text.vw:open_named", (".named",)),
    "vw": ("ddol.streams.text.vw:open_vw", (".vw",)),
    "csv": ("ddol.streams.text.csv:open_csv", (".csv",)),
    "tsv": ("ddol.streams.text.csv:open_tsv", (".tsv", ".tab")),
    "jsonl": ("ddol.streams.text.json_lines:open_json_lines", (".jsonl", ".ndjson", ".json")),
    "parquet": ("ddol.streams.tables.parquet:open_parquet", (".parquet", ".pq")),
    "npy": ("ddol.streams.tables.numpy_files:open_npy", (".npy",)),
    "npz": ("ddol.streams.tables.numpy_files:open_npz", (".npz",)),
}
"""Module and function that open files of a format, and how they end."""


def format_of(path: str) -> str:
    """Format that the ending of a file name stands for, compression aside.

    Examples
    --------
    >>> format_of("a/train.csv.gz"), format_of("cod-rna.bz2"), format_of("-")
    ('csv', 'libsvm', 'libsvm')
    """
    name = PurePath(path).name
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    of_ending = {ending: name for name, (_, endings) in FORMATS.items() for ending in endings}
    # Names such as covtype.libsvm.binary.scale have endings that mean something else.
    endings = [suffix.lower() for suffix in PurePath(name).suffixes] or [""]
    known = [of_ending[ending] for ending in endings if ending in of_ending]
    return known[-1] if known else "libsvm"


def opener(name: str, where: str) -> Opener:
    """What opens files of a format.

    Parameters
    ----------
    name
        Of the format.
    where
        What messages call the file.
    """
    if name not in FORMATS:
        raise DataError(
            f"{where}: found the format {name!r}, expected one of {', '.join(FORMATS)}; "
            "state the format"
        )
    module, _, function = FORMATS[name][0].partition(":")
    return cast(Opener, getattr(import_module(module), function))
