"""What a run keeps of its past: curves, weights, messages sent, and the rounds as events."""
