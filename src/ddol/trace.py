"""What a run returns: counters, curves and weights, and the table, plot and dictionary made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ddol.recording import Curves, Moment, WeightHistory

MOST_EDGES = 1024
"""Edges of which ``--json`` tells, those with the most messages."""


@dataclass(frozen=True)
class Trace:
    """What a run leaves: numbers per agent, curves, weights.

    Attributes
    ----------
    algorithm : Algorithm
        On its network.
    mistakes, loss : (N,)
        Per agent, counted before the update (progressive validation).
    weights : (copies, outputs, D)
        Final weights; one copy where all agents share it.
    state : State
        From which the run can go on.
    dropped : int
        Messages that did not arrive.
    refused : (N,), optional
        Messages of each agent that were refused, because they are no numbers.
    edges : (edges, 4)
        Sender, receiver, messages and bytes of every edge that was used, where they are not the same for all.
    moments : tuple of Moment
        The run by its (virtual) time, where a schedule has one; the last is its end.
    events : Events
        What happened, where it was recorded.
    weight_history : WeightHistory
        Weights over time, with ``record_weights``.
    encoding : Encoding
        What columns, labels and sites of the data are called, where it is known.
    held_out : HeldOutFigures, optional
        Number of held-out examples and the error on them, with ``holdout``.

    Examples
    --------
    >>> import ddol
    >>> X = np.random.default_rng(0).standard_normal((1000, 3)); y = np.sign(X @ [1.0, -2.0, 0.5])
    >>> trace = ddol.run(ddol.adaptive(), (X, y), ddol.ring(4))
    >>> trace.examples, trace.rounds, trace.mistakes.shape, trace.error < 0.1
    (1000, 250, (4,), True)
    >>> trace.to_frame().columns[:3].tolist()
    ['rounds', 'examples', 'mistakes']
    """

    algorithm: Any
    engine: str
    workers: int
    examples: int
    rounds: int
    mistakes: np.ndarray
    loss: np.ndarray
    expected_mistakes: np.ndarray
    seconds: float
    messages: int
    bytes_sent: int
    consensus: float
    weights: np.ndarray
    curves: Curves
    seed: int
    version: str
    state: Any = None
    dropped: int = 0
    edges: np.ndarray | None = None
    refused: np.ndarray | None = None
    moments: tuple[Moment, ...] = ()
    events: Any = None
    weight_history: WeightHistory | None = None
    encoding: Any = None
    held_out: Any = None

    @property
    def name(self) -> str:
        """Of the algorithm."""
        return str(self.algorithm.name)

    @property
    def agents(self) -> int:
        """Number of agents N."""
        return int(self.algorithm.n_agents)

    @property
    def topology(self) -> str:
        """Name of the graph; "changing" where there is another in every round."""
        graph = getattr(self.algorithm.mixing, "topology", None)
        return "changing" if graph is None else str(graph.name)

    @property
    def mixing(self) -> str:
        """Name of the mixing matrix."""
        return str(self.algorithm.mixing.name)

    @property
    def classification(self) -> bool:
        """Whether answers are classes, so that mistakes are counted."""
        return bool(self.algorithm.classification)

    @property
    def error(self) -> float:
        """Share of wrong predictions, over all agents."""
        return float(self.mistakes.sum() / max(self.examples, 1))

    @property
    def mean_loss(self) -> float:
        """Objective per example, over all agents."""
        return float(self.loss.sum() / max(self.examples, 1))

    @property
    def nonzero_weights(self) -> int:
        """Weights that are not zero at some agent: with L1, the size of the model."""
        return int(np.count_nonzero(self.weights.any(axis=0)))

    def agent_weights(self, agent: int) -> np.ndarray:
        """Final weights (outputs, D) of one agent."""
        return self.weights[agent if len(self.weights) > 1 else 0]

    def model(self, encoding: Any = None) -> Any:
        """What the agents know, to predict with: `ddol.model.Model`.

        Parameters
        ----------
        encoding : Encoding, optional
            Of the data; by default that of the run's own, or columns by number and answers as they are.
        """
        chosen = self.encoding if encoding is None else encoding
        if chosen is None:
            chosen = import_module("ddol.streams.coding.encoding").Encoding()
        return import_module("ddol.model").model_of(self, chosen)

    @cached_property
    def bounds(self) -> dict[str, Any]:
        """Every theorem that holds here, beside the run: `ddol.measure.applicable.check_bounds`."""
        if not self.algorithm.update.experts:
            return {}  # theorems on mistakes are about experts; nothing is imported for the others
        found: dict[str, Any] = _measure("applicable").check_bounds(self)
        return found

    @cached_property
    def certificate(self) -> Any:
        """The regret certificate, where one was kept: `ddol.measure.certificate.Certificate`, or None."""
        if not self.moments or self.moments[-1].shadow is None:
            return None
        return _measure("certificate").certificate_of(self.moments[-1].shadow)

    @cached_property
    def local_certificates(self) -> tuple[Any, ...]:
        """A bound on the regret of each agent's own plays: `ddol.measure.certificate.LocalCertificate`."""
        if not self.moments or self.moments[-1].shadow is None:
            return ()
        made = _measure("certificate").local_certificates(self.moments[-1].shadow, self.loss)
        return tuple(made)

    def bound_curves(self) -> dict[str, np.ndarray]:
        """Name of every theorem that holds here → its bound at each point of the curves."""
        found: dict[str, np.ndarray] = _measure("applicable").bound_curves(self)
        return found

    @property
    def binding_certificate(self) -> Any:
        """The certificate if it is below the whole loss, else None."""
        made = self.certificate
        return made if made is not None and made.binds(float(self.loss.sum())) else None

    @property
    def labels(self) -> int:
        """Answers that were asked for."""
        return self.examples if self.state is None else int(self.state.labels.sum())

    @property
    def neighbour_answers(self) -> int:
        """Answers that neighbours gave in place of labels."""
        return 0 if self.state is None else self.state.neighbour_answers

    @cached_property
    def traffic(self) -> dict[tuple[int, int], tuple[int, int]]:
        """(sender, receiver) → (messages, bytes) of every edge that was used."""
        counted = self.edges
        if counted is None and self.messages and self.topology != "changing":
            receivers, senders = np.nonzero(self.algorithm.mixing.dense())
            apart = senders != receivers
            counts = np.array([self.messages, self.bytes_sent]) // np.count_nonzero(apart)
            counted = np.column_stack([senders, receivers, *np.tile(counts[:, None], len(apart))])[
                apart
            ]
        return {} if counted is None else {(i, j): (n, size) for i, j, n, size in counted.tolist()}

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and lists, as ``--json`` writes them."""
        kept = {} if self.certificate is None else {"certificate": self.certificate.to_dict()}
        if self.local_certificates:
            kept["local_certificates"] = [made.to_dict() for made in self.local_certificates]
        if self.edges is not None:
            busiest = np.argsort(-self.edges[:, 2], kind="stable")[:MOST_EDGES]
            kept["traffic"] = self.edges[np.sort(busiest)].tolist()
        return kept | {
            "algorithm": self.name,
            "engine": self.engine,
            "workers": self.workers,
            "agents": self.agents,
            "topology": self.topology,
            "mixing": self.mixing,
            "examples": self.examples,
            "rounds": self.rounds,
            "mistakes": self.mistakes.tolist(),
            "loss": self.loss.tolist(),
            "seconds": self.seconds,
            "examples_per_second": self.examples / max(self.seconds, 1e-9),
            "messages": self.messages,
            "bytes_sent": self.bytes_sent,
            "dropped": self.dropped,
            "refused": [0] * self.agents if self.refused is None else self.refused.tolist(),
            "labels": self.labels,
            "neighbour_answers": self.neighbour_answers,
            "consensus": self.consensus,
            "bounds": self.bounds,
            "nonzero_weights": self.nonzero_weights,
            "final_weights_norm": float(np.linalg.norm(self.weights.mean(axis=0))),
            **({} if self.algorithm.privacy is None else {"privacy": self.privacy}),
            "seed": self.seed,
            "version": self.version,
        }

    @property
    def privacy(self) -> dict[str, Any] | None:
        """The budget of what was sent, and how much of it every agent has spent; None without one.

        Examples
        --------
        >>> import ddol
        >>> data = np.eye(400), np.tile([1, -1], 200)
        >>> ddol.run(ddol.private(ddol.adaptive(), "epsilon:4,releases:2"), data, 2).privacy["used_up"]
        [True, True]
        """
        found: dict[str, Any] | None = _measure("sites").privacy_of(self)
        return found

    def sites(self, names: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Whom sharing helped: a row for each agent of a safe run; none of other runs.

        Parameters
        ----------
        names : sequence of str
            Of the agents; by default those of their sites, or their numbers.

        Examples
        --------
        >>> import ddol
        >>> trace = ddol.run(ddol.safe(ddol.dogd("logistic")), (np.eye(4), [1, -1, 1, -1]), 2)
        >>> [row["helped"] for row in trace.sites(("eu", "us"))]
        ['no', 'no']
        """
        known = tuple(getattr(self.encoding, "sites", None) or ())
        found: list[dict[str, Any]] = _measure("sites").sites_of(self, names or known)
        return found

    def to_frame(self, library: str = "pandas") -> Any:
        """The curves as a frame of pandas or polars, a row for each recorded round.

        Columns: rounds, examples, mistakes, error, loss, mean_loss, worst, consensus, and ``bound``
        followed by the name of every theorem that holds.
        """
        return _measure("curves").to_frame(self, library)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the trace to a file that `Trace.load` reads; nothing in it is ever executed.

        The algorithm must be made of ddol's own parts. Any trace can be pickled.
        """
        _measure("saved").save_trace(self, path)

    @staticmethod
    def load(path: str | PathLike[str]) -> Trace:
        """Read a trace that `save` wrote.

        Examples
        --------
        >>> import ddol, pathlib, tempfile
        >>> trace = ddol.run(ddol.dogd(), (np.eye(4), [1, -1, 1, -1]), ddol.ring(3))
        >>> path = pathlib.Path(tempfile.mkdtemp(), "run.trace")
        >>> trace.save(path)
        >>> ddol.Trace.load(path).to_dict() == trace.to_dict()
        True
        """
        found: Trace = _measure("saved").load_trace(path)
        return found

    def __repr__(self) -> str:
        """What it is, and the table: a screen of text."""
        mixing = f" ({self.topology}, {self.mixing})" if self.agents > 1 else ""
        head = (
            f"Trace of {self.name}: {self.agents} agent{'s' * (self.agents > 1)}{mixing}, "
            f"{self.rounds:,} rounds, {self.examples:,} examples in {self.seconds:.3g} s, "
            f"engine {self.engine}"
        )
        return f"{head}\n{self.table()}"

    def table(self) -> str:
        """A row per agent (the first ten, and the total) as text, and the size of the model.

        Agents are called by their sites where these have names.
        """
        sites = tuple(getattr(self.encoding, "sites", None) or ())
        names = [str(s) for s in sites] if len(sites) == self.agents else None
        width = max([7, *map(len, (names or [])[:10])])
        lines = [
            f"{'agent':>{width}} {'examples':>10} {'mistakes':>10} {'error %':>8} {'mean loss':>11}"
        ]
        seen = self.state.examples if self.state is not None else None
        for i in range(min(self.agents, 10)):
            n = int(seen[i]) if seen is not None else self.examples // self.agents
            name = f"{str(i) if names is None else names[i]:>{width}}"
            lines.append(_line(name, n, self.mistakes[i], self.loss[i], self.classification))
        if self.agents > 10:
            lines.append(f"{'…':>{width}}")
        total, name = self.mistakes.sum(), f"{'all':>{width}}"
        lines.append(_line(name, self.examples, total, self.loss.sum(), self.classification))
        lines.append(f"{self.nonzero_weights} of {self.weights[0].size} weights are not zero")
        return "\n".join(lines)

    def plot(
        self,
        ax: Any = None,
        what: str = "mistakes",
        against: str | None = None,
        data: Any = None,
    ) -> Any:
        """Draw a curve (extra ``plot``); returns the axes.

        Parameters
        ----------
        ax : matplotlib axes, optional
        what : str
            "mistakes" (error rate so far), "loss" (mean loss so far), "consensus", "traffic" (bytes),
            "edges" (messages of each), "bound" (mistakes beside the theorem that covers the run),
            "certificate", "drift" (of agents), "weights" (over time) or "regret" (beside its bound).
        against : "examples" seen by all agents, or "rounds", optional
            By default as the chart has it.
        data : (X, y), one stream, or one for each agent, optional
            Those of the run: regret is against the best weights for them.
        """
        return _measure("curves").plot(self, ax, what, against, data)


def _measure(module: str) -> Any:
    """A module of `ddol.measure`, which reads traces: found when it is asked for, and not before."""
    return import_module(f"ddol.measure.{module}")


def _line(name: str, n: int, mistakes: Any, loss: Any, classification: bool) -> str:
    share = f"{100 * mistakes / max(n, 1):8.2f}" if classification else f"{'–':>8}"
    wrong = f"{int(mistakes):10d}" if classification else f"{'–':>10}"
    return f"{name:>7} {n:10d} {wrong} {share} {loss / max(n, 1):11.5g}"
