"""The progress table: a row whenever the examples have doubled, or some time has passed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO, cast

from ddol.algorithm import Algorithm
from ddol.cli.errors import printable
from ddol.engines.feed import Feed
from ddol.engines.progress import Progress
from ddol.logs import tell
from ddol.streams.dealing import progress as work_done
from ddol.streams.stream import Position
from ddol.trace import Trace

if TYPE_CHECKING:
    from ddol.job.evaluation import HeldOutFigures
    from ddol.measure.applicable import MistakeBound
    from ddol.update.budget import Budget

SECONDS = 10.0
"""After which there is a row in any case."""

_COLUMNS = (
    ("examples", 12),
    ("mean loss", 11),
    ("since last", 11),
    ("error %", 8),
    ("window %", 9),
    ("worst %", 8),
    ("bound", 9),
    ("consensus", 10),
    ("MB sent", 10),
    ("examples/s", 12),
)


@dataclass(frozen=True)
class Row:
    """Progress of a run, over all agents."""

    examples: int
    loss: float
    mistakes: int
    window: float | None
    worst: float
    bound: float | None
    consensus: float
    megabytes: float
    speed: float
    held_out: float | None = None
    spent: float | None = None


def _bound(progress: Progress, bound: MistakeBound | None) -> float | None:
    """The theorem's bound on mistakes in rounds; the certificate's on the regret on a schedule."""
    if not progress.moments:
        if bound is None:
            return None
        return float(bound.at(progress.best_log_weight, progress.examples).value)
    shadow = progress.moments[-1].shadow
    if shadow is None:
        return None
    from ddol.measure.certificate import certificate_of

    made = certificate_of(shadow)
    binds = made is not None and made.binds(float(progress.loss.sum()))
    return made.total if made is not None and binds else None


def row_of(
    progress: Progress,
    bound: MistakeBound | None,
    held: HeldOutFigures | None = None,
    budget: Budget | None = None,
) -> Row:
    """Row of the present progress."""
    shares = progress.mistakes / progress.agent_examples.clip(1)
    return Row(
        examples=progress.examples,
        loss=float(progress.loss.sum()),
        mistakes=int(progress.mistakes.sum()),
        window=progress.window_error,
        worst=float(shares.max()),
        bound=_bound(progress, bound),
        consensus=progress.consensus,
        megabytes=progress.bytes_sent / 1e6,
        speed=progress.examples / max(progress.seconds, 1e-9),
        held_out=None if held is None else held.error,
        spent=None
        if budget is None
        else budget.spent(budget.released_after(int(progress.agent_examples.max()))),
    )


class ProgressTable:
    """Prints rows at powers of two and every ten seconds, and a bar below them in a terminal.

    Parameters
    ----------
    feed : Feed
    position : Position or None
        Where the run begins.
    algorithm : Algorithm
    bound : MistakeBound or None
    out : file or None
        Standard error; None to measure without showing, as all but one process of a run do.
    held : bool
        Whether examples are held out, and how well they are predicted is shown, too.
    """

    def __init__(
        self,
        feed: Feed,
        position: Position | None,
        algorithm: Algorithm,
        bound: MistakeBound | None,
        out: TextIO | None,
        held: bool = False,
    ) -> None:
        self.now: Callable[[], float] = time.monotonic
        self.silent_since = self.now()
        self.bound = bound
        self.regression = not algorithm.classification
        self.reached: Progress | None = None
        self.next = 1
        self.last: Row | None = None
        self.bar = Bar(feed, position, out)
        self.columns = list(_COLUMNS)
        self.budget = cast("Budget | None", algorithm.privacy)
        if self.regression:
            self.columns[4] = ("window", 9)
        if self.budget is not None:
            self.columns.append(("ε spent", 8))
        if held:
            self.columns.insert(6, ("held-out" if self.regression else "held-out %", 11))
        self._line(" ".join(f"{name:>{width}}" for name, width in self.columns))

    def close(self) -> None:
        """Remove the bar."""
        self.bar.close()

    def due(self, progress: Progress) -> bool:
        """Whether the examples have doubled, or nothing was shown for long."""
        late = self.now() - self.silent_since >= SECONDS
        return late or self._reached(progress) >= self.next

    def show(self, progress: Progress, row: bool, held: HeldOutFigures | None = None) -> None:
        """Add a row, if one is wanted, and move the bar."""
        self.reached = progress
        if row:
            self._add(row_of(progress, self.bound, held, self.budget))
            self.silent_since = self.now()
            self.next = 1 << self._reached(progress).bit_length()
        if progress.position is not None:
            self.bar.move(progress.position)

    def note(self, text: str) -> None:
        """Show what happened, among the rows."""
        self._line(text)

    @staticmethod
    def _reached(progress: Progress) -> int:
        # The last round of a pass may be short, so that a power is missed by a few examples.
        return progress.examples + progress.examples // 100

    def end(self, held: HeldOutFigures | None = None) -> None:
        """Add a last row."""
        at = self.reached
        if at is not None and (self.last is None or at.examples > self.last.examples):
            self._add(row_of(at, self.bound, held, self.budget))

    def _add(self, row: Row) -> None:
        before = self.last or Row(0, 0.0, 0, None, 0.0, None, 0.0, 0.0, 0.0)
        recent = (row.loss - before.loss) / max(row.examples - before.examples, 1)
        error = 100 * row.mistakes / max(row.examples, 1)
        cells = [
            f"{row.examples:,}",
            f"{row.loss / max(row.examples, 1):.5g}",
            f"{recent:.5g}",
            "–" if self.regression else f"{error:.2f}",
            self._error(row.window),
            "–" if self.regression else f"{100 * row.worst:.2f}",
            "–" if row.bound is None else f"{row.bound:,.0f}",
            f"{row.consensus:.3g}",
            f"{row.megabytes:,.2f}",
            f"{row.speed:,.0f}",
        ]
        if row.spent is not None:
            cells.append(f"{row.spent:.2f}")
        widths = [width for _, width in self.columns]
        if len(widths) > len(cells):
            cells.insert(6, self._error(row.held_out))
        self._line(" ".join(f"{c:>{w}}" for c, w in zip(cells, widths, strict=True)))
        self.last = row

    def _error(self, error: float | None) -> str:
        if error is None:
            return "–"
        return f"{error:.4g}" if self.regression else f"{100 * error:.2f}"

    def _line(self, text: str) -> None:
        self.bar.above(text)


class Bar:
    """A progress bar, where a terminal is attached and the amount of work is known.

    Parameters
    ----------
    feed : Feed
    position : Position or None
        Where the run begins.
    out : file or None
    """

    def __init__(self, feed: Feed, position: Position | None, out: TextIO | None) -> None:
        self.feed, self.out = feed, out
        self._bar: Any = None
        self._task: Any = None
        done = work_done(self.feed.streams, position)
        if done is not None and out is not None and out.isatty():
            self._begin(done[1])

    def _begin(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(file=self.out, highlight=False, markup=False, soft_wrap=True)
        columns = (
            TextColumn("{task.percentage:>3.0f} %"),
            BarColumn(bar_width=40),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*columns, console=console, transient=True)
        self._task = self._bar.add_task("", total=total * self.feed.passes)
        self._bar.start()

    def above(self, text: str) -> None:
        """Print a line that stays."""
        if self._bar is not None:
            self._bar.console.print(text)
        elif self.out is not None:
            print(text, file=self.out, flush=True)

    def move(self, position: Any) -> None:
        """Show how far the streams have been read."""
        if self._bar is None:
            return
        done = work_done(self.feed.streams, position)
        if done is not None:
            self._bar.update(self._task, completed=position["pass"] * done[1] + done[0])

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _local(trace: Trace) -> list[str]:
    """The local certificate of the agent that regrets most, in a line."""
    found = [m for m in trace.local_certificates if m.informative_up_to > 1.0]
    if not found:
        return []
    worst = max(found, key=lambda made: made.against(1.0))
    whose = "regret" if trace.agents == 1 else "regret of each agent"
    return [
        f"certificate: {whose} at most {worst.fixed:,.1f} + {worst.per_norm:,.1f}·‖u‖ against any linear "
        f"model u of its standardised rows (below the loss up to ‖u‖ = {worst.informative_up_to:.3g})"
    ]


def summary(trace: Trace, passes: int = 1) -> list[str]:
    """What a run came to, in a few lines."""
    speed = trace.examples / max(trace.seconds, 1e-9)
    network = f"{trace.topology}, {trace.mixing} mixing" if trace.agents > 1 else "alone"
    lines = [
        f"{trace.name.replace('_', '-')}, {_count(trace.agents, 'agent')} ({network}), "
        f"engine {trace.engine}: {_count(trace.examples, 'example')} in "
        f"{_count(trace.rounds, 'round')}, {trace.seconds:.2f} s ({speed:,.0f}/s)"
    ]
    parts = [f"mean loss {trace.mean_loss:.5g}"]
    if trace.classification:
        parts.insert(
            0, f"{_count(int(trace.mistakes.sum()), 'mistake')} ({100 * trace.error:.2f} %)"
        )
    if trace.agents > 1:
        parts.append(f"consensus distance {trace.consensus:.3g}")
        parts.append(f"{trace.bytes_sent / 1e6:,.2f} MB sent")
    lines.append(", ".join(parts))
    if passes > 1:
        lines[-1] += f" (while learning, over {passes} passes: what was seen before is known)"
    held = trace.held_out
    if held is not None:
        shown = f"{100 * held.error:.2f} %" if trace.classification else f"{held.error:.5g}"
        what = "error" if trace.classification else "root mean squared error"
        lines.append(f"held-out {what}: {shown} of {held.examples:,} examples never learned from")
    made = trace.binding_certificate
    if made is not None:
        lines.append(
            f"certificate: regret at most {made.total:,.1f} ({made.serial:,.1f} serial, {made.drift:,.1f} "
            f"drift) against {made.comparator}"
        )
    lines += _local(trace)
    for name, bound in trace.bounds.items():
        verdict = "kept" if bound["holds"] else "VIOLATED"
        lines.append(f"bound {name}: {bound['value']:,.1f} {bound['quantity']}, {verdict}")
    told_privacy = trace.privacy
    if told_privacy is not None:
        lines.append(privacy_line(told_privacy))
    return lines


def privacy_line(privacy: dict[str, Any]) -> str:
    """How much of a privacy budget a run has spent, in one line.

    Examples
    --------
    >>> spent = {"epsilon": 4.0, "delta": 1e-5, "spent": [2.84], "released": [58], "releases": 64}
    >>> privacy_line(spent)
    'privacy: ε 2.84 of 4 spent (δ 1e-05, 58 of 64 releases)'
    """
    spent, released = max(privacy["spent"], default=0.0), max(privacy["released"], default=0)
    ended = "; used up: sharing has ended" if released >= privacy["releases"] else ""
    return (
        f"privacy: ε {spent:.2f} of {privacy['epsilon']:g} spent (δ {privacy['delta']:g}, {released:,} of "
        f"{privacy['releases']:,} releases){ended}"
    )


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def say(text: str) -> None:
    """Print a line on standard error."""
    tell(printable(text))


def show(text: str) -> None:
    """Print lines on standard output: names in them may hold anything, and the terminal is not theirs."""
    for line in text.split("\n"):
        print(printable(line))


def warn(text: str) -> None:
    """Print a warning on standard error."""
    tell(printable(text), "warning")
