"""The paper's experiments again: data, runs, figures, and its claims one by one.

Every figure is a small TOML file in ``figures``; `ddol reproduce` is the command.
"""
