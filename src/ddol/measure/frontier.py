"""The old name of `ddol.lab.frontier`, for this version."""

from ddol.lazy import moved

__getattr__ = moved(__name__, "ddol.lab.frontier")
