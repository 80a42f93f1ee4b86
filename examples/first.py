"""The first example of the README: N agents need a fraction of the rounds for nearly the same error."""

import sys

import ddol
from ddol.streams import synthetic

stream = synthetic.linear(n_examples=200_000, n_features=50, noise=0.05, seed=1)
networks = 1, ddol.ring(4), ddol.complete(16)
traces = [ddol.run(ddol.adaptive(), stream, network) for network in networks]

axes = None
for trace in traces:
    axes = trace.plot(axes, against="rounds")
    print(trace.table())

one, four, sixteen = (trace.rounds for trace in traces)
below = 100 * traces[-1].error - 1
axes.annotate("", (sixteen, below), (one, below), arrowprops={"arrowstyle": "->"})
axes.text(four, below - 3, "1/16 of the rounds", ha="center")
axes.set(xlim=(20, 4e5), ylim=(0, 45), xlabel="rounds, with one example for each agent")
axes.set_title("200,000 examples, dealt to 1, 4 and 16 agents", fontsize="medium")
axes.figure.set_size_inches(7, 3.9)
axes.figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "first.svg", bbox_inches="tight")
