"""Data-distributed online learning."""
