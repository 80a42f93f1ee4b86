"""The first example of the README: N agents need a fraction of the rounds for the same error."""

import sys

import ddol
from ddol.streams import synthetic

stream = synthetic.linear(n_examples=200_000, n_features=50, noise=0.05, seed=1)
axes = None
for network in (1, ddol.ring(4), ddol.complete(16)):
    trace = ddol.run(ddol.adaptive(), stream, network)
    axes = trace.plot(axes, against="rounds")
    print(trace.table())
axes.figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "first.svg")
