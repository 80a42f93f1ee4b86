"""From a job to a trace, and to the files that it leaves."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from importlib import import_module
from typing import Any

from ddol.engines.feed import Feed
from ddol.engines.history import WeightRecord
from ddol.engines.learner import Learner
from ddol.job.checks import counts_predictions
from ddol.job.interface import Interface
from ddol.job.job import Job
from ddol.job.outputs import write_model, write_outputs
from ddol.job.pipeline import MOST_DOUBTS
from ddol.job.prepare import PreparedJob, prepare
from ddol.job.stopping import StoppedError
from ddol.job.watching import CheckpointWriter, RunWatch
from ddol.streams.coding.encoding import DATE, TEXT, Encoding
from ddol.streams.coding.labels import listed
from ddol.streams.rows import Block
from ddol.streams.stream import described
from ddol.trace import Trace


def train(job: Job, interface: Interface | None = None) -> Trace:
    """Carry out a job: learn from its data, and write what it asks for.

    Parameters
    ----------
    job : Job
    interface : Interface, optional
        What is shown meanwhile; nothing by default.

    Examples
    --------
    >>> trace = train(Job.of(algorithm="dogd", agents=2))
    >>> trace.examples, trace.agents
    (569, 2)
    """
    interface = interface or Interface()
    with ExitStack() as stack:
        made = prepare(job, stack, interface)
        if made.processes.leads and not job.output.quiet:
            _say_what_was_read(made, interface)
        units = [doubt.in_words(made.data.unit_remedy) for doubt in made.data.units[:MOST_DOUBTS]]
        for suspicion in (*made.data.suspicions, *units, *_graph_doubts(made)):
            made.processes.warn(suspicion)
        learner = made.learner()
        stack.callback(learner.close, keep=False)
        _make_room(made)
        with interface.in_mid_run():
            watch = _watch(made, learner, interface, stack)
            return _carry_out(watch, watch.feed, interface)


def _graph_doubts(made: PreparedJob) -> list[str]:
    """Warnings about a graph that is too sparse for robust averages."""
    if made.algorithm.robust is None:
        return []
    from ddol.communicate.robust import too_sparse

    text = too_sparse(made.algorithm.robust, made.algorithm.mixing.at(1))
    return [text] if text else []


def _say_what_was_read(made: PreparedJob, interface: Interface) -> None:
    """Print how the data were understood, and how sites match those of an initial model."""
    interface.say(data_summary(made.data.encoding, made.algorithm.n_agents))
    for line in made.data.summary:
        interface.say(line)
    if made.initial is not None:
        from ddol.job.sites import matches

        if line := matches(made.initial, made.data.encoding.sites):
            interface.say(line)


def _watch(made: PreparedJob, learner: Learner, interface: Interface, stack: ExitStack) -> RunWatch:
    """Make what is called during the run."""
    job, feed = made.job, made.feed()
    writer = CheckpointWriter(job.output, made.identity, interface.advice)
    watch = RunWatch(
        made, learner, feed, writer, interface.say, interface.signals, interface.on_progress
    )
    watch.alarms_shown = len(learner.history.recent.rises)
    if job.output.progress_json is not None and made.processes.leads:
        from ddol.job.watching import progress_lines

        lines = progress_lines(job.output.progress_json, made.algorithm)
        watch.lines = stack.enter_context(lines)
    if interface.display is not None and not job.output.quiet:
        watch.display = interface.display(made, learner)
    if made.data.held:
        from ddol.job.evaluation import Holdout

        watch.holdout = Holdout(made.data, made.processes.gather)
    if job.output.live is not None and made.processes.leads:
        watch.page = stack.enter_context(_live_page(made, feed))
    _listen_to_predictions(watch, stack)
    if job.output.record_weights is not None:
        learner.history.weights = WeightRecord(job.output.record_weights)
    return watch


def _listen_to_predictions(watch: RunWatch, stack: ExitStack) -> None:
    """Write predictions during the run, and count them for the report and the live page."""
    made, listeners = watch.made, list[Callable[[Block], None]]()
    output, encoding = made.job.output, made.data.encoding
    if output.predictions is not None:
        from ddol.job.predictions import PredictionWriter

        before = 0 if made.saved is None else int(made.saved.state.examples.sum())
        writing = PredictionWriter(output.predictions, encoding, before)
        if writing.kept < before:
            watch.say(
                f"warning: {output.predictions} lacks {before - writing.kept:,} of the {before:,} "
                "predictions that were made before the run was resumed"
            )
        listeners.append(stack.enter_context(writing))
    late = made.data.encoder.delays is not None
    shown = output.report is not None or watch.page is not None
    if shown and counts_predictions(made.job, made.algorithm) and not late:
        from ddol.job.tally import Tally

        watch.tally = Tally(made.algorithm.n_agents, encoding.classes)
        listeners.append(watch.tally)
        if watch.page is not None:
            watch.page.tally = watch.tally

    def tell(block: Block) -> None:
        for listener in listeners:
            listener(block)

    if listeners:
        watch.learner.on_predicted = tell


def _live_page(made: PreparedJob, feed: Feed) -> Any:
    """Start the live page; its module is above jobs and is imported late."""
    served = import_module("ddol.lab.live.server").served
    about = described(made.data.sources)
    sites = made.data.encoding.sites
    return served(made.algorithm, feed, made.setup, made.job.output.live, about, sites)


def _make_room(made: PreparedJob) -> None:
    """Set checkpoints of an earlier run aside, once it is sure that this one begins."""
    folder = made.job.output.checkpoint
    if folder is None or made.job.output.resume or not made.processes.leads:
        return
    from ddol.checkpoint import set_aside

    if count := set_aside(folder):
        made.processes.warn(
            f"{folder}: {count} checkpoints of an earlier run are renamed to *.old; "
            "use --resume to go on from them instead"
        )


def _carry_out(watch: RunWatch, feed: Feed, interface: Interface) -> Trace:
    learner, made = watch.learner, watch.made
    with ExitStack() as stack:
        if watch.display is not None:
            stack.callback(watch.display.close)
        if watch.listens:
            learner.on_progress = watch
        try:
            learner.follow(feed, learner.position)
        except StoppedError as stop:
            if stop.again:
                raise
            raise StoppedError(stop.number, _left_by(watch)) from None
        watch.report_units()
        trace = learner.trace(last=True)
        made.data.join_means(made.processes.gather)
        if made.data.watch is not None:
            watch.units = made.processes.gather(made.data.watch.doubts)
        held = watch.holdout.measured(learner, at_end=True) if watch.holdout else None
        trace = replace(trace, encoding=made.data.encoding, held_out=held)
        if watch.display is not None:
            watch.display.end(held)
    if watch.lines is not None:
        watch.lines.end(trace)
    if made.processes.leads:
        write_outputs(made, trace, interface, watch)
    return trace


def _left_by(watch: RunWatch) -> str:
    """What a stopped run has written, and how to resume it."""
    output = watch.made.job.output
    advice = (
        f"go on with: {watch.writer.advice}" if output.checkpoint and watch.writer.advice else ""
    )
    left = [text for text in (_model_so_far(watch), advice) if text]
    nothing = "nothing was written; use --model OUT, or --checkpoint DIR to go on"
    if output.model is not None:
        nothing = "no example was learned from, so that nothing was written"
    return "; ".join(left) or nothing


def _model_so_far(watch: RunWatch) -> str:
    """Write the model of a stopped run, if one is wanted, and return a sentence about it."""
    path, engine = watch.made.job.output.model, watch.learner.engine
    if path is None or engine is None or not engine.counters().rounds:
        return ""
    trace = watch.learner.trace(last=True)
    if watch.made.processes.leads:
        write_model(watch.made, trace)
    return f"model of the {trace.examples:,} examples so far: {path}"


def data_summary(encoding: Encoding, n_agents: int) -> str:
    """Label, columns and agents of a run in one line.

    Examples
    --------
    >>> from ddol.streams.coding.encoding import Column
    >>> columns = (Column("age"), Column("town", "text"))
    >>> data_summary(Encoding(columns, label="ill", classes=("no", "yes"), sites=("bern", "rome")), 2)
    'label: ill (2 classes: no, yes), 2 columns (1 of text), 2 agents: bern, rome'
    >>> data_summary(Encoding(classes=(-1.0, 1.0)), 4)
    'label: the number in front (2 classes: -1, 1), columns by number, 4 agents in turn'
    """
    parts = [f"label: {_label(encoding)}", _columns(encoding)]
    if encoding.weight is not None:
        parts.append(f"weight: {encoding.weight}")
    if encoding.stumps is not None:
        parts.append(f"{len(encoding.stumps)} experts")
    return ", ".join([*parts, _agents(encoding, n_agents)])


def _label(encoding: Encoding) -> str:
    in_front = "the number in front" if encoding.columns is None else "what stands in front"
    name = encoding.label or in_front
    if encoding.classes is None:
        return f"{name} (a number)"
    return f"{name} ({len(encoding.classes)} classes: {listed(encoding.classes)})"


def _columns(encoding: Encoding) -> str:
    if encoding.columns is None:
        found = "columns by number"
    elif not encoding.columns:
        found = "features by name"
    else:
        kinds = [column.kind for column in encoding.columns]
        counts = (("text", kinds.count(TEXT)), ("dates", kinds.count(DATE)))
        kinds_found = ", ".join(f"{n} of {what}" for what, n in counts if n)
        noun = "column" if len(encoding.columns) == 1 else "columns"
        found = f"{len(encoding.columns)} {noun}{f' ({kinds_found})' if kinds_found else ''}"
    return found if encoding.bits is None else f"{found} hashed to {1 << encoding.bits:,}"


def _agents(encoding: Encoding, n_agents: int) -> str:
    noun = "agent" if n_agents == 1 else "agents"
    if encoding.sites:
        return f"{n_agents} {noun}: {listed(encoding.sites, 5)}"
    return f"{n_agents} {noun}{' in turn' if n_agents > 1 else ''}"
