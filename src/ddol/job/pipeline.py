"""From raw data to encoded streams that an algorithm can learn from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from ddol.algorithm import Algorithm
from ddol.job.algorithm import all_classes, two_classes_only
from ddol.job.options import DataOptions
from ddol.job.sources import given_streams, open_sources, own_seed, site_names, spooled
from ddol.storage import Warn
from ddol.streams import over
from ddol.streams.arrays import RowsStream
from ddol.streams.coding.differing import Difference, difference
from ddol.streams.coding.discovery import (
    SchemaHints,
    SchemaSample,
    doubts,
    learn_encoding,
    refuse_quantities,
    sample_schema,
)
from ddol.streams.coding.encoder import Encoder
from ddol.streams.coding.encoding import Encoding
from ddol.streams.coding.labels import distinct
from ddol.streams.coding.order import LabelOrder, first_block, order_of_beginning
from ddol.streams.coding.sites import check_labels, site_lines
from ddol.streams.coding.summary import scan
from ddol.streams.coding.units import UnitDoubt, UnitWatch, unit_doubts
from ddol.streams.errors import DataError
from ddol.streams.over.parallel import ParallelStream, ParsingPool
from ddol.streams.over.wrapped import mapped
from ddol.streams.raw import Table
from ddol.streams.store.files import is_remote
from ddol.streams.stream import Stream

if TYPE_CHECKING:
    from fractions import Fraction

    from ddol.job.balance import ClassWeights
    from ddol.streams.coding.stumps import Stumps

_REMEDIES = "shuffle the rows before, or set shuffle=True", "shuffle the file, or use --shuffle"
_MOST_DEFAULT_EXPERTS = 10_000
_OWN_UNITS = (
    "each keeps centres, scales and an intercept of its own (--units own; --units shared: the same)"
)
MOST_DOUBTS = 5
"""Columns in other units that are reported."""
_SHUFFLE_BYTES = 48 << 20
_MOST_AHEAD = 4
"""Pieces of a stream that each worker parses before all of them learn."""


_AS_LEARNED = Encoding(classes=(-1.0, 1.0))
"""Columns and labels stay as they are."""


@dataclass(frozen=True)
class Prepared:
    """Streams that are ready to be dealt, and how they came to be.

    Parameters
    ----------
    sources : streams as they are read
    streams : the same, encoded and shuffled
    encoder : Encoder
    filled : streams in which missing values are filled
    held : streams of which some examples are not learned from
    suspicions : warnings of rows that come in the order of their labels, and are not shuffled
    remedy : what to do about them
    summary : lines about each of several sites
    units : features that are in other units at one site from the beginning
    watch : UnitWatch or None
        Finds such features while the sites are read.
    unit_remedy : what to do about them
    """

    sources: list[Stream]
    streams: list[Stream]
    encoder: Encoder
    filled: list[over.FilledStream] = field(default_factory=list)
    held: list[over.HoldoutStream] = field(default_factory=list)
    suspicions: tuple[str, ...] = ()
    remedy: str = ""
    summary: tuple[str, ...] = ()
    units: tuple[UnitDoubt, ...] = ()
    watch: UnitWatch | None = None
    unit_remedy: str = ""

    @property
    def encoding(self) -> Encoding:
        """Names of columns, labels and sites, as far as they are known by now."""
        if not self.filled:
            return self.encoder.encoding
        means = over.joint_means([stream.latest for stream in self.filled])
        return replace(self.encoder.encoding, means=means)

    def join_means(self, gather: Callable[[list[Any]], list[Any]]) -> None:
        """Take over the means of streams that other processes have read; all processes call it.

        Every stream has means of its own, so that nothing has to be exchanged while they are read.
        """
        read = [(k, s.latest.to_json()) for k, s in enumerate(self.filled) if len(s.latest.sums)]
        for number, means in gather(read) if self.filled else ():
            self.filled[number].take_over(means)

    @property
    def in_memory(self) -> bool:
        """Whether there is nothing to read."""
        return all(isinstance(source, RowsStream) for source in self.sources)

    @property
    def n_weights(self) -> int | None:
        """Weights per output, where they are known beforehand."""
        return None if self.encoder.start.grows else self.encoder.start.width


@dataclass(frozen=True)
class Pipeline:
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
    readers : function of the number of outputs: how many threads parse while others learn, or 0, where all of
        them parse, then learn, by turns; None where one thread learns
    apart : whether processes read on their own, so that names must have their places beforehand
    checked : refuse arrays with features that are not finite now, and not when they were learned from
    decides : whether sites that differ keep centres and scales of their own, as nothing is said about it
    """

    options: DataOptions
    algorithm: Algorithm
    passes: int
    seed: int
    warn: Warn
    own: Sequence[int] | None = None
    gather: Callable[[list[Any]], list[Any]] = list
    parsers: int | None = None
    readers: Callable[[int], int] | None = None
    apart: bool = False
    checked: bool = True
    decides: bool = False

    def prepare(self, stack: ExitStack, known: Encoding | None = None) -> Prepared:
        """Open the data, learn their encoding, and put the streams together.

        Parameters
        ----------
        stack : ExitStack
            Removes temporary files when it is closed.
        known : Encoding, optional
            Of a checkpoint, so that nothing is looked at twice.
        """
        options = self.options
        if options.from_stdin and self._looks_twice:
            options = spooled(options, stack)
        sources = self._sources(options, None if known is None else known.kinds)
        parts = self._limited(sources)
        parts = [part if part.restartable else over.ReadAhead(part) for part in parts]
        summary: tuple[str, ...] = ()
        units: tuple[UnitDoubt, ...] = ()
        samples: list[SchemaSample] = []
        if known is None:
            encoding, orders, samples = self._learned(parts)
            if encoding.classes == ():
                raise DataError("found no example; expected at least one")
            summary = tuple(site_lines(samples, encoding.sites, encoding.optional))
            found = self._difference(samples, encoding)
            if found is not None:
                encoding = replace(encoding, own_units=True)
                summary += (f"{found.in_words()}; {_OWN_UNITS}",)
        else:
            self._check_agreement(parts, known)
            classification = self.algorithm.classification
            encoding = _with_lacking(known, parts)
            orders = [order_of_beginning(part, known.label, classification) for part in parts]
        suspicions = self._suspicions(parts, orders)
        watch = None
        if self._pools_units(encoding):
            units = tuple(unit_doubts(samples, encoding.sites))
            if not self.apart and UnitWatch.useful(encoding) and len(parts) == len(encoding.sites):
                watch = UnitWatch(encoding, samples)
        parts = self._completed(parts, encoding)
        if known is None:
            encoding = self._finished(encoding, parts)
        encoder = Encoder(
            encoding,
            learning=not self.apart,
            skip=options.on_bad_line == "skip",
            warn=self.warn,
            delays=None if self._late is None else (self._late, over.Delays()),
        )
        weights = self._class_weights(sources, encoding)
        streams, held = self._assembled(parts, encoder, weights, watch)
        filled = cast("list[over.FilledStream]", parts if _has_gaps(encoding) else [])
        remedy = _REMEDIES[self.options.in_files]
        details = suspicions, remedy, summary, units, watch, self._unit_remedy
        return Prepared(sources, streams, encoder, filled, held, *details)

    def _sources(self, options: DataOptions, kinds: Mapping[str, str] | None) -> list[Stream]:
        if not options.in_files:
            return given_streams(options, self.algorithm, self.checked)
        regression = not self.algorithm.classification
        return open_sources(options, self.algorithm.n_agents, regression, self.own, kinds)

    @property
    def _experts(self) -> bool:
        """Whether experts are decision stumps on the columns."""
        return bool(self.algorithm.update.experts) and not self.options.advised

    @property
    def _needs_width(self) -> bool:
        """Whether the start depends on the number of features, which is not given."""
        given = self.options.features or self.options.bits or not self.options.in_files
        return not self.algorithm.update.grows and not given

    @property
    def _looks_twice(self) -> bool:
        counted = self.options.class_weight == "balanced"
        return self.passes > 1 or self._experts or self._needs_width or counted

    @property
    def _late(self) -> str | None:
        """Column with the delays of the labels."""
        return over.DELAY if self.options.answers is not None else self.options.late

    @property
    def _dropped(self) -> tuple[str, ...]:
        return self.options.drop if self._late is None else (*self.options.drop, self._late)

    def _hints(self) -> SchemaHints:
        options, experts = self.options, self.algorithm.update.experts
        return SchemaHints(
            replace(options, drop=self._dropped),
            classification=self.algorithm.classification,
            two_classes=two_classes_only(self.algorithm) and not options.advised,
            intercept=options.with_intercept and not experts,
            sites=site_names(options, self.algorithm.n_agents),
        )

    def _limited(self, sources: Sequence[Stream]) -> list[Stream]:
        limit, n = self.options.limit, len(sources)
        if limit is None:
            return list(sources)
        shares = [limit // n + (k < limit % n) for k in range(n)]
        if min(shares) < 1:
            raise DataError(f"--limit: found {limit} for {n} streams, expected one row of each")
        return [over.LimitedStream(s, share) for s, share in zip(sources, shares, strict=True)]

    def _learned(
        self, parts: Sequence[Stream]
    ) -> tuple[Encoding, list[LabelOrder], list[SchemaSample]]:
        arrays = [part for part in parts if isinstance(part, RowsStream)]
        if not self.options.in_files and len(arrays) == len(parts):
            return (*self._of_arrays(arrays), [])
        # Experts are fitted to all data, so there every process must have them.
        if self.own is not None and len(parts) > 1 and not self._experts:
            parts = [parts[k] for k in self.own]
        hints = self._hints()
        samples = self._samples(parts, hints)
        of_all = self.gather(samples)
        encoding = learn_encoding(parts, hints, of_all, self.gather)
        for doubt in doubts(encoding, of_all[0].name):
            self.warn(doubt)
        if self.algorithm.outputs > 1:
            encoding = replace(encoding, numbered=True)
        orders = [seen.order for seen in samples]
        return encoding, orders, of_all if encoding.sites else samples

    def _of_arrays(self, parts: Sequence[RowsStream]) -> tuple[Encoding, list[LabelOrder]]:
        """Encoding of arrays in memory, and the order of their labels."""
        options, hints = self.options, self._hints()
        labels, classes = [part.rows.y for part in parts], hints.reading.labels
        if hints.classification and classes is None:
            sites = [("X", tuple(distinct(y).tolist())) for y in labels]
            classes = tuple(sorted({label for _, own in sites for label in own}))
            if self.algorithm.outputs == 1:  # else their number was said, and they may be anything
                refuse_quantities(classes, "X")
                if len(classes) > 2:
                    check_labels(sites)
        encoding = Encoding(
            n_features=options.features,
            classes=all_classes(self.algorithm, classes) if classes is not None else None,
            numbered=self.algorithm.outputs > 1,
            intercept=hints.intercept,
            bits=options.bits,
            missing=options.missing,
        )
        return encoding, [LabelOrder(hints.classification).with_labels(y) for y in labels]

    def _check_agreement(self, parts: Sequence[Stream], known: Encoding) -> None:
        """Refuse a label or a weight that are not those which are known."""
        given = {"label": self.options.label, "weight": self.options.weight}
        if not known.columns or given == {"label": None, "weight": None}:
            return
        seen = sample_schema(parts[0], replace(self._hints(), classification=False))
        for role, wish in given.items():
            found, has = getattr(seen, role), getattr(known, role)
            if wish is not None and found != has:
                raise DataError(
                    f"--{role} {wish}: found the column {found!r}, but the model's {role} is "
                    f"{'none' if has is None else repr(has)}; leave it out, or train anew"
                )

    def _completed(self, parts: Sequence[Stream], encoding: Encoding) -> list[Stream]:
        """The streams with weights from a file, and without missing values."""
        streams = list(parts)
        path = self.options.weight
        if encoding.columns is None and path is not None:
            if len(streams) > 1:
                raise DataError(f"--weight {path}: found {len(streams)} files, expected one")
            streams = [over.WeightedStream(streams[0], path)]
        if not _has_gaps(encoding):
            return streams
        if self.apart and self.own is None:
            raise DataError(
                "--missing mean does not go with actors, whose running means do not come back to this "
                "process; use --missing zero, or the engine mpi"
            )
        return [over.FilledStream(stream, encoding.numbers, encoding.fills) for stream in streams]

    def _finished(self, encoding: Encoding, parts: Sequence[Stream]) -> Encoding:
        """Complete the encoding with what needs a reading of all data."""
        if self.own is not None and len(parts) > 1 and not self._experts:
            parts = [parts[k] for k in self.own]
        if self._experts:
            return self._with_stumps(encoding, parts)
        if self.apart and encoding.grows and encoding.columns is not None:
            return self._with_names(encoding, parts)
        return self._with_width(encoding, parts) if self._needs_width else encoding

    def _with_names(self, encoding: Encoding, parts: Sequence[Stream]) -> Encoding:
        """Processes that read on their own agree on the places of names before round 1."""
        for part in parts:
            if not part.restartable:
                raise DataError(
                    f"{part.describe()}: found features by name, whose places all processes must know "
                    "beforehand; hash them with --bits, or give a file"
                )
        return self._with_width(encoding, parts)

    def _samples(self, parts: Sequence[Stream], hints: SchemaHints) -> list[SchemaSample]:
        n_agents = self.algorithm.n_agents
        least = n_agents if len(parts) == 1 else 1
        found = [sample_schema(part, hints, least) for part in parts]
        if found[0].rows < least:
            noun = "example" if found[0].rows == 1 else "examples"
            raise DataError(
                f"{found[0].name}: found {found[0].rows} {noun} for {n_agents} agents, "
                f"expected at least one for each; use --agents {max(1, found[0].rows)}"
            )
        return found

    def _pools_units(self, encoding: Encoding) -> bool:
        """Whether sites standardise together, so that all must have the same units."""
        said = (self.algorithm.recipe or {}).get("statistics")
        return said != "own" and not (self.decides and encoding.own_units)

    def _difference(self, samples: Sequence[SchemaSample], encoding: Encoding) -> Difference | None:
        """Where sites differ most, if that is to decide by whose rows they standardise."""
        if not self.decides or not encoding.sites:
            return None
        found = difference(samples, encoding.sites, self.algorithm.classification)
        for doubt in unit_doubts(samples, encoding.sites) if found is None else ():
            what = f"deviation of column {doubt.column!r}"
            return Difference(doubt.site, what, doubt.deviation, doubt.usual_deviation)
        return found

    @property
    def _unit_remedy(self) -> str:
        """What to do about other units."""
        own = "statistics" in (self.algorithm.recipe or {})
        return "convert them" + (", or use --statistics own" if own else "")

    def _suspicions(self, parts: Sequence[Stream], orders: Sequence[LabelOrder]) -> tuple[str, ...]:
        """Warnings of rows in the order of their labels, which a shuffle would end."""
        if self.options.shuffle:
            return ()
        remedy = _REMEDIES[self.options.in_files]
        each = (o.doubt(p.describe(), remedy) for p, o in zip(parts, orders, strict=False))
        return tuple(doubt for doubt in each if doubt is not None)

    def _with_width(self, encoding: Encoding, parts: Sequence[Stream]) -> Encoding:
        """The encoding once all features are known."""
        if encoding.columns is None:
            widths = [part.n_features or scan(part).n_features for part in parts]
            return replace(encoding, n_features=max(self.gather(widths)))
        encoder = Encoder(encoding)
        for part in parts:
            for _ in encoder.stream(part).read():
                pass
        names = list(dict.fromkeys(self.gather(list(encoder.names.known))))
        return replace(encoding, names=tuple(names))

    def _with_stumps(self, encoding: Encoding, parts: Sequence[Stream]) -> Encoding:
        known = self._with_width(encoding, parts)
        encoder = Encoder(known, learning=False)
        stumps = self._stumps([encoder.stream(part) for part in parts], known.n_inputs or 0)
        return replace(known, stumps=stumps)

    def _stumps(self, streams: Sequence[Stream], n_features: int) -> Stumps:
        if self.options.n_stumps is None and n_features > _MOST_DEFAULT_EXPERTS:
            raise DataError(
                f"found {n_features} features, one expert for each is too many; "
                "say how many with --experts"
            )
        from ddol.streams.coding.stumps import fit_stumps

        return fit_stumps(streams, self.options.n_stumps, self.seed)

    def _class_weights(self, sources: Sequence[Stream], encoding: Encoding) -> ClassWeights | None:
        """What each class counts, if that is not the same for all."""
        wanted = self.options.class_weight
        if wanted is None:
            return None
        from ddol.job.balance import class_weights

        parts = self._limited(sources)
        if self.own is not None and len(parts) > 1:
            parts = [parts[k] for k in self.own]
        gather = self.gather if self.own is not None and len(sources) > 1 else list
        return class_weights(wanted, encoding, parts, gather, self.parsers)

    def _assembled(
        self,
        parts: Sequence[Stream],
        encoder: Encoder,
        weights: ClassWeights | None,
        watch: UnitWatch | None,
    ) -> tuple[list[Stream], list[over.HoldoutStream]]:
        far = self.options.in_files and any(map(is_remote, self.options.data))
        readers = None if self.readers is None else self.readers(encoder.start.n_outputs)
        # A learning thread that waits for a piece parses, too.
        parsers = readers + 1 if readers else self.parsers
        pool = ParsingPool(parsers, abroad=2 if far else 1)
        n, turns = len(parts), readers == 0
        streams: list[Stream] = []
        held: list[over.HoldoutStream] = []
        for number, part in enumerate(parts):
            # Pieces are encoded where they are parsed, unless names get their places as they come.
            stream: Stream
            if encoder.start == _AS_LEARNED and isinstance(part, RowsStream):
                stream = part  # all labels were looked at, and are the numbers to learn from
            elif encoder.in_order:
                stream = encoder.stream(_parallel(part, n, pool, turns))
            else:
                stream = _parallel(encoder.stream(part), n, pool, turns)
            if watch is not None and not isinstance(stream, RowsStream):
                look = watch.watching(watch.sites[number])
                stream = mapped(stream, look, stream.n_features)
            if self._held_out:
                held.append(over.HoldoutStream(stream, self._held_out))
                stream = held[-1]
            if weights is not None:
                stream = mapped(stream, weights, stream.n_features)
            if self.options.shuffle:
                memory = max(1 << 20, _SHUFFLE_BYTES // n)
                stream = over.ShuffledStream(stream, own_seed(self.seed, number, n), memory)
            streams.append(stream)
        return streams, held

    @property
    def _held_out(self) -> Fraction | None:
        """Share of the examples that is held out, if there is one."""
        share = self.options.holdout
        if share is None:
            share = 0.1 if self.passes > 1 and self.options.in_files else 0.0
        if not share:
            return None
        from fractions import Fraction

        return Fraction(share).limit_denominator(1000)


def _parallel(stream: Stream, n_parts: int, pool: ParsingPool, by_turns: bool) -> Stream:
    if isinstance(stream, RowsStream):
        return stream
    if n_parts > 1 and not stream.restartable:
        # A thread that waits for one pipe must not keep the others waiting.
        return ParallelStream(stream, ParsingPool(2), 2)
    ahead = _MOST_AHEAD * pool.workers if by_turns else None
    return ParallelStream(stream, pool, ahead if n_parts == 1 else 2, by_turns)


def _with_lacking(known: Encoding, parts: Sequence[Stream]) -> Encoding:
    """The encoding of a model; columns that a site of this run lacks are missing values there."""
    if known.missing == "error" or not known.columns:
        return known
    names = [column.name for column in known.columns]
    there = [set(b.columns) for b in map(first_block, parts) if isinstance(b, Table) and b.named]
    lacks = {name for own in there for name in names if name not in own and len(there) > 1}
    optional = tuple(name for name in names if name in known.optional or name in lacks)
    return replace(known, optional=optional)


def _has_gaps(encoding: Encoding) -> bool:
    """Whether numbers may be missing, and are filled with their column's mean."""
    return encoding.missing == "mean" and bool(encoding.numbers)
