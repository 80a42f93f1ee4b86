"""Write the outputs of a run: model, figures, report, recording."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ddol.engines.kinds import engine_named
from ddol.job.interface import Interface
from ddol.job.pipeline import MOST_DOUBTS
from ddol.job.sources import recording_mark
from ddol.model import Model, model_of
from ddol.storage import Warn, check_writable, write_text
from ddol.streams.coding.encoder import Encoder
from ddol.streams.coding.labels import class_numbers
from ddol.streams.errors import DataError
from ddol.streams.stream import Stream, described
from ddol.trace import Trace

if TYPE_CHECKING:
    from ddol.job.prepare import PreparedJob
    from ddol.job.tally import Tally
    from ddol.job.watching import RunWatch


STDOUT = "-"


def check_outputs(*paths: str | None, read: Sequence[str] = ()) -> None:
    """Refuse files that cannot be written, or would take the place of each other or of what is `read`."""
    taken = {path.resolve() for path in map(Path, read) if path.is_file()}
    for path in paths:
        if path is not None and path != STDOUT:
            check_writable(path)
            place = Path(path).resolve()
            if place in taken:
                raise DataError(f"{path}: is another file of this command already; write elsewhere")
            if place.is_file() or not place.exists():  # a device may be several
                taken.add(place)


def write_outputs(made: PreparedJob, trace: Trace, interface: Interface, watch: RunWatch) -> None:
    """Write the model, the figures, the report and the recording."""
    job, data = made.job, made.data
    output = job.output
    counts = {
        "skipped_lines": warn_of_skipped(data.sources, data.encoder, interface.warn),
        "unanswered": _warn_of_unanswered(data.sources, interface.warn),
    }
    again = _looked_back(made, trace)
    if output.model is not None:
        write_model(made, trace)
    if output.json is not None:
        figures = _figures(made, trace, watch) | counts
        figures["final_error"] = None if again is None else again.error
        write_json(output.json, figures)
    if output.report is not None:
        _write_report(made, trace, interface.command, watch.tally)
    job.schedule.write_recording(trace, lambda: recording_mark(job.data, job.run.seed))
    if interface.finished is not None:
        interface.finished(made, trace)
    if watch.units:
        named = ", ".join(f"{doubt.site} ({doubt.column})" for doubt in watch.units[:MOST_DOUBTS])
        more = ", …" if len(watch.units) > MOST_DOUBTS else ""
        interface.warn(
            f"units changed while learning: {named}{more}; what was learned since is of little use"
        )
    if job.data.in_files and not made.setup.schedule.conditions.liars:
        doubt = verdict(trace, again, bool(data.suspicions), data.remedy, len(data.streams))
        if doubt is not None:
            interface.warn(doubt)


def _figures(made: PreparedJob, trace: Trace, watch: RunWatch) -> dict[str, Any]:
    """Figures of the trace and of the run, as ``--json`` writes them."""
    names = made.data.encoding.sites
    units = {"before learning": made.data.units, "while learning": watch.units}
    return trace.to_dict() | {
        "algorithm": made.job.algorithm.name.replace("_", "-"),
        "sites": trace.sites(names) if trace.algorithm.safe else list(names),
        "holdout": None if trace.held_out is None else vars(trace.held_out),
        "units": [
            doubt._asdict() | {"when": when} for when, doubts in units.items() for doubt in doubts
        ],
        "drift": [vars(rise) for rise in watch.learner.history.recent.rises],
    }


def _looked_back(made: PreparedJob, trace: Trace) -> Hindsight | None:
    """The final model on the same examples, if that costs little and nothing else shows it."""
    data = made.data
    most = MANY if data.suspicions else FEW
    once = data.encoder.delays is None and not data.held
    here = made.job.data.in_files and engine_named(made.job.run.engine).can.in_process
    again = all(getattr(stream, "restartable", False) for stream in data.streams)
    if not (once and here and again and trace.examples <= most):
        return None
    return hindsight(model_of(trace, data.encoding), data.streams)


def write_model(made: PreparedJob, trace: Trace) -> None:
    """Write the present model of a run."""
    job = made.job
    given = vars(job.algorithm) | vars(job.network) | {"agents": trace.agents}
    given |= {"delay": job.schedule.whole_delay, **job.algorithm.parameters}
    plain = (bool, int, float, str)
    settings = {k: v for k, v in given.items() if isinstance(v, plain) and k != "algorithm"}
    assert job.output.model is not None
    model = model_of(trace, made.data.encoding, settings)
    if made.initial is not None:
        from ddol.job.sites import with_absent_sites

        model = with_absent_sites(model, made.initial)
    model.save(job.output.model)


def warn_of_skipped(sources: Sequence[Stream], encoder: Encoder, warn: Warn) -> int:
    """Warn of skipped lines, with what was wrong with the first; return their number."""
    count = 0
    for source in sources:
        bad = getattr(source, "bad_lines", None)
        if bad is not None and bad.count:
            count += bad.count
            first = f"; the first: {bad.messages[0]}" if bad.messages else ""
            lines = "line" if bad.count == 1 else "lines"
            warn(f"{source.describe()}: skipped {bad.count:,} bad {lines}{first}")
    if encoder.n_skipped:
        first = f"; the first: {encoder.skipped[0]}"
        rows = "row" if encoder.n_skipped == 1 else "rows"
        warn(f"skipped {encoder.n_skipped:,} {rows} with missing or impossible values{first}")
    return count + encoder.n_skipped


def _warn_of_unanswered(sources: Sequence[Stream], warn: Warn) -> int:
    """Warn of examples whose label never came, and return their number."""
    for source in sources:
        left = getattr(source, "unmatched", None)
        if left is not None:
            if left.examples or left.answers:
                warn(
                    f"{source.describe()}: {left.examples:,} examples were never answered, and left out; "
                    f"{left.answers:,} answers were to no example"
                )
            return int(left.examples)
    return 0


def write_json(path: str, figures: dict[str, Any]) -> None:
    """Write figures as JSON to a file, or to standard output for ``-``."""
    # In a file names stay as they are; a terminal would obey some of them.
    text = json.dumps(_plain(figures), indent=2, ensure_ascii=path == STDOUT) + "\n"
    if path == STDOUT:
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        write_text(path, text)


def _plain(value: Any) -> Any:
    """Values for JSON, which has no NaN and no infinity: they become null."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _write_report(made: PreparedJob, trace: Trace, command: str, tally: Tally | None) -> None:
    """Write the report; its module is above jobs and is imported late."""
    write_report = import_module("ddol.lab.report").write_report
    regret_within_reach = import_module("ddol.measure.regret").regret_within_reach
    regret = regret_within_reach(trace, made.data.streams, made.job.run.passes)
    model = model_of(trace, made.data.encoding)
    about, matters = described(made.data.sources), []
    if deviations(model) is not None:
        matters = ranked(model)
    write_report(trace, made.job.output.report, command, regret, about, tally, matters)


_LEAST, _MOST = 1e-150, 1e150


def deviations(model: Model) -> np.ndarray | None:
    """Scale of each feature for each output (outputs, D); None if the algorithm does not know it.

    `adaptive`, `coin` and `newton` standardise features while they learn, and keep 1/scale of each (with
    ``safe``, the shared learner does). A feature that never varies (the constant one, too) has the scale 0.
    """
    if model.known is None:
        return None
    algorithm, theta = model.known.algorithm, model.known.theta
    rows = algorithm.update.layout(algorithm.average, 1).rows
    names = [getattr(row, "name", row) for row in rows]
    own = next((name for name in ("inverse", "shared inverse") if name in names), None)
    if own is None:
        return None
    inverse = theta[:, :, names.index(own), :]
    there = (inverse > _LEAST) & (inverse < _MOST)  # else it never varied, or was never met
    scales = np.where(there, 1.0 / np.where(there, inverse, 1.0), 0.0)
    return np.asarray(scales.sum(axis=0) / np.maximum(there.sum(axis=0), 1))


def importance(model: Model) -> np.ndarray:
    """Change of the score (outputs, D) when a feature grows by its standard deviation.

    Where deviations are not known, the change when it grows by one.

    Examples
    --------
    >>> import ddol
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 2)) * [1000.0, 0.001]
    >>> y = np.where(X[:, 0] / 1000 + X[:, 1] / 0.001 > 0, 1, -1)
    >>> found = importance(ddol.run(ddol.adaptive(), (X, y)).model())
    >>> bool(0.8 < found[0, 0] / found[0, 1] < 1.25)
    True
    """
    scales = deviations(model)
    return model.weights if scales is None else model.weights * scales


def ranked(model: Model) -> list[tuple[str, float]]:
    """Names of features and their importance for the output where it is largest, without the intercept."""
    found = importance(model)
    of = np.abs(found).argmax(axis=0)
    best = found[of, np.arange(found.shape[1])]
    first = int(model.encoding.intercept)
    places = [d for d in np.flatnonzero(best).tolist() if d >= first]
    places.sort(key=lambda d: -abs(best[d]))
    places = places[:100]
    names = model.encoding.feature_names(places)
    return [(name, sign * float(best[d])) for d, (name, sign) in zip(places, names, strict=True)]


FEW = 20_000
"""Examples that are predicted once more after every run."""
MANY = 1_000_000
"""Examples that are predicted once more where their order is suspect."""
_MARGIN = 0.02


@dataclass(frozen=True)
class Hindsight:
    """How well the final model predicts what it learned from.

    Parameters
    ----------
    examples : int
    error : float
        Share of wrong classes; of numbers, the root mean squared error.
    r2 : float or None
        Of numbers: the share of their variance that is explained.
    """

    examples: int
    error: float
    r2: float | None = None


def hindsight(model: Model, streams: Sequence[Stream]) -> Hindsight:
    """Predict all examples of encoded streams with the final model: those of a site with its own weights.

    Examples
    --------
    >>> import ddol, numpy as np
    >>> from ddol.streams import array_stream
    >>> X, y = np.eye(4), np.array([-1.0, -1.0, 1.0, 1.0])
    >>> model = ddol.run(ddol.dogd(), (X, y)).model()
    >>> hindsight(model, [array_stream(X, y)])
    Hindsight(examples=4, error=0.0, r2=None)
    """
    n = wrong = 0
    sums = np.zeros(3)  # of the numbers, of their squares, and of the squared errors
    for number, stream in enumerate(streams):
        agent = number if len(streams) > 1 else None
        for rows, _ in stream.read():
            n += len(rows)
            scores = model.scores(rows, agent)
            if model.classes is None:
                sums += rows.y.sum(), np.square(rows.y).sum(), np.square(rows.y - scores).sum()
            else:
                true = (rows.y > 0.0) if scores.ndim == 1 else rows.y
                wrong += int(np.count_nonzero(class_numbers(scores) != true))
    if model.classes is not None:
        return Hindsight(n, wrong / max(n, 1))
    total, squares, missed = sums.tolist()
    variance = squares - total * total / max(n, 1)
    r2 = 1.0 - missed / variance if variance > 0.0 else None
    return Hindsight(n, math.sqrt(missed / max(n, 1)), r2)


def verdict(
    trace: Trace, found: Hindsight | None, grouped: bool, remedy: str, sites: int = 1
) -> str | None:
    """A warning beside the figures of a run, or None.

    Parameters
    ----------
    trace : Trace
    found : Hindsight or None
        None if the examples were not predicted once more.
    grouped : bool
        Whether rows with the same label stand together.
    remedy : str
        What to do where the order of rows is the cause.
    sites : int
        How many streams there were: several may differ in what they should learn.
    """
    because = "rows with the same label stand together" if grouped else "the order of rows matters"
    if sites > 1 and not grouped and not trace.algorithm.safe:
        because = "the sites may differ, or the order of their rows matters"
        remedy = f"--safe tells whom sharing harms; else {remedy}"
    if trace.algorithm.privacy is not None and not grouped:
        because = "the noise of --privacy is in the shared weights"
        remedy = "--agent NAME predicts as a site does, with its own learner beside them"
    if found is None:
        low = "the errors counted while learning are too low"
        return f"{because}: {low}; {remedy}" if grouped else None
    if not trace.classification:
        bad = found.r2 is not None and found.r2 < 0.0 and trace.algorithm.loss.name == "squared"
        shown = "–" if found.r2 is None else f"{found.r2:.3g}"
        said = f"the final model's R² on the same {found.examples:,} examples is {shown}"
        because = "labels rise or fall with the rows" if grouped else because
        return f"{said}: {because}; {remedy}" if grouped or bad else None
    deviation = math.sqrt(max(trace.error * (1.0 - trace.error), 1e-9) / max(found.examples, 1))
    worse = found.error > trace.error + _MARGIN + 3.0 * deviation
    if not grouped and not worse:
        return None
    return (
        f"the final model is wrong on {100 * found.error:.2f} % of the same {found.examples:,} examples, "
        f"where {100 * trace.error:.2f} % were counted while learning: {because}; {remedy}"
    )
