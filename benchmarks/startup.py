"""How long a user waits: import, first run, and a loss of one's own, each in a new process.

``python -m benchmarks.startup`` prints a table. *Cold* means that nothing has been compiled on this
machine; *warm* that an earlier process has left its compiled code on disk.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile

PROGRAM = """
import time
began = time.perf_counter()
import numpy as np
import ddol
run = ddol.run
imported = time.perf_counter()
rng = np.random.default_rng(0)
X = rng.standard_normal((1000, 10)); y = np.where(X[:, 0] > 0, 1.0, -1.0)
run(ddol.dogd(), (X, y), ddol.ring(4))
first = time.perf_counter()
run(ddol.dogd(), (X, y), ddol.ring(4))
second = time.perf_counter()

def value(z, y, p):
    return max(0.0, 1.0 - y * z) ** p[0]

def derivative(z, y, p):
    return -y * p[0] * max(0.0, 1.0 - y * z) ** (p[0] - 1.0)

run(ddol.dogd(ddol.Loss("own", value, derivative, (1.5,))), (X, y), ddol.ring(4))
own = time.perf_counter()
print(imported - began, first - began, second - first, own - second - (second - first))
"""
NAMES = ("import", "import and first run", "second run", "a new loss of one's own adds")


def seconds(cache: str | None) -> list[float]:
    """Times of one process, whose compiled code is in ``cache``, or where it usually is."""
    environment = dict(os.environ)
    if cache is not None:
        environment["DDOL_CACHE_DIR"] = cache
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [float(number) for number in done.stdout.split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=5, help="warm processes")
    turns = parser.parse_args().turns
    with tempfile.TemporaryDirectory() as cache:
        cold = seconds(cache)
        warm = list(zip(*[seconds(cache) for _ in range(turns)], strict=True))
    print("| seconds | cold | warm, median | warm, best |")
    print("|---|---|---|---|")
    for name, first, later in zip(NAMES, cold, warm, strict=True):
        print(f"| {name} | {first:.2f} | {statistics.median(later):.2f} | {min(later):.2f} |")


if __name__ == "__main__":
    main()
