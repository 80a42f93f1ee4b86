"""For which processor code is compiled: a level that many share, rather than this very one.

Code for a level runs on every machine that has it. So it can be made where the package is built, and two
machines of one level play a run to the same bit.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import llvmlite.binding as llvm

# The levels of x86-64, the richest first, and what each adds to the next. The fourth, with AVX-512, is not
# worth a difference in bits: rows are short, so that vectors of 512 bits gain nothing on dense ones, and
# gathering and scattering by them makes sparse ones slower.
_LEVELS = {
    "x86-64-v3": ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"),
    "x86-64-v2": ("cx16", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"),
    "x86-64": (),
}


class Target(NamedTuple):
    """What LLVM is told about the processor."""

    triple: str
    cpu: str
    features: str


@functools.cache
def target() -> Target:
    """The target of this machine."""
    triple = llvm.get_process_triple()
    present = llvm.get_host_cpu_features()
    if not triple.startswith("x86_64"):
        return Target(triple, llvm.get_host_cpu_name(), present.flatten())
    return Target(triple, level_of({name for name, here in present.items() if here}), "")


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
