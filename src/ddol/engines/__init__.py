"""Runs: the compiled kernels, the engines that host agents, and the learner that feeds them."""
