"""Threads of one process: rounds in step, turns without a barrier, and barriers in compiled code."""
