"""The formats of files: what each is called, how its files end, and who opens them.

A format is a module with a function ``(paths, options) -> Stream`` and a line in `FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import PurePath
from typing import Literal, cast

from ddol.streams.errors import DataError
from ddol.streams.store.chunks import CHUNK_BYTES
from ddol.streams.store.compression import ENDINGS
from ddol.streams.stream import Stream


@dataclass(frozen=True)
class ReadOptions:
    """How files are read; what a format has no use for is left alone.

    Parameters
    ----------
    format
        A name in `FORMATS`; by default the file's ending decides.
    on_bad_line
        ``"error"`` stops at the first line that cannot be read; ``"skip"`` leaves such lines out.
    chunk_bytes
        Text that is read at a time.
    index_base, n_features, keep
        Of LIBSVM text; see `LibsvmStream`.
    labelled
        Whether lines of LIBSVM, VW and named text begin with a label; None where it depends on each.
    label, weight
        Name or number of these columns of a table.
    kinds
        Columns of a table that are known to be ``"number"`` or ``"text"``.
    columns, drop
        Columns of a Parquet file that are needed, all if not given, and those that may hold anything.
    header, delimiter
        Of CSV text; see `CsvFormat`.

    Examples
    --------
    >>> ReadOptions(format="csv", label="outcome", on_bad_line="skip").label
    'outcome'
    """

    format: str | None = None
    on_bad_line: Literal["error", "skip"] = "error"
    chunk_bytes: int = CHUNK_BYTES
    index_base: int = 1
    n_features: int | None = None
    keep: tuple[int, int, int] | None = None
    labelled: bool | None = None
    label: str | int | None = None
    weight: str | int | None = None
    kinds: Mapping[str, str] | None = None
    columns: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    header: bool | None = None
    delimiter: str | None = None


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
