"""One kernel's worker: its part of the state, its memory, its shadow, and scores from it."""
