"""A job: which data are learned, by which algorithm, on which network, when, where, and what is kept."""
