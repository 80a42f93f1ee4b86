"""Runs that are lists of events: their players, mailboxes, messages and checkpoints."""
