"""The ranks of an MPI job: calls from compiled code, who is alive, and going on without who is not."""
