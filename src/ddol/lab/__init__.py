"""Around the learner: the paper's experiments, reports, the live page, the frontier, the cost model.

Nothing outside depends on this package but the command line, which imports it where a command needs it.
"""
