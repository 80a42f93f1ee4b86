"""Safe agents: no random run may exceed its promise, and what safety costs and brings on real data.

python -m benchmarks.safe                       # the table of docs/background/safe.md
python -m benchmarks.safe --errors cod-rna --seeds 2
python -m benchmarks.safe --runs 10000
python -m benchmarks.safe --costs 6
"""

from __future__ import annotations

import argparse
import bz2
import functools
import lzma
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file

import ddol

DATA = Path(os.environ.get("DDOL_DATA", Path(__file__).parents[2] / "shared" / "data"))
LIES = ("flip", "zero", "noise", "alie", "labels", "units:1000")
SETS = {
    "cod-rna": "cod-rna.bz2",
    "covtype": "covtype.libsvm.binary.scale.bz2",
    "svmguide1": "svmguide1",
}


def random_run(seed: int) -> list[dict]:
    """Rows of one safe run with random answers that drift, liars, delays and losses of messages."""
    rng = np.random.default_rng(seed)
    n, rounds, width = int(rng.integers(2, 7)), int(rng.integers(20, 120)), int(rng.integers(1, 5))
    loss = str(rng.choice(["logistic", "hinge", "squared", "absolute"]))
    X = rng.standard_normal((n * rounds, width)) * rng.choice([1.0, 10.0])
    truth = rng.standard_normal((1 + int(rng.integers(0, 4)), n, width))
    period = np.arange(n * rounds) * len(truth) // (n * rounds)
    scores = (X * truth[period, np.arange(n * rounds) % n]).sum(axis=1) + rng.standard_normal(
        len(X)
    )
    y = scores if loss in ("squared", "absolute") else np.where(scores > 0, 1.0, -1.0)
    liars = {int(a): str(rng.choice(LIES)) for a in rng.permutation(n)[: int(rng.integers(0, n))]}
    conditions = ddol.Conditions(
        liars=liars,
        drop_messages=float(rng.choice([0.0, 0.3])),
        delay=int(rng.choice([0, 0, 3])),
        latency=float(rng.choice([0.0, 2.0])),
    )
    plain = rng.random() < 0.5 and loss != "squared"  # whose steps would leave the range of numbers
    learner = ddol.dogd(loss, l2=0.0, rate=0.3) if plain else ddol.adaptive(loss)
    network = ddol.ring(n) if rng.random() < 0.5 else ddol.complete(n)
    schedule = str(rng.choice(["rounds", "async", "gossip"]))
    trace = ddol.run(
        ddol.safe(learner), (X, y), network, schedule=schedule, conditions=conditions, seed=seed
    )
    return trace.sites()


def exceeded(runs: int, first: int = 0) -> int:
    """Rows of so many random runs that lost more than was promised; the closest is told."""
    count, rows, closest = 0, 0, 0.0
    for seed in range(first, first + runs):
        for row in random_run(seed):
            rows += 1
            pairs = zip(row["regret_with_switches"], row["bound_with_switches"], strict=True)
            room = 1e-9 * (1.0 + row["loss"])  # sums are rounded
            shares = [r / (b + room) for r, b in [(row["regret"], row["bound"]), *pairs]]
            closest = max(closest, *shares, 0.0)
            count += any(share > 1.0 for share in shares)
    print(
        f"{runs} runs, {rows} agents: {count} exceed their promise; the closest reached {closest:.2f} of it"
    )
    return count


@functools.cache
def _loaded(name: str) -> tuple:
    path = DATA / SETS[name]
    with (bz2.open if path.suffix == ".bz2" else open)(path, "rb") as file:
        return load_svmlight_file(file)


def examples(name: str, seed: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """A random part of a data set; elec in its own order."""
    if name == "elec":
        with lzma.open(DATA / "elec.csv.xz", "rt") as file:
            table = np.loadtxt(file, delimiter=",", skiprows=1)
        return table[:rows, :-1], np.where(table[:rows, -1] > 0, 1.0, -1.0)
    X, y = _loaded(name)
    order = np.random.default_rng(seed).permutation(len(y))[:rows]
    return X[order].toarray(), np.where(y[order] == y.max(), 1.0, -1.0)


@dataclass(frozen=True)
class Site:
    """Data in which some sites are unlike the others: what each does to its features and labels."""

    name: str
    change: Callable[[np.ndarray, np.ndarray, int, int, np.random.Generator], None]

    def made(self, X: np.ndarray, y: np.ndarray, agents: int, seed: int) -> None:
        """Change examples in place; example k goes to site k mod agents."""
        for site in range(agents):
            features, labels = X[site::agents], y[site::agents]
            self.change(features, labels, site, agents, np.random.default_rng([seed, site]))


def opposite(count: Callable[[int], int]) -> Callable:
    """The first sites have opposite labels."""

    def change(X: np.ndarray, y: np.ndarray, site: int, agents: int, rng: object) -> None:
        y *= -1.0 if site < count(agents) else 1.0

    return change


def clusters(X: np.ndarray, y: np.ndarray, site: int, agents: int, rng: object) -> None:
    """The second half of the sites has its columns in another order."""
    if 2 * site >= agents:
        X[:] = np.roll(X, 1, axis=1)


def units(X: np.ndarray, y: np.ndarray, site: int, agents: int, rng: np.random.Generator) -> None:
    """Every site has units and offsets of its own."""
    X *= 10.0 ** rng.uniform(-2, 2, X.shape[1])
    X += X.std(axis=0) * rng.normal(size=X.shape[1])


def mirrored(
    X: np.ndarray, y: np.ndarray, site: int, agents: int, rng: np.random.Generator
) -> None:
    """Every site has the sign of some features turned round."""
    X *= rng.choice([-1.0, 1.0], X.shape[1])


CASES = (
    Site("all alike", opposite(lambda agents: 0)),
    Site("⅛ opposite", opposite(lambda agents: agents // 8)),
    Site("¼ opposite", opposite(lambda agents: agents // 4)),
    Site("½ opposite", opposite(lambda agents: agents // 2)),
    Site("two clusters", clusters),
    Site("own units", units),
    Site("mirrored", mirrored),
)


def compared(
    data: tuple[np.ndarray, np.ndarray], network: ddol.Topology, liars: dict[int, str], seed: int
) -> np.ndarray:
    """Errors in percent (alone, plain sharing, safe) of all sites that do not lie."""
    conditions = ddol.Conditions(liars=liars) if liars else None
    plain = ddol.run(ddol.adaptive(), data, network, seed=seed)
    safe = ddol.run(ddol.safe(ddol.adaptive()), data, network, conditions=conditions, seed=seed)
    alone = [row["error_alone"] for row in safe.sites()]
    found = 100.0 * np.array(
        [alone, *(each.mistakes / each.state.examples for each in (plain, safe))]
    )
    return np.delete(found, list(liars), axis=1)


def told(what: Sequence[str], runs: Sequence[np.ndarray]) -> None:
    """Print a line of the table: means over sites and seeds, and the largest excess of one site."""
    alone, plain, safe = found = np.mean(runs, axis=0)
    lies = "lie" in what[-1]
    best = alone if lies else np.minimum(alone, plain)
    means = " | ".join(f"{each.mean():.2f}" for each in found)
    print(f"| {' | '.join(what)} | {means} | {(safe - best).max():.2f} |", flush=True)


def errors(names: Sequence[str], seeds: int, rows: int) -> None:
    """Print the table of docs/background/safe.md."""
    print("| data | sites | network | case | alone | sharing | safe | worst site |")
    print("|---|---|---|---|---|---|---|---|")
    for name in names:
        for agents in (8, 16):
            for network in (ddol.complete(agents), ddol.ring(agents)):
                what = name, str(agents), network.name
                for case in CASES:
                    runs = []
                    for seed in range(seeds):
                        X, y = _cut(examples(name, seed, rows), agents)
                        case.made(X, y, agents, seed)
                        runs.append(compared((X, y), network, {}, seed))
                    told((*what, case.name), runs)
                for count in (3, 12) if agents == 16 else ():
                    for lie in LIES:
                        liars = dict.fromkeys(range(16) if count > 8 else (0, 5, 9), lie)
                        liars = dict.fromkeys(list(liars)[:count], lie)
                        runs = []
                        for seed in range(seeds):
                            data = _cut(examples(name, seed, rows // 2), agents)
                            runs.append(compared(data, network, liars, seed))
                        told((*what, f"{count} lie: {lie}"), runs)


def _cut(data: tuple[np.ndarray, np.ndarray], agents: int) -> tuple[np.ndarray, np.ndarray]:
    n = len(data[1]) // agents * agents
    return data[0][:n].copy(), data[1][:n].copy()


def costs(repeats: int) -> None:
    """Print how many times the processor time of one learner whole runs take: the best of so many."""
    places = ("elec", 1), ("cod-rna", 1), ("cod-rna", 8), ("cod-rna", 64)
    kinds = ddol.adaptive(), ddol.safe(ddol.adaptive()), ddol.adaptive(memory="auto")
    print("| data | network | ns an example | safe: times | memory auto: times |")
    print("|---|---|---|---|---|")
    for name, agents in places:
        network = ddol.ring(agents) if agents > 8 else ddol.complete(agents)
        data, best = examples(name, 0, 60_000), [math.inf] * len(kinds)
        for _ in range(repeats):
            for k, algorithm in enumerate(kinds):
                began = time.process_time()
                ddol.run(algorithm, data, network)
                best[k] = min(best[k], time.process_time() - began)
        times = " | ".join(f"{each / best[0]:.1f}" for each in best[1:])
        what = f"{network.name} of {agents}" if agents > 1 else "one agent"
        print(f"| {name} | {what} | {1e9 * best[0] / len(data[1]):.0f} | {times} |", flush=True)


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="seed of the first run")
    parser.add_argument("--costs", type=int, default=0, help="how often each is timed")
    parser.add_argument("--errors", nargs="*", choices=[*SETS, "elec"])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--rows", type=int, default=16_000)
    given = parser.parse_args()
    if given.costs:
        costs(given.costs)
    if given.errors is not None or not (given.runs or given.costs):
        errors(given.errors or [*SETS, "elec"], given.seeds, given.rows)
    if given.runs:
        raise SystemExit(min(exceeded(given.runs, given.first), 1))


if __name__ == "__main__":
    main()
