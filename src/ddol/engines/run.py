"""The old name of `ddol.job.run`, for this version."""

from ddol.lazy import moved

__getattr__ = moved(__name__, "ddol.job.run")
