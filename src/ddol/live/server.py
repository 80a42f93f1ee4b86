"""The old name of `ddol.lab.live.server`, for this version."""

from ddol.lazy import moved

__getattr__ = moved(__name__, "ddol.lab.live.server")
