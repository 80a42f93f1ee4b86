"""What a run leaves: traces, regret, bounds, reports."""
