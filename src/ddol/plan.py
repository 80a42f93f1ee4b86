"""The old name of `ddol.lab.plan`, for this version."""

from ddol.lazy import moved

__getattr__ = moved(__name__, "ddol.lab.plan")
