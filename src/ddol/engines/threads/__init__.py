"""Threads of one process: rounds in step, turns without a barrier, and how compiled code meets."""
