"""The old name of `ddol.lab.report`, for this version."""

from ddol.lazy import moved

__getattr__ = moved(__name__, "ddol.lab.report")
