"""Open data: files by their extensions, arrays, streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import unquote

from ddol.streams.arrays import array_stream
from ddol.streams.errors import DataError
from ddol.streams.formats import ReadOptions, format_of, opener
from ddol.streams.store.chunks import share_of_chunks
from ddol.streams.store.files import STDIN, check_readable, is_remote
from ddol.streams.stream import Stream


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
        of arrays, a data frame of polars, pandas or Dask, a ``ray.data.Dataset``, a stream, or a sequence of
        pairs or streams. As many files (or partitions of a frame) as agents are one stream each;
        otherwise they are read one after the other, as one stream.
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
    if not isinstance(source, list | tuple):
        from ddol.streams.tables.frames import frame_streams, is_frame

        if is_frame(source):
            return frame_streams(source, n_agents)
    if hasattr(source, "read"):
        return [source]
    if not all(isinstance(item, (str, Path)) for item in source):
        return [array_stream(*item) if _is_pair(item) else item for item in source]
    paths = expand(source)
    options = options or ReadOptions()
    if len(paths) == n_agents > 1:
        options = replace(options, chunk_bytes=share_of_chunks(options.chunk_bytes, len(paths)))
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

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "points.libsvm")
    >>> size = path.write_text("+1 1:0.5 3:2\\n-1 2:1\\n")
    >>> [block.y.tolist() for block, position in open_stream(path).read()]
    [[1.0, -1.0]]
    """
    given = expand([paths] if isinstance(paths, (str, Path)) else paths)
    names = [file for name in given for file in (files_in(name) if check else [name])]
    options = options or ReadOptions()
    formats = {options.format or format_of(name) for name in names}
    if len(formats) > 1:
        raise DataError(
            f"{names[0]}: found files of several formats ({', '.join(sorted(formats))}), expected "
            "one; read them one by one"
        )
    kind = formats.pop()
    for name in names if check else ():
        check_readable(name)
    return opener(kind, names[0])(tuple(names), options)


def expand(paths: Sequence[str | Path]) -> list[str]:
    """File names, with patterns such as ``part-*.csv`` replaced by what they match, sorted.

    A pattern may end with ``/``, such as ``events/site=*/``: then it stands for folders, and each of them
    for the files in it (see `files_in`).
    """
    names: list[str] = []
    for path in map(str, paths):
        names += _matching(path) or [path]
    if not names:
        raise DataError("found no files, expected at least one; name a file")
    return names


def _matching(path: str) -> list[str]:
    if path == STDIN or not any(mark in path for mark in "*?["):
        return []
    if is_remote(path):
        from ddol.streams.store.remote import matches

        return matches(path)
    if Path(path).exists() and not path.endswith("/"):
        return []
    import glob

    return sorted(glob.glob(path))  # noqa: PTH207


def files_in(path: str) -> list[str]:
    """Files of a folder and those below it, sorted, where a name ends with ``/``; else the name itself.

    Names that begin with ``_`` or ``.`` are notes of those who wrote the folder, and left out.
    """
    if not path.endswith("/"):
        return [path]
    if is_remote(path):
        from ddol.streams.store.remote import files_below

        found = files_below(path)
    else:
        found = [str(file) for file in sorted(Path(path).rglob("*")) if file.is_file()]
    files = [file for file in found if not _is_note(file.removeprefix(path))]
    if not files:
        raise DataError(
            f"{path}: found no files in it, expected some; check the name, remove the folder, or name the "
            "others"
        )
    return files


def _is_note(below: str) -> bool:
    return any(part[:1] in ("_", ".") for part in below.split("/"))


def partition_name(path: str) -> str:
    """What a file or a folder is called: the value of a partition ``site=bern/``, or its own name.

    Hive writes characters that no folder may have as ``%2F``.

    Examples
    --------
    >>> partition_name("s3://events/site=bern/"), partition_name("data/lyon.csv.gz")
    ('bern', 'lyon')
    >>> partition_name("events/site=north%2Fwest/")
    'north/west'
    """
    name = PurePath(path).name
    if path.endswith("/"):
        return unquote(name.partition("=")[2]) or name
    return name.partition(".")[0]


def _is_pair(source: Any) -> bool:
    return (
        isinstance(source, tuple)
        and len(source) == 2
        and not any(isinstance(part, (str, Path)) or hasattr(part, "read") for part in source)
        and not _is_pair(source[0])
    )
