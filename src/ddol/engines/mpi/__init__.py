"""The ranks of an MPI job: calls from compiled code, heartbeats, and going on without lost ranks."""
