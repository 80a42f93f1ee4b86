"""What a run leaves: the model, the figures, the report, and a few lines on the screen."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ddol.cli.table import say, summary, warn
from ddol.engines.kinds import engine_named
from ddol.job.hindsight import FEW, MANY, Hindsight, hindsight, verdict
from ddol.job.options import RunOptions, TrainOptions
from ddol.job.pipeline import REMEDY, Prepared
from ddol.job.sources import recording_mark
from ddol.model import model_of
from ddol.storage import check_writable, write_text
from ddol.streams.coding.encoder import Encoder
from ddol.streams.stream import Stream, described
from ddol.trace import Trace

if TYPE_CHECKING:
    from ddol.job.holdout import HeldOutFigures

STDOUT = "-"


def check_outputs(*paths: str | None) -> None:
    """Refuse files that cannot be written before any work is done for them."""
    for path in paths:
        if path is not None and path != STDOUT:
            check_writable(path)


def write_outputs(
    options: TrainOptions, trace: Trace, prepared: Prepared, held: HeldOutFigures | None = None
) -> None:
    """Write the model, the figures and the report, and say what happened."""
    run = options.run
    skipped = tell_skipped(prepared.sources, prepared.encoder)
    unanswered = _tell_unanswered(prepared.sources)
    again = _looked_back(options, trace, prepared)
    if run.model is not None:
        write_model(options, trace, prepared)
    if run.json is not None:
        name = options.learn.algorithm.replace("_", "-")
        own: dict[str, Any] = {
            "algorithm": name,
            "skipped_lines": skipped,
            "unanswered": unanswered,
            "sites": list(prepared.encoding.sites),
        }
        own["holdout"] = None if held is None else vars(held)
        own["final_error"] = None if again is None else again.error
        write_json(run.json, {**trace.to_dict(), **own})
    if run.report is not None:
        _write_report(run, trace, prepared)
    options.schedule.write_recording(trace, lambda: recording_mark(options.data, options.run.seed))
    if not run.quiet:
        say("")
        for line in summary(trace, run.passes, held):
            say(line)
        for what, path in (
            ("model", run.model),
            ("figures", run.json),
            ("report", run.report),
            ("predictions", run.predictions),
            ("recording", options.schedule.record),
        ):
            if path is not None and path != STDOUT:
                say(f"{what}: {path}")
    doubt = verdict(trace, again, bool(prepared.suspicions), REMEDY)
    if doubt is not None:
        warn(doubt)


def _looked_back(options: TrainOptions, trace: Trace, prepared: Prepared) -> Hindsight | None:
    """The final model on the same examples, if that costs little and nothing else shows it."""
    most = MANY if prepared.suspicions else FEW
    once = prepared.encoder.delays is None and not prepared.held
    here = engine_named(options.run.engine).can.in_process
    again = all(getattr(stream, "restartable", False) for stream in prepared.streams)
    if not (once and here and again and trace.examples <= most):
        return None
    return hindsight(model_of(trace, prepared.encoding), prepared.streams)


def write_model(options: TrainOptions, trace: Trace, prepared: Prepared) -> None:
    """Write the model of a run as it stands."""
    settings = {k: v for k, v in vars(options.learn).items() if v is not None}
    settings.pop("algorithm")
    assert options.run.model is not None
    model = model_of(trace, prepared.encoding, settings)
    if prepared.initial is not None:
        from ddol.job.sites import with_absent_sites

        model = with_absent_sites(model, prepared.initial)
    model.save(options.run.model)


def tell_skipped(sources: Sequence[Stream], encoder: Encoder) -> int:
    """Lines that were skipped, after telling about the first of them."""
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


def _tell_unanswered(sources: Sequence[Stream]) -> int:
    """Examples that were never answered, after telling about them."""
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
    """JSON has no NaN and no infinity: null stands for them."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _write_report(run: RunOptions, trace: Trace, prepared: Prepared) -> None:
    from ddol.lab.report import write_report
    from ddol.measure.regret import regret_within_reach

    assert run.report is not None
    regret = regret_within_reach(trace, prepared.streams, run.passes)
    write_report(trace, run.report, command(), regret, described(prepared.sources))


def command() -> str:
    """The command line as it was given."""
    import shlex  # for reports only

    return shlex.join(["ddol", *sys.argv[1:]])
