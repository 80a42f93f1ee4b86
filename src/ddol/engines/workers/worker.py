"""Assembling a kernel's worker from an algorithm and a state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from ddol.algorithm import Algorithm
from ddol.communicate.mixing import Changing
from ddol.compiled import Entry, address, packed
from ddol.engines import kernels
from ddol.engines.kernels import COPIES, Examples, Links, Memory, Rules, Shape, Worker
from ddol.engines.kernels import layout as places
from ddol.engines.state import (
    State,
    averages_together,
    layout_of,
    loops_of,
    most_heard,
    sharing,
    zeros,
)
from ddol.engines.workers.inputs import (
    RowsPlace,
    drawn,
    factors_of,
    neighbours_asked,
    rates_of,
    scores_at,
    with_pending,
)
from ddol.engines.workers.partition import Matrices, Partition, Snapshots, order_of
from ddol.engines.workers.shares import part_of
from ddol.engines.workers.workspace import Workspace
from ddol.streams.rows import Block, Rows
from ddol.update.contract import MESSAGES
from ddol.update.losses import REGRESSION


class KernelWorker:
    """A worker with the memory that its addresses point to.

    Parameters
    ----------
    algorithm : Algorithm
    state : State
        Of this worker's agents only; its arrays are written to in place.
    partition : Partition
    separate : bool
        Every agent has a copy of the weights of its own, even where one could serve all, and whole
        messages are averaged.
    """

    def __init__(
        self, algorithm: Algorithm, state: State, partition: Partition, separate: bool = False
    ) -> None:
        self.algorithm, self.partition = algorithm, partition
        self.sharing = COPIES if separate else sharing(algorithm)
        self.separate = separate
        self.complete = averages_together(algorithm)
        self.loops = loops_of(algorithm)
        self.parameters = np.array([*algorithm.update.parameters(), 0.0], float)
        self.loss_parameters = np.array([*algorithm.loss.parameters, 0.0])
        asking = algorithm.asking
        self.asks = np.empty(0) if asking is None else asking.parameters(algorithm.update.penalty)
        self.factors = factors_of(algorithm, partition)
        self.neighbours = neighbours_asked(algorithm)
        if len(self.neighbours) and partition.agents < algorithm.n_agents:
            raise ValueError(
                f"`query` asks neighbours, which needs all {algorithm.n_agents} agents in one worker; this "
                f"one has {partition.agents}: use the local engine"
            )
        self._parts: dict[bool, np.ndarray] = {}
        self._turns: dict[tuple[bool, int], int] = {}
        self._workers: dict[bool, tuple[Entry, bytes]] = {}
        self._places: dict[int, RowsPlace] = {}
        self.adopt(state)

    def adopt(self, state: State) -> None:
        """Work on the arrays of ``state`` from now on."""
        self.state = state
        D, partition = state.n_features, self.partition
        self.layout = layout_of(self.algorithm, D)
        self.modes = np.array(self.layout.modes, np.int64)
        self.workspace = Workspace(
            self.algorithm, D, partition.agents, partition.workers, self.separate
        )
        self.fixed_matrices = None if self._changing else self._matrices([1])
        self._workers.clear()
        self._places.clear()

    @property
    def _changing(self) -> bool:
        return isinstance(self.algorithm.mixing, Changing)

    def _matrices(self, rounds: list[int]) -> Matrices:
        """Rows of the mixing matrices of some rounds that belong to this worker's agents."""
        first, last = self.partition.first, self.partition.first + self.partition.agents
        starts = np.zeros((len(rounds), self.partition.agents + 1), np.int64)
        order = np.zeros((len(rounds), 2, self.partition.agents), np.int64)
        columns, weights, before = [np.empty(0, np.int64)], [np.empty(0)], 0
        for place, t in enumerate(rounds):
            silent = len(rounds) > 1 and t % self.algorithm.period
            if self.sharing != COPIES or self.complete or silent:
                continue
            indptr, agents, values = self.algorithm.mixing.at(t).csr()
            lo, hi = indptr[first], indptr[last]
            starts[place] = indptr[first : last + 1] - lo + before
            places = self.partition.places
            columns.append(agents[lo:hi] if places is None else places[agents[lo:hi]])
            weights.append(values[lo:hi])
            if len(indptr) == self.partition.agents + 1:
                order[place] = order_of(indptr, agents)
            before += int(hi - lo)
        return Matrices(starts, np.concatenate(columns), np.concatenate(weights), order)

    @property
    def _meets(self) -> bool:
        """Whether agents have copies that they average."""
        return self.sharing == COPIES and self.algorithm.n_agents > 1

    def _compiled(self, dense: bool) -> np.ndarray:
        """Addresses of the parts that this run needs, for dense or sparse rows."""
        if dense in self._parts:
            return self._parts[dense]
        own = self.sharing == COPIES
        wanted = {
            "score",
            "step",
            "begin",
            "finish",
            "observe",
            "hear",
            "squares",
            "blend",
            "judge",
        }
        whole = {"weights"}
        if not own:
            wanted |= {"score_unseen", "absorb", "notice", "commit"}
            whole |= {"commit"}
        if self._meets or self.algorithm.update.experts:
            whole |= MESSAGES
        if self._meets and not dense:
            wanted |= MESSAGES | {"weights"}
        parts = self.loops.addresses(dense, wanted, whole)
        if not own:
            # An agent sees its example before it predicts, and the copy of all sees it afterwards.
            parts[places.SCORE], parts[places.OBSERVE] = parts[places.SCORE_UNSEEN], 0
        loss = self.algorithm.loss
        together = loss.address_together(self.algorithm.outputs)
        robust = self.algorithm.robust
        averages = 0 if robust is None else robust.address()
        value, _ = loss.addresses()
        several = value, loss.address_of_both(), 0, together, averages
        self._parts[dense] = np.append(parts, several)
        return self._parts[dense]

    @cached_property
    def _direct(self) -> bool:
        """Whether the one agent there is learns by whole turns: see `ddol.update.turns`."""
        update, loops = self.algorithm.update, self.loops
        alone = self.algorithm.n_agents == 1 and not update.experts
        return alone and loops.direct and (update.l2 == 0.0 or loops.squares is not None)

    @property
    def _arrival(self) -> bool:
        """Whether slopes are taken when answers arrive; in rounds without a delay these are the same."""
        late = self.separate or self.algorithm.delay > 0
        return self.algorithm.at_arrival and late and not self.layout.kept

    @property
    def _adds_ones(self) -> bool:
        """Whether turns take rows without the 1 in front of them."""
        return self._direct and self.loops.step_and_score is not None

    def _prepare(self, rows: Rows) -> None:
        """Compile what only rounds need."""
        if not self._direct:
            return
        kind = rows.dense, int(rows.intercept and self._adds_ones)
        if kind not in self._turns:
            loss = self.algorithm.loss
            self._turns[kind] = self.loops.turn(*kind, loss.value, loss.derivative)
        self._compiled(rows.dense)[places.TURN] = self._turns[kind]

    def _worker(self, dense: bool, matrices: Matrices) -> tuple[Entry, bytes]:
        """The kernel for these rows, and its worker."""
        parts = self._compiled(dense)
        worker = Worker(
            self._rules(parts),
            self._shape(),
            self._memory(),
            self.workspace.scratch(),
            self._links(matrices),
        )
        return kernels.kernel_for(worker, self._direct), packed(worker)

    def _rules(self, parts: np.ndarray) -> Rules:
        algorithm, update = self.algorithm, self.algorithm.update
        kind = kernels.REGRESSION if algorithm.loss.task == REGRESSION else kernels.BINARY
        return Rules(
            n_agents=algorithm.n_agents,
            kind=kernels.CLASSES if algorithm.outputs > 1 else kind,
            sharing=self.sharing,
            additive=self.loops.additive,
            experts=bool(update.experts),
            shares=bool(update.experts and getattr(update, "shares", False)),
            branchless_step=self.loops.branchless_step,
            adds_ones=self._adds_ones,
            randomized=bool(update.randomized),
            tie=float(update.tie),
            period=int(algorithm.period),
            delay=int(algorithm.delay),
            C=float(algorithm.C),
            l2=float(update.l2),
            parts=parts.ctypes.data,
            p=self.parameters.ctypes.data,
            q=self.loss_parameters.ctypes.data,
            arrival=self._arrival,
            asks=self.asks.ctypes.data if len(self.asks) else 0,
            factors=self.factors.ctypes.data if len(self.factors) else 0,
            neighbours=self.neighbours.ctypes.data if len(self.neighbours) else 0,
        )

    def _shape(self) -> Shape:
        copies, outputs, rows, D = self.state.theta.shape
        layout, scalars = self.layout, self.state.scalars.shape[2]
        return Shape(
            D=D,
            agents=self.partition.agents,
            copies=copies,
            batch=int(self.algorithm.batch),
            outputs=int(self.algorithm.outputs),
            states=outputs,
            rows=rows,
            scalars=scalars,
            sum_rows=layout.sums,
            maxima_rows=layout.maxima,
            message_rows=len(layout.message_rows),
            linear_scalars=layout.linear_scalars,
            largest_scalars=layout.largest_scalars,
            statistics=layout.statistics[0],
            counts=layout.statistics[1],
            sampled=layout.sampled,
            kept=layout.kept,
            wires=layout.boxes.wires,
            box_row=layout.boxes.row,
            box_rows=layout.boxes.rows,
            box_scalar=layout.boxes.scalar,
            box_scalars=layout.boxes.scalars,
            most_heard=most_heard(self.algorithm),
            rows_bytes=8 * rows * D,
            scalars_bytes=8 * scalars,
            delta_bytes=8 * (layout.sums * D + layout.linear_scalars),
            maxima_bytes=8 * (layout.maxima * D + layout.largest_scalars),
        )

    def _memory(self) -> Memory:
        state = self.state
        return Memory(
            theta=state.theta.ctypes.data,
            scalars=state.scalars.ctypes.data,
            sums=state.sums.ctypes.data if state.sums.size else 0,
            mistakes=state.mistakes.ctypes.data,
            loss=state.loss.ctypes.data,
            expected=state.expected.ctypes.data,
            examples=state.examples.ctypes.data,
            slopes=state.slopes.ctypes.data,
            asking=state.asking.ctypes.data,
        )

    def _links(self, matrices: Matrices) -> Links:
        # A worker that hosts all agents writes messages to memory of its own; else they share a buffer.
        partition = self.partition
        there = partition.packed if partition.workers > 1 else None
        sent = self.workspace.packed if there is None else there
        return Links(
            workers=partition.workers,
            complete=bool(self.complete),
            alike=self.algorithm.mixing.is_uniform_complete,
            whole=self.layout.whole,
            block=self.workspace.block,
            packed=sent.ctypes.data,
            buffers=1 if there is None else there.shape[0],
            buffer_rows=partition.agents if there is None else there.shape[1],
            own=partition.own,
            starts=matrices.starts.ctypes.data,
            matrices=len(matrices.starts),
            order=matrices.order.ctypes.data,
            columns=matrices.columns.ctypes.data,
            weights=matrices.weights.ctypes.data,
            modes=self.modes.ctypes.data,
            linear=not self.modes.any() and self.algorithm.robust is None,
            reduce=partition.reduce,
            reduce_max=partition.reduce_max,
            exchange=partition.exchange,
            context=partition.context,
        )

    def at_hand(self, rows: Rows, scores: int = 0) -> tuple[bytes, bytes]:
        """The worker, and rows that events name by themselves: there are no rounds."""
        if self.workspace.meet(self.state, rows.dense):
            self._workers.clear()
        numbers = {
            **dict.fromkeys(Examples._fields, 0),
            "t": 1,
            "scores": scores,
            **self._place_of(rows).numbers,
        }
        return self._any_worker(rows.dense), packed(Examples(**numbers))

    def play_block(self, block: Block, after: Sequence[int] = ()) -> int:
        """Play the rounds of a block that has no new features; 0, or the communicator's error."""
        state = self.state
        rows, predicted, learned, pending = with_pending(state, block)
        rows = rows.widen(state.n_features)
        status = self.play(rows, predicted, learned, state.t, after, scores_at(block, rows))
        self.state = state.after(len(predicted), pending)
        return status

    def play(
        self,
        rows: Rows,
        predicted: np.ndarray,
        learned: np.ndarray,
        t: int,
        after: Sequence[int] = (),
        scores: int = 0,
    ) -> int:
        """Play the rounds of a table; 0, or the communicator's error.

        What is seen when as many rounds are played as `after` says is kept in `snapshots`. At the address
        `scores`, if there is one, the scores of the rows are written.
        """
        self.snapshots = self._room(after) if len(after) else self.nothing_seen
        if not len(predicted):  # a snapshot only, whatever kind of rows there were
            kernels.snapshot_now(self._any_worker(), self._snapshot_places())
            return 0
        for lo, hi in self._pieces(len(predicted)):
            matrices = self.fixed_matrices or self._matrices(list(range(t + lo, t + hi)))
            seen, told = (
                table if hi - lo == len(table) else table[lo:hi] for table in (predicted, learned)
            )
            status = self._play(rows, seen, told, t + lo, matrices, lo, scores)
            if status != 0:
                return status
        return 0

    def _room(self, after: Sequence[int]) -> Snapshots:
        """Where to write what is seen after some rounds."""
        n, agents = len(after), self.partition.agents
        metrics = np.empty((n, 2))
        metrics[:] = 0.0, np.nan
        sums = np.empty((n, *self._shape_of_sums))
        return Snapshots(np.array(after, np.int64), np.empty((n, agents, 4)), metrics, sums)

    @property
    def numbers_seen(self) -> int:
        """Numbers of one snapshot when all are together, the same for every worker."""
        return 4 * self.algorithm.n_agents + int(np.prod(self._shape_of_sums))

    @property
    def _shape_of_sums(self) -> tuple[int, ...]:
        """Of what has to be put together with what other workers see."""
        several = self._meets and self.partition.workers > 1
        return self.state.theta.shape[1::2] if several else (0, 0)

    @cached_property
    def nothing_seen(self) -> Snapshots:
        """No snapshots."""
        return self._room(())

    def _play(
        self,
        rows: Rows,
        predicted: np.ndarray,
        learned: np.ndarray,
        t: int,
        matrices: Matrices,
        before: int,
        scores: int,
    ) -> int:
        """Play one piece, and take the snapshots in it; ``before`` rounds came before it."""
        # Names keep the memory alive until the kernel is done with the addresses.
        seen = np.ascontiguousarray(predicted)
        told = seen if learned is predicted else np.ascontiguousarray(learned)
        examples, kept = self._examples(rows, seen, told, t, scores)
        if self.workspace.meet(self.state, rows.dense):
            self._workers.clear()
        if rows.dense not in self._workers or matrices is not self.fixed_matrices:
            self._workers[rows.dense] = self._worker(rows.dense, matrices)
        self._prepare(rows)
        kernel, worker = self._workers[rows.dense]
        places_seen = self._snapshot_places()
        status = kernels.play(kernel, worker, examples, places_seen, before, len(predicted))
        del kept
        return status

    def _examples(
        self, rows: Rows, predicted: np.ndarray, learned: np.ndarray, t: int, scores: int
    ) -> tuple[bytes, tuple[np.ndarray, ...]]:
        """Rows and tables as the kernel takes them, and arrays that must stay in memory meanwhile."""
        chances = self._chances(t, len(predicted))
        rates, scale, exponent = rates_of(self.algorithm.rate, t, len(predicted))
        place = self._place_of(rows)
        usual = predicted is learned and not (scores or chances.size or len(rates))
        if usual and place.table is predicted:
            return place.at(t), ()
        first = predicted.ctypes.data
        examples = packed(
            Examples(
                **place.numbers,
                predicted=first,
                learned=first if predicted is learned else learned.ctypes.data,
                columns=predicted.shape[1],
                first=self.partition.column,
                chances=address(chances),
                rates=address(rates),
                scale=scale,
                exponent=exponent,
                rounds=len(predicted),
                t=t,
                scores=scores,
            )
        )
        if usual:
            place.table, place.examples = predicted, examples
        return examples, (chances, rates)

    def _snapshot_places(self) -> bytes:
        """Where what is seen is to be written."""
        rounds, counters, metrics, sums = self.snapshots
        if not len(rounds):
            return _NOTHING_SEEN
        sees = self._meets or self.algorithm.update.experts
        return packed(
            kernels.SnapshotPlaces(
                n=len(rounds),
                rounds=rounds.ctypes.data,
                counters=counters.ctypes.data,
                metrics=metrics.ctypes.data if sees else 0,
                sums=sums.ctypes.data if sums.size else 0,
            )
        )

    def _pieces(self, rounds: int) -> Iterator[tuple[int, int]]:
        """All rounds at once, but few at a time where each has a matrix of its own."""
        size = 256 if self._changing else rounds
        return ((lo, min(lo + size, rounds)) for lo in range(0, rounds, size))

    def _chances(self, t: int, rounds: int) -> np.ndarray:
        """Uniform numbers for the draws of the rounds t, …: a function of seed, agent and round."""
        batch = self.algorithm.batch
        if not self.algorithm.draws:
            return _NO_CHANCES
        chances = np.empty((rounds, self.partition.agents, batch))
        for a in range(self.partition.agents):
            place = self.partition.first + a, (t - 1) * batch
            chances[:, a] = drawn(self.state.seed, *place, (rounds, batch))
        return chances

    def weights(self) -> np.ndarray:
        """Primal weights of this worker's copies: (copies, outputs, D)."""
        copies, outputs, _, D = self.state.theta.shape
        out = zeros((copies, outputs, D))
        kernels.read_weights(self._any_worker(), out.ctypes.data)
        return out

    def scores(self, rows: Rows, copy: int = 0) -> np.ndarray:
        """Scores (n, outputs) of rows by one copy, as it would predict them now."""
        out = np.empty((len(rows), self.algorithm.outputs))
        self.write_scores(rows, copy, iter([range(len(rows))]), out)
        return out

    def write_scores(self, rows: Rows, copy: int, taken: Iterator[range], out: np.ndarray) -> None:
        """Write the scores of some parts of the rows to their places in ``out`` (n, outputs)."""
        rows = rows.widen(self.state.n_features)
        examples = self._place_of(rows).alone
        parts, worker = self._compiled(rows.dense), self._any_worker(rows.dense)
        if parts[places.SCORE_UNSEEN] == 0:
            found = self.loops.addresses(rows.dense, {"score_unseen"}, ())
            parts[places.SCORE_UNSEEN] = found[places.SCORE_UNSEEN]
        for part in taken:
            kernels.read_scores(worker, examples, copy, part, out.ctypes.data)
        if rows.nbytes > _LARGE:
            self._places.clear()

    def _place_of(self, rows: Rows) -> RowsPlace:
        """Where rows are, which are often those of a time before."""
        found = self._places.get(id(rows))
        if found is None or found.rows is not rows:
            if len(self._places) >= _MOST_PLACES or rows.nbytes > _LARGE:
                self._places.clear()
            found = self._places[id(rows)] = RowsPlace(rows)
            if self.workspace.begin(rows):
                self._workers.clear()
        return found

    def _any_worker(self, dense: bool | None = None) -> bytes:
        """A worker for these rows, or any at all, that plays no rounds."""
        found = next(iter(self._workers), True) if dense is None else dense
        if found not in self._workers:
            nothing = np.empty((1, 1), np.int64), np.empty(0, np.int64), np.empty(0)
            empty = Matrices(*nothing, np.empty((1, 2, 0), np.int64))
            self._workers[found] = self._worker(found, self.fixed_matrices or empty)
        return self._workers[found][1]


_MOST_PLACES, _LARGE = 64, 1 << 16  # large rows must not be kept in memory
_NO_CHANCES = np.empty((0, 0, 0))
_NOTHING_SEEN = packed(kernels.SnapshotPlaces(0, 0, 0, 0, 0))


def worker_of_all(algorithm: Algorithm, state: State) -> KernelWorker:
    """One worker that hosts all agents, at a copy of the state."""
    n = algorithm.n_agents
    # Copied as a part is: vectors in memory that begins with a cache line cross none.
    return KernelWorker(algorithm, part_of(state, 0, n), Partition(0, n))
