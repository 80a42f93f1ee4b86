"""Where rounds run: the compiled kernel, the engines that host it, and the learner that feeds them."""
