"""The threads of NumPy's linear algebra, which commands that bring their own do without."""

from __future__ import annotations

import os
import sys


def without_blas_threads() -> None:
    """Have NumPy, once it is imported, start no threads of its own, unless the environment asks for them.

    They spin for a while when they are started, beside the threads that read, learn and score, which share
    the cores among themselves: on two cores a small run took a third longer.
    """
    if "numpy" not in sys.modules:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
