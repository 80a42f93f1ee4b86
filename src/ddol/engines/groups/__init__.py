"""Runs in groups of processes, as MPI and Ray have them: dealing, rounds and recovery."""
