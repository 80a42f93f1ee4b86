"""The processor that code is compiled for: a level that many share, rather than this very one.

Code for a level runs on every machine that has it. So it can be made where the package is built, and two
machines of one level play a run to the same bit.
"""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path
from typing import NamedTuple

# The levels of x86-64, the richest first, and what each adds to the next. The fourth, with AVX-512, is not
# worth a difference in bits: rows are short, so that vectors of 512 bits gain nothing on dense ones, and
# gathering and scattering by them makes sparse ones slower.
_LEVELS = {
    "x86-64-v3": ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"),
    "x86-64-v2": ("cx16", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"),
    "x86-64": (),
}


class Target(NamedTuple):
    """The processor, as LLVM names it."""

    triple: str
    cpu: str
    features: str


@functools.cache
def target() -> Target:
    """The target of this machine."""
    told = _told_by_linux()
    if told is not None:
        return Target("x86_64-unknown-linux-gnu", level_of(told), "")
    import llvmlite.binding as llvm  # it takes long

    triple = llvm.get_process_triple()
    present = llvm.get_host_cpu_features()
    if not triple.startswith("x86_64"):
        return Target(triple, llvm.get_host_cpu_name(), present.flatten())
    return Target(triple, level_of({name for name, here in present.items() if here}), "")


_LINUX_NAMES = {
    "abm": "lzcnt",
    "bmi1": "bmi",
    "pni": "sse3",
    "sse4_1": "sse4.1",
    "sse4_2": "sse4.2",
}
"""Features that Linux calls otherwise than LLVM."""


def _told_by_linux() -> set[str] | None:
    """Features of the first core that Linux lists, by LLVM's names; None where it lists none."""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        return None
    try:
        with Path("/proc/cpuinfo").open(encoding="ascii", errors="replace") as file:
            flags = next(line for line in file if line.startswith("flags"))
    except (OSError, StopIteration):
        return None
    return {_LINUX_NAMES.get(name, name) for name in flags.split()}


def level_of(features: set[str]) -> str:
    """The highest level that a processor with some features has.

    Examples
    --------
    >>> level_of({"cx16", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3", "avx"})
    'x86-64-v2'
    """
    names = list(_LEVELS)
    for place, name in enumerate(names):
        needed = {feature for level in names[place:] for feature in _LEVELS[level]}
        if needed <= features:
            return name
    return names[-1]
