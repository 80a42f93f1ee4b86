"""From the data as they are to streams that an algorithm can learn from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.cli.algorithms import two_classes_only
from ddol.cli.glance import LONG_RUN, Glance, glance
from ddol.cli.limited import LimitedStream, ReadAhead
from ddol.cli.options import DataOptions
from ddol.cli.sources import open_sources, own_seed, spooled
from ddol.model import Reading
from ddol.storage import Warn
from ddol.streams.arrays import RowsStream
from ddol.streams.errors import DataError
from ddol.streams.hashing import hashed
from ddol.streams.labels import Labels, binary_labels, class_labels, labelled
from ddol.streams.mapped import with_intercept
from ddol.streams.parallel import ParallelStream, ParsingPool
from ddol.streams.shuffle import ShuffledStream
from ddol.streams.stream import Stream
from ddol.streams.stumps import Stumps, fit_stumps
from ddol.streams.summary import scan

_MOST_DEFAULT_EXPERTS = 10_000
_SHUFFLE_BYTES = 48 << 20
_MOST_AHEAD = 8
"""Pieces of a stream that each worker parses before all of them learn."""


@dataclass(frozen=True)
class Facts:
    """What must be known of the data before round 1.

    Parameters
    ----------
    classes : tuple of float or None
        Labels in rising order; None for regression.
    n_features : int or None
        Columns of the data; None where they may become more.
    stumps : Stumps or None
        Experts that were fitted to the data.
    """

    classes: tuple[float, ...] | None = None
    n_features: int | None = None
    stumps: Stumps | None = None

    def saved(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Plain values and arrays for a checkpoint."""
        classes = None if self.classes is None else list(self.classes)
        plain = {"classes": classes, "n_features": self.n_features}
        return plain, {} if self.stumps is None else dict(vars(self.stumps))

    @classmethod
    def restored(cls, plain: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Facts:
        """The facts of a checkpoint."""
        classes = plain["classes"]
        return cls(
            None if classes is None else tuple(classes),
            plain["n_features"],
            Stumps(**arrays) if arrays else None,
        )


@dataclass(frozen=True)
class Prepared:
    """Streams that are ready to be dealt, and what they show.

    Parameters
    ----------
    sources : streams as they are read
    streams : the same, with labels encoded, shuffled, with an intercept or as experts' advice
    facts : Facts
    reading : Reading
    """

    sources: list[Stream]
    streams: list[Stream]
    facts: Facts
    reading: Reading

    @property
    def n_weights(self) -> int | None:
        """Weights per output, where they are known beforehand."""
        if self.facts.stumps is not None:
            return len(self.facts.stumps)
        known = self.reading.bits is not None or self.facts.n_features is not None
        return self.reading.width if known else None


@dataclass(frozen=True)
class Preparing:
    """All that decides how data are prepared.

    Parameters
    ----------
    options : DataOptions
    algorithm : Algorithm
        With its network; for two classes where it tells classes apart.
    passes, seed : int
    warn : function of one line
    own : agents whose streams this process reads, where there is one for each; None for all
    gather : function that joins the lists of all processes
    parsers : threads that parse, the one that learns included; None for one per core
    by_turns : whether all of them learn as well, and nobody parses meanwhile
    """

    options: DataOptions
    algorithm: Algorithm
    passes: int
    seed: int
    warn: Warn
    own: Sequence[int] | None = None
    gather: Callable[[list[Any]], list[Any]] = list
    parsers: int | None = None
    by_turns: bool = False

    def prepare(self, stack: ExitStack, known: Facts | None = None) -> Prepared:
        """Open the data, find out what must be known, and put the streams together.

        Parameters
        ----------
        stack : ExitStack
            Removes temporary files when it is closed.
        known : Facts, optional
            Of a checkpoint, so that nothing is looked at twice.
        """
        options, algorithm = self.options, self.algorithm
        if options.from_stdin and self._looks_twice:
            options = spooled(options, stack)
        regression = not algorithm.classification
        sources = open_sources(options, algorithm.n_agents, regression, self.own)
        parts = self._limited(sources)
        if known is None:
            parts = [part if part.restartable else ReadAhead(part) for part in parts]
            known = self._find_out(parts)
        bits = self.options.bits
        intercept = self.options.intercept and not algorithm.update.experts
        reading = Reading(known.n_features or 0, intercept, bits)
        pool = ParsingPool(self.parsers)
        streams = [
            self._assembled(part, k, len(parts), known, pool) for k, part in enumerate(parts)
        ]
        return Prepared(sources, streams, known, reading)

    @property
    def _needs_width(self) -> bool:
        """Whether the start depends on the number of features, and nobody has said it."""
        given = self.options.features or self.options.bits
        return not self.algorithm.update.grows and not given

    @property
    def _looks_twice(self) -> bool:
        return self.passes > 1 or self.algorithm.update.experts or self._needs_width

    def _limited(self, sources: Sequence[Stream]) -> list[Stream]:
        limit, n = self.options.limit, len(sources)
        if limit is None:
            return list(sources)
        shares = [limit // n + (k < limit % n) for k in range(n)]
        if min(shares) < 1:
            raise DataError(f"--limit: found {limit} for {n} streams, expected one row of each")
        return [LimitedStream(s, share) for s, share in zip(sources, shares, strict=True)]

    def _find_out(self, parts: Sequence[Stream]) -> Facts:
        # Experts are fitted to all data, so there every process must have them.
        if self.own is not None and len(parts) > 1 and not self.algorithm.update.experts:
            parts = [parts[k] for k in self.own]
        glances = self._glances(parts)
        classes = None
        if self.algorithm.classification:
            classes = self._classes(parts, self.gather(glances))
            self._warn_of_long_runs(parts, glances)
        width = self.options.features
        if self.algorithm.update.experts or self._needs_width:
            known = [part.n_features or scan(part).n_features for part in parts]
            width = width or max(self.gather(known))
        stumps = None
        if self.algorithm.update.experts:
            assert classes is not None
            stumps = self._stumps([labelled(part, Labels(classes)) for part in parts], width or 0)
        return Facts(classes, width, stumps)

    def _glances(self, parts: Sequence[Stream]) -> list[Glance]:
        n_agents = self.algorithm.n_agents
        least = n_agents if len(parts) == 1 else 1
        found = []
        for part in parts:
            kept = isinstance(part, ReadAhead)
            blocks = part.look() if isinstance(part, ReadAhead) else part.read()
            found.append(glance(blocks, least, part.describe(), kept))
        if found[0].rows < least:
            raise DataError(
                f"{parts[0].describe()}: found {found[0].rows} examples for {n_agents} agents, "
                f"expected at least one for each; use --agents {max(1, found[0].rows)}"
            )
        return found

    def _classes(self, parts: Sequence[Stream], glances: Sequence[Glance]) -> tuple[float, ...]:
        if self.options.labels is not None:
            return class_labels(self.options.labels, "--labels").values
        found = sorted({label for one in glances for label in one.labels})
        where = parts[0].describe()
        if len(found) > 2 and any(label != round(label) for label in found):
            raise DataError(
                f"{where}: found labels such as {found[0]:g} and {found[1]:g}, expected classes as "
                "whole numbers; for quantities use a regression loss, such as --loss squared"
            )
        if two_classes_only(self.algorithm):
            return binary_labels(found, where).values
        if len(found) > 2:
            return self._all_classes(parts)
        return class_labels(found, where).values

    def _all_classes(self, parts: Sequence[Stream]) -> tuple[float, ...]:
        """With more than two classes in sight all must be known, so all the data are looked at."""
        labels: set[float] = set()
        for part in parts:
            if not part.restartable:
                raise DataError(
                    f"{part.describe()}: found more than two classes, expected to know all of them "
                    "beforehand; name them with --labels"
                )
            seen = scan(part).labels
            labels |= set(class_labels(seen, part.describe()).values if seen is None else seen)
        labels = set(self.gather(sorted(labels)))
        return class_labels(sorted(labels), parts[0].describe()).values

    def _warn_of_long_runs(self, parts: Sequence[Stream], glances: Sequence[Glance]) -> None:
        for part, seen in zip(parts, glances, strict=True):
            if seen.run >= LONG_RUN and not self.options.shuffle:
                self.warn(
                    f"{part.describe()}: the first {seen.run:,} rows have the label "
                    f"{seen.first:g} only; an online learner forgets what it has not seen for "
                    "long, so shuffle the file, or use --shuffle"
                )

    def _stumps(self, streams: Sequence[Stream], n_features: int) -> Stumps:
        if self.options.experts is None and n_features > _MOST_DEFAULT_EXPERTS:
            raise DataError(
                f"found {n_features} features, one expert for each is too many; "
                "say how many with --experts"
            )
        return fit_stumps(streams, self.options.experts, self.seed)

    def _assembled(
        self, part: Stream, number: int, n_parts: int, known: Facts, pool: ParsingPool
    ) -> Stream:
        stream = part
        if known.classes is not None:
            stream = labelled(stream, Labels(known.classes))
        if self.options.shuffle:
            seed = own_seed(self.seed, number, n_parts)
            memory = max(1 << 20, _SHUFFLE_BYTES // n_parts)
            stream = ShuffledStream(self._parallel(stream, n_parts, pool), seed, memory)
        if known.stumps is not None:
            return known.stumps.stream(stream)
        if self.options.bits is not None:
            stream = hashed(stream, self.options.bits)
        if self.options.intercept:
            stream = with_intercept(stream)
        return stream if self.options.shuffle else self._parallel(stream, n_parts, pool)

    def _parallel(self, stream: Stream, n_parts: int, pool: ParsingPool) -> Stream:
        if isinstance(stream, RowsStream):
            return stream
        ahead = _MOST_AHEAD * pool.workers if self.by_turns else None
        return ParallelStream(stream, pool, ahead if n_parts == 1 else 2, self.by_turns)
