"""Safe agents: no random run may exceed its promise, and what safety costs and brings on real data.

python -m benchmarks.safe --runs 1000
python -m benchmarks.safe --errors cod-rna --seeds 8
"""

from __future__ import annotations

import argparse
import bz2
import lzma
import os
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
        drop=float(rng.choice([0.0, 0.3])),
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


def exceeded(runs: int) -> int:
    """Rows of so many random runs that lost more than was promised; the closest is told."""
    count, rows, closest = 0, 0, 0.0
    for seed in range(runs):
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


def examples(name: str, seed: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """A random part of a data set; elec in its own order."""
    if name == "elec":
        with lzma.open(DATA / "elec.csv.xz", "rt") as file:
            table = np.loadtxt(file, delimiter=",", skiprows=1)
        return table[:rows, :-1], np.where(table[:rows, -1] > 0, 1.0, -1.0)
    path = DATA / SETS[name]
    with (bz2.open if path.suffix == ".bz2" else open)(path, "rb") as file:
        X, y = load_svmlight_file(file)
    order = np.random.default_rng(seed).permutation(len(y))[:rows]
    return X[order].toarray(), np.where(y[order] == y.max(), 1.0, -1.0)


def errors(name: str, seeds: int, rows: int, agents: int) -> None:
    """Mean errors in percent: alone, plain sharing, and safe; and the worst site's excess over the better."""
    print(
        f"{name}, {agents} agents: alone, shared, safe, largest excess of a site over the better of both"
    )
    for flipped in (0, 1, 2, agents // 2):
        for topology in (ddol.complete(agents), ddol.ring(agents)):
            found = []
            for seed in range(seeds):
                X, y = examples(name, seed, rows)
                for agent in range(flipped):
                    y[agent::agents] *= -1.0
                n = len(y) // agents * agents
                X, y = X[:n], y[:n]
                plain = ddol.run(ddol.adaptive(), (X, y), topology).mistakes
                alone = [
                    ddol.run(ddol.adaptive(), (X[i::agents], y[i::agents])).mistakes[0]
                    for i in range(agents)
                ]
                safe = ddol.run(ddol.safe(ddol.adaptive()), (X, y), topology).mistakes
                found.append(100.0 * agents / n * np.array([alone, plain, safe]))
            alone, plain, safe = np.mean(found, axis=0)
            excess = (safe - np.minimum(alone, plain)).max()
            print(
                f"  {flipped} opposite, {topology.name:9s} {alone.mean():6.2f} {plain.mean():6.2f} "
                f"{safe.mean():6.2f} {excess:6.2f}",
                flush=True,
            )


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--errors", choices=[*SETS, "elec"])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=32_000)
    parser.add_argument("--agents", type=int, default=8)
    given = parser.parse_args()
    if given.errors:
        errors(given.errors, given.seeds, given.rows, given.agents)
    if given.runs or not given.errors:
        raise SystemExit(min(exceeded(given.runs or 200), 1))


if __name__ == "__main__":
    main()
