"""Transports of messages between nodes: an interface of four calls, and its implementations."""
