"""Many runs that answer one question: sweeps over settings and seeds, their table, charts and comparisons."""
