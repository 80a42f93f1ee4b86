"""Contestants take turns on a workload, several times; what is kept is how long each took."""

from __future__ import annotations

import contextlib
import gc
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.workloads import Data, Workload

_SCREEN = sys.stderr


@dataclass(frozen=True)
class Outcome:
    """What a run found out itself.

    Parameters
    ----------
    error : float or None
        Share of wrong predictions, each made before the example was learned from.
    memory : int or None
        Most bytes of the process that ran, where that was another one.
    """

    error: float | None = None
    memory: int | None = None


@dataclass(frozen=True)
class Contestant:
    """A peer with its settings, ready to run.

    Parameters
    ----------
    name : str
        As tables show it: the peer and the rule.
    settings : str
        All that is needed to do it again.
    run : function
        One pass over the data; this is timed.
    error : function, optional
        Progressive error, where `run` does not tell it; this is not timed.
    examples : int, optional
        Examples of one run, where it is not all of them.
    warm : bool
        Nothing is compiled or cached by a first run, so that its time counts too.
    """

    name: str
    settings: str
    run: Callable[[], Outcome]
    error: Callable[[], float] | None = None
    examples: int | None = None
    warm: bool = False


@dataclass(frozen=True)
class Result:
    """How one contestant did on one workload."""

    workload: str
    peer: str
    name: str
    settings: str
    examples: int
    values: float
    error: float | None
    memory: int | None
    seconds: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """How much longer than the best run the median one took, as a share."""
        return self.median / self.best - 1.0

    @property
    def per_example(self) -> float:
        """Nanoseconds."""
        return 1e9 * self.best / self.examples

    @property
    def per_value(self) -> float:
        """Nanoseconds per stored number."""
        return 1e9 * self.best / self.values


@dataclass(frozen=True)
class Patience:
    """How often a run is repeated: until its turns or its seconds are used up."""

    turns: int = 7
    seconds: float = 4.0


def compete(
    workload: Workload, data: Data, entries: Sequence[tuple[str, Contestant]], patience: Patience
) -> list[Result]:
    """Run (peer, contestant) pairs in turns, so that a slow minute of the machine hits all.

    The first run of each shows error and memory. A contestant that fails is left out.
    """
    results, runs = [], []
    for peer, contestant in entries:
        began = time.perf_counter()
        try:
            result = _first_run(workload, data, peer, contestant)
        except Exception as error:  # One broken peer must not cost the others their results.
            _SCREEN.write(f"  {workload.name}: {contestant.name} failed: {error}\n")
            continue
        results.append(result)
        runs.append((contestant.run, result.seconds))
        _SCREEN.write(
            f"  {workload.name}: {contestant.name}: {time.perf_counter() - began:.1f} s\n"
        )
    for turn in range(patience.turns):
        for k in range(len(runs)):
            # Starting with another one in every turn: nobody always follows the same neighbour.
            run, seconds = runs[(k + turn) % len(runs)]
            if not seconds or sum(seconds) + min(seconds) <= patience.seconds:
                seconds.append(timed(run)[0])
    return results


def _first_run(workload: Workload, data: Data, peer: str, contestant: Contestant) -> Result:
    before = _forget_peak()
    took, outcome = timed(contestant.run)
    most = outcome.memory if outcome.memory is not None else memory("VmHWM") - before
    error = outcome.error
    if error is None and contestant.error is not None:
        error = contestant.error()
    examples = contestant.examples or data.n_examples
    values = data.n_values * examples / data.n_examples
    name, settings = contestant.name, contestant.settings
    seconds = [took] if contestant.warm else []
    return Result(workload.name, peer, name, settings, examples, values, error, most, seconds)


def timed(run: Callable[[], Outcome]) -> tuple[float, Outcome]:
    """Seconds of one run, without the garbage of others."""
    gc.collect()
    gc.disable()
    try:
        began = time.perf_counter()
        outcome = run()
        return time.perf_counter() - began, outcome
    finally:
        gc.enable()


def _forget_peak() -> int:
    """Forget the largest size of this process so far; returns its size now, in bytes."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


def memory(what: str, pid: int | None = None) -> int:
    """Bytes of a process: VmRSS now, VmHWM at most; 0 where the system does not tell."""
    try:
        lines = Path(f"/proc/{pid or 'self'}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(what)), 0)
