"""Runs that are lists of events: who plays them, and what agents know and say meanwhile."""
