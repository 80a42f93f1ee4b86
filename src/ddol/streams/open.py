"""One door to all sources: files by their endings, arrays, streams."""

from __future__ import annotations

import glob
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ddol.streams.arrays import array_stream
from ddol.streams.compression import ENDINGS
from ddol.streams.errors import DataError
from ddol.streams.files import STDIN, check_readable
from ddol.streams.libsvm import LibsvmStream
from ddol.streams.stream import Stream
from ddol.streams.text import CHUNK_BYTES

_MOST_CHUNKS = 8  # together, at the size of one
_LEAST_CHUNK = 64 << 10
_ENDINGS = {
    "": "libsvm",
    ".libsvm": "libsvm",
    ".svm": "libsvm",
    ".txt": "libsvm",
    ".dat": "libsvm",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".npy": "npy",
    ".npz": "npz",
}


@dataclass(frozen=True)
class ReadOptions:
    """How files are read; what a format has no use for is left alone.

    Parameters
    ----------
    format
        ``libsvm``, ``csv``, ``tsv``, ``parquet``, ``npy`` or ``npz``; by default the file's
        ending decides.
    index_base, n_features, on_bad_line, keep
        Of LIBSVM text; see `LibsvmStream`.
    label, weight
        Name or number of these columns of a table; see `choose_columns`.
    header, delimiter
        Of CSV text; see `CsvStream`.
    chunk_bytes
        Text that is read at a time.
    """

    format: str | None = None
    index_base: int = 1
    n_features: int | None = None
    on_bad_line: Literal["error", "skip"] = "error"
    keep: tuple[int, int, int] | None = None
    label: str | int | None = None
    weight: str | int | None = None
    header: bool | None = None
    delimiter: str | None = None
    chunk_bytes: int = CHUNK_BYTES


def open_streams(
    source: Any,
    n_agents: int = 1,
    options: ReadOptions | None = None,
    own: Sequence[int] | None = None,
) -> list[Stream]:
    """Streams for `n_agents` agents: one to deal round-robin, or one for each agent.

    Parameters
    ----------
    source
        A file name or pattern, several of them, ``-`` for standard input, a pair ``(X, y)``
        of arrays, a stream, or a sequence of pairs or streams. As many files as agents are
        one stream each; otherwise files are read one after the other, as one stream.
    n_agents
        Number of agents.
    options
        How files are read.
    own
        Agents whose files are read here; those of others need not be on this machine.

    Examples
    --------
    >>> import numpy as np
    >>> [stream.n_examples for stream in open_streams((np.eye(3), [0, 1, 1]), n_agents=2)]
    [3]
    """
    if isinstance(source, (str, Path)):
        source = [source]
    if _is_pair(source):
        return [array_stream(*source)]
    if hasattr(source, "read"):
        return [source]
    if not all(isinstance(item, (str, Path)) for item in source):
        return [array_stream(*item) if _is_pair(item) else item for item in source]
    paths = expand(source)
    options = options or ReadOptions()
    if len(paths) == n_agents > 1:
        # All are read at the same time, so each gets its share of the memory.
        affordable = max(_LEAST_CHUNK, _MOST_CHUNKS * options.chunk_bytes // len(paths))
        chunk_bytes = min(options.chunk_bytes, affordable)
        options = replace(options, chunk_bytes=chunk_bytes)
        here = range(n_agents) if own is None else own
        return [open_stream([path], options, k in here) for k, path in enumerate(paths)]
    return [open_stream(paths, options)]


def open_stream(
    paths: str | Path | Sequence[str | Path],
    options: ReadOptions | None = None,
    check: bool = True,
) -> Stream:
    """One stream over a file, or over several that are read one after the other.

    Parameters
    ----------
    paths
        File names or patterns of one format; ``-`` is standard input.
    options
        How they are read.
    check
        Whether to make sure that they are there and can be read.
    """
    names = expand([paths] if isinstance(paths, (str, Path)) else paths)
    options = options or ReadOptions()
    formats = {options.format or format_of(name) for name in names}
    if len(formats) > 1:
        raise DataError(
            f"{names[0]}: found files of several formats ({', '.join(sorted(formats))}), expected "
            "one; read them one by one"
        )
    kind = formats.pop()
    if kind not in _OPENERS:
        raise DataError(
            f"{names[0]}: found the format {kind!r}, expected one of {', '.join(_OPENERS)}; "
            "state the format"
        )
    for name in names if check else ():
        check_readable(name)
    return _OPENERS[kind](tuple(names), options)


def format_of(path: str) -> str:
    """Format that the ending of a file name stands for, compression aside.

    Examples
    --------
    >>> format_of("a/train.csv.gz"), format_of("cod-rna.bz2"), format_of("-")
    ('csv', 'libsvm', 'libsvm')
    """
    name = Path(path).name
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    # Names such as covtype.libsvm.binary.scale have endings that mean something else.
    endings = [suffix.lower() for suffix in Path(name).suffixes] or [""]
    known = [_ENDINGS[ending] for ending in endings if ending in _ENDINGS]
    return known[-1] if known else "libsvm"


def expand(paths: Sequence[str | Path]) -> list[str]:
    """File names, with patterns such as ``part-*.csv`` replaced by what they match, sorted."""
    names: list[str] = []
    for path in map(str, paths):
        if path != STDIN and not Path(path).exists() and glob.has_magic(path):
            names += sorted(glob.glob(path)) or [path]  # noqa: PTH207
        else:
            names.append(path)
    if not names:
        raise DataError("found no files, expected at least one; name a file")
    return names


def _libsvm(paths: tuple[str, ...], options: ReadOptions) -> Stream:
    return LibsvmStream(
        paths,
        index_base=options.index_base,
        n_features=options.n_features,
        on_bad_line=options.on_bad_line,
        keep=options.keep,
        chunk_bytes=options.chunk_bytes,
    )


def _csv(paths: tuple[str, ...], options: ReadOptions, delimiter: str = ",") -> Stream:
    from ddol.streams.tables import CsvStream

    return CsvStream(
        paths,
        label=options.label,
        weight=options.weight,
        header=options.header,
        delimiter=options.delimiter or delimiter,
        chunk_bytes=options.chunk_bytes,
    )


def _tsv(paths: tuple[str, ...], options: ReadOptions) -> Stream:
    return _csv(paths, options, "\t")


def _parquet(paths: tuple[str, ...], options: ReadOptions) -> Stream:
    from ddol.streams.parquet import ParquetStream

    return ParquetStream(paths, label=options.label, weight=options.weight)


def _npy(paths: tuple[str, ...], options: ReadOptions) -> Stream:
    from ddol.streams.numpy_files import NpyStream

    return _chain([NpyStream(path, options.label, options.weight) for path in paths])


def _npz(paths: tuple[str, ...], options: ReadOptions) -> Stream:
    from ddol.streams.numpy_files import read_npz

    return _chain([read_npz(path) for path in paths])


def _chain(streams: Sequence[Stream]) -> Stream:
    from ddol.streams.chained import ChainedStream

    return streams[0] if len(streams) == 1 else ChainedStream(tuple(streams))


def _is_pair(source: Any) -> bool:
    return (
        isinstance(source, tuple)
        and len(source) == 2
        and not any(isinstance(part, (str, Path)) or hasattr(part, "read") for part in source)
        and not _is_pair(source[0])
    )


_OPENERS: dict[str, Callable[[tuple[str, ...], ReadOptions], Stream]] = {
    "libsvm": _libsvm,
    "csv": _csv,
    "tsv": _tsv,
    "parquet": _parquet,
    "npy": _npy,
    "npz": _npz,
}
