"""The files, the pipe or the built-in data set that a command reads."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path, PurePath

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.faults import check_dense
from ddol.job.options import DataOptions
from ddol.streams import over
from ddol.streams.arrays import RowsStream, array_stream
from ddol.streams.dealing import contiguous
from ddol.streams.errors import DataError
from ddol.streams.formats import format_of
from ddol.streams.open import expand, files_in, open_stream, open_streams, partition_name
from ddol.streams.store.files import STDIN, is_remote, open_bytes, read_once, read_range, size_of
from ddol.streams.stream import Stream

_PIECE, _PIECES = 1 << 16, 1024
_FIRST = "what stands first in a line"
_LABEL_IN_ITS_PLACE = {
    "libsvm": _FIRST,
    "named": _FIRST,
    "vw": _FIRST,
    "npz": "the array y",
    "built-in": "known",
}
"""Formats whose label has no name."""


def open_sources(
    options: DataOptions,
    n_agents: int,
    regression: bool,
    own: Sequence[int] | None = None,
    kinds: Mapping[str, str] | None = None,
) -> list[Stream]:
    """One stream to deal round-robin, or one for each agent; a built-in data set without files.

    Parameters
    ----------
    options : DataOptions
    n_agents : int
    regression : bool
        Which built-in data set to take.
    own : agents whose files are read by this process; None for all
    kinds : kind of every column of a table, where an encoding knows it
    """
    if options.answers is not None:
        return [_answered(options, n_agents, kinds)]
    streams = _opened(options, n_agents, regression, own, kinds)
    if options.deal == "contiguous" and len(streams) == 1 and n_agents > 1:
        return contiguous(streams[0], n_agents)
    return streams


def _opened(
    options: DataOptions,
    n_agents: int,
    regression: bool,
    own: Sequence[int] | None,
    kinds: Mapping[str, str] | None,
) -> list[Stream]:
    _check_label(options)
    if not options.data:
        return [built_in(regression)]
    paths = expand(options.data)
    if STDIN in paths and len(paths) > 1:
        raise DataError("found standard input (-) among files, expected it alone; use cat a b | …")
    if len(paths) not in (1, n_agents) and options.deal == "round-robin":
        raise DataError(
            f"found {len(paths)} files for {n_agents} agents, expected one file, which is dealt "
            f"round-robin, or one for each agent; use --agents {len(paths)}, or --deal contiguous, which "
            "cuts them into as many parts as there are agents"
        )
    return open_streams(paths, n_agents, replace(options, known=kinds), own)


def _check_label(options: DataOptions) -> None:
    """Refuse a name for the label of what has its label in one place only."""
    if options.label is None:
        return
    for path in options.data or ("the built-in data",):
        name = (options.format or format_of(path)) if options.data else "built-in"
        if name in _LABEL_IN_ITS_PLACE and not path.endswith("/"):
            raise DataError(
                f"{path}: --label {options.label} is for tables; here the label is "
                f"{_LABEL_IN_ITS_PLACE[name]}; leave it out, or name the --format"
            )


def _answered(options: DataOptions, n_agents: int, kinds: Mapping[str, str] | None) -> Stream:
    """One stream of examples, several files one after the other, with the labels of another file."""
    assert options.answers is not None
    if options.id is None:
        raise DataError(
            "--answers needs --id NAME, the column by which examples and labels are joined"
        )
    if not options.data:
        raise DataError("--answers needs files of examples, which the built-in data are not")
    paths, asked = expand(options.data), replace(options, known=kinds)
    # A file of labels with an extension of its own is what that says; else it is like the examples.
    own = format_of(options.answers)
    like = options.format or format_of(paths[0])
    answers = open_stream(options.answers, replace(asked, format=like if own == "libsvm" else own))
    stream = open_stream(paths, asked)
    return over.AnsweredStream(stream, answers, options.id, options.label, n_agents)


def given_streams(options: DataOptions, algorithm: Algorithm, checked: bool) -> list[Stream]:
    """Streams from Python objects: one to deal round-robin, or one for each agent.

    Parameters
    ----------
    options : DataOptions
    algorithm : Algorithm
        With its network.
    checked : bool
        Refuse features that are not finite now, and not when they have been learned from.
    """
    from ddol.streams.sources import as_streams  # data frames, which files need not

    found = as_streams(options.data, checked and not algorithm.update.experts, algorithm.n_agents)
    widths = sorted({s.n_features for s in found if s.n_features is not None})
    if len(widths) > 1 and all(isinstance(stream, RowsStream) for stream in found):
        raise DataError(
            f"found streams with {widths[0]} and {widths[-1]} features, expected the same number; "
            "give every agent the same columns"
        )
    if algorithm.classification and options.advised:
        check_dense(algorithm, found)
    if options.deal == "contiguous" and len(found) == 1 and algorithm.n_agents > 1:
        return contiguous(found[0], algorithm.n_agents)
    return found


def in_columns(options: DataOptions) -> DataOptions:
    """Options of arrays in which something must be encoded, as text must, with the arrays as tables."""
    from ddol.streams.sources import in_tables

    found = in_tables(options.data, options.missing != "error" or bool(options.labels_map))
    if found is None:
        return options
    streams, label, weight = found
    return replace(options, data=streams, label=label, weight=weight)


def spooled(options: DataOptions, stack: ExitStack) -> DataOptions:
    """Copy what can be read once only to temporary files, which can be read again."""
    import tempfile  # only for what comes through a pipe

    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ddol-"))
    copies = tuple(_spool(path, options, folder) for path in options.data)
    stack.enter_context(_called(dict(zip(copies, options.data, strict=True))))
    return replace(options, data=copies)


@contextmanager
def _called(names: Mapping[str, str]) -> Iterator[None]:
    """Name the original in errors about its copy."""
    try:
        yield
    except DataError as error:
        text = str(error)
        for copy, given in names.items():
            text = text.replace(copy, "standard input" if given == STDIN else given)
        raise DataError(text) from error


def _spool(path: str, options: DataOptions, folder: str) -> str:
    if not read_once(path):
        return path
    import shutil

    name = "standard-input" if path == STDIN else Path(path).name
    copy = Path(folder, f"{name}.{options.format or format_of(path)}")
    with copy.open("wb") as file:
        shutil.copyfileobj(open_bytes(path), file, 1 << 20)
    return str(copy)


def built_in(regression: bool) -> RowsStream:
    """A real data set that is always there, its features scaled to [−1, 1].

    Examples
    --------
    >>> built_in(regression=False).n_examples
    569
    """
    from sklearn.datasets import load_breast_cancer, load_diabetes

    X, y = (load_diabetes if regression else load_breast_cancer)(return_X_y=True)
    least, largest = X.min(axis=0), X.max(axis=0)
    name = "diabetes" if regression else "breast cancer"
    return array_stream(2.0 * (X - least) / (largest - least) - 1.0, y, name=f"built-in {name}")


def fingerprint(options: DataOptions) -> list[str]:
    """Fingerprint of the data of a run: size and contents of every file.

    Names and dates are left out: a copy of the files is as good. Files of up to 64 MB are read whole, and
    1,024 pieces of larger ones, with both ends; of a file in a store, which is far away, both ends only.
    """
    if not options.in_files:
        return []
    if not options.data:
        return ["built-in"]
    return ["; ".join(map(_contents, _files_of(path))) for path in expand(options.data)]


def recording_mark(options: DataOptions, seed: int) -> str:
    """Fingerprint of the rows of a recording, in their order.

    There is none for what is read once, or where other hosts have some of the files.

    Examples
    --------
    >>> recording_mark(DataOptions(), 1) == recording_mark(DataOptions(), 2)
    True
    """
    if not options.in_files:
        return ""
    paths = expand(options.data) if options.data else []
    files = [file for path in paths for file in _files_of(path)]
    if options.from_stdin or any(size_of(file) is None for file in files):
        return ""
    order = [str(seed)] if options.shuffle else []
    return blake2b("\n".join(fingerprint(options) + order).encode(), digest_size=8).hexdigest()


def _files_of(path: str) -> list[str]:
    """Files that a name or pattern stands for; the folder of an agent on another host may be absent here."""
    here = not path.endswith("/") or is_remote(path) or Path(path).is_dir()
    return files_in(path) if here else [path]


def _contents(path: str) -> str:
    size = size_of(path)
    if size is None:
        return PurePath(path).name
    found, last, pieces = 0, 0, 2 if is_remote(path) else _PIECES
    for place in range(pieces):
        first = max(place * max(size - _PIECE, 0) // (pieces - 1), last)
        last = min(first + _PIECE, size)
        found = zlib.crc32(read_range(path, first, last) if first < last else b"", found)
    return f"{size} bytes with checksum {found:08x}"


def own_seed(seed: int, stream: int, n_streams: int) -> int:
    """Seed of one of several streams, so that they are not all shuffled alike."""
    if n_streams == 1:
        return seed
    return int(np.random.SeedSequence([seed, stream]).generate_state(1)[0])


def site_names(options: DataOptions, n_agents: int) -> tuple[str, ...]:
    """Names of the agents where each has a file of its own: those of the files.

    Examples
    --------
    >>> site_names(DataOptions(("a/bern.csv.gz", "a/lyon.csv.gz")), 2)
    ('bern', 'lyon')
    """
    paths = expand(options.data) if options.in_files and options.data else []
    if len(paths) != n_agents or n_agents == 1 or options.answers is not None:
        return ()
    names = [partition_name(path) for path in paths]
    return tuple(names if len(set(names)) == len(names) else paths)
