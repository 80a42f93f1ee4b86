"""The live node: an agent that serves predictions, learns from late labels and gossips with its peers."""
