"""What the live page costs: ``python -m benchmarks.live``.

Within one run that a browser looks at: processor time of telling the page where the run stands, and of the
threads that draw and serve it, beside that of learning.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import numpy as np

import ddol
from ddol.engines.progress import Progress
from ddol.lab.live.server import LiveServer
from ddol.lab.live.watched import WatchedRun

_BROWSER = """
import sys, urllib.request
urllib.request.urlopen(sys.argv[1]).read()
events = urllib.request.urlopen(sys.argv[1].replace("/?", "/events?"))
print(sum(line.startswith(b"data") for line in events))
"""


def main() -> None:
    """Run, and print what it cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=16, help="on a ring")
    parser.add_argument("--passes", type=int, default=50, help="over 400,000 examples")
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400_000, 54))
    y = np.sign(X[:, 0] + rng.standard_normal(len(X)))
    algorithm = ddol.dogd().on(ddol.ring(given.agents))
    ddol.run(algorithm, (X[:1000], y[:1000]))  # compiles
    watched, telling = WatchedRun(algorithm, X.shape[1]), 0.0

    def tell(progress: Progress) -> None:
        nonlocal telling
        began = time.thread_time()
        watched(progress)
        telling += time.thread_time() - began

    with LiveServer(watched) as server:
        browser = subprocess.Popen([sys.executable, "-c", _BROWSER, server.address], stdout=-1)
        thread, process = time.thread_time(), time.process_time()
        trace = ddol.run(algorithm, (X, y), passes=given.passes, on_progress=tell)
        learning = time.thread_time() - thread - telling
        serving = time.process_time() - process - learning - telling
    pages = int(browser.communicate()[0])
    share = (telling + serving) / learning
    print(
        f"{trace.examples:,} examples in {trace.seconds:.2f} s, {pages} pictures of the run: "
        f"telling {1e3 * telling:.1f} ms, serving {1e3 * serving:.1f} ms, "
        f"{100 * share:.2f} % of learning's {learning:.2f} s"
    )


if __name__ == "__main__":
    main()
