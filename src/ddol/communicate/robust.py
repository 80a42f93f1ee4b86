"""Averages that stand some false messages: rules by which an agent makes one message of its own and those
of its neighbours, in the place of Σ_j A_ij·message_j.

A rule is a plain Python function, which is compiled::

    def rule(own, heard, weights, count, n, room, out): ...

It writes n numbers to ``out``: of the agent's own, ``own[d]``, and those of ``count`` neighbours,
``heard[j * n + d]``, which weigh ``weights[j]`` (the rest of 1 is the agent's own weight). ``room`` has place
for ``count`` numbers. It is called for every row of a message, with all features, and for every scalar.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ddol.communicate.graph import FloatArray
from ddol.communicate.mixing import Mixing
from ddol.compiled import Signature, compile_part, inner

_ARGUMENTS = "own, heard, weights, count, n, room, out"
_KINDS = "double*", "double*", "double*", "int64", "int64", "double*", "double*"


@dataclass(frozen=True)
class Robust:
    """A rule, and how many false messages it stands next to each agent.

    Parameters
    ----------
    name : str
    rule : Callable
    liars : int
        b; 0 where that is not known.

    Examples
    --------
    >>> clip(1).name, robust_of("trim:2").liars
    ('clip:1', 2)
    """

    name: str
    rule: Callable
    liars: int = 0

    def address(self) -> int:
        """The compiled rule, by address."""
        return compile_part(self.rule, Signature("void", _KINDS), f"rule({_ARGUMENTS})")

    @functools.cached_property
    def compiled(self) -> Callable[[FloatArray, FloatArray, FloatArray], FloatArray]:
        """What `of` computes, by the compiled rule.

        Examples
        --------
        >>> clip(1).compiled(np.zeros(1), np.array([[3.0], [1.0], [9.0]]), np.full(3, 0.25)).tolist()
        [1.75]
        """
        kinds = {"double*": ctypes.c_void_p, "int64": ctypes.c_int64}
        call = ctypes.CFUNCTYPE(None, *(kinds[kind] for kind in _KINDS))(self.address())

        def averaged(own: FloatArray, heard: FloatArray, weights: FloatArray) -> FloatArray:
            out, room = np.empty(len(own)), np.empty(max(len(heard), 1))
            given = [np.ascontiguousarray(each, float) for each in (own, heard, weights)]
            near = (each.ctypes.data for each in given)
            call(*near, len(heard), len(own), room.ctypes.data, out.ctypes.data)
            return out

        return averaged

    def average(self, mixing: Mixing, values: FloatArray) -> FloatArray:
        """What every agent makes of values (N, n) of all, in plain Python.

        Examples
        --------
        >>> from ddol.communicate.mixing import uniform
        >>> from ddol.communicate.topologies import complete
        >>> trim(1).average(uniform(complete(4)), np.array([[0.0], [1.0], [2.0], [900.0]]))[:3, 0].tolist()
        [1.0, 1.5, 1.5]
        """
        out = np.empty_like(values, dtype=np.float64)
        for agent in range(mixing.n_agents):
            near, weights = mixing.row(agent)
            others = near != agent
            out[agent] = self.of(values[agent], values[near[others]], weights[others])
        return out

    def of(self, own: FloatArray, heard: FloatArray, weights: FloatArray) -> FloatArray:
        """What one agent makes of its own numbers (n,) and those of its neighbours (count, n)."""
        out, room = np.empty(len(own)), np.empty(max(len(heard), 1))
        given = np.ascontiguousarray(heard, float).reshape(-1)
        self.rule(np.array(own, float), given, weights, len(heard), len(own), room, out)
        return out


@functools.cache
def clip(liars: int) -> Robust:
    """Centred clipping: own + Σ_j A_ij·(message_j − own), no difference longer than the 2b-th largest.

    The radius is that of the CS+ rule of Gaucher, Dieuleveut and Hendrikx (2025).
    """
    most = 2 * liars

    def rule(own, heard, weights, count, n, room, out):  # type: ignore[no-untyped-def]
        for d in range(n):
            out[d] = own[d]
        for j in range(count):
            length = 0.0
            for d in range(n):
                length += (heard[j * n + d] - own[d]) * (heard[j * n + d] - own[d])
            room[j] = math.sqrt(length)
        radius = 0.0  # with no more than 2b neighbours no neighbour can be relied on
        if count >= most:
            for j in range(count):
                larger = 0
                for i in range(count):
                    larger += room[i] > room[j] or (room[i] == room[j] and i < j)
                if larger == most - 1:
                    radius = room[j]
        for j in range(count):
            if room[j] - room[j] == 0.0:
                share = weights[j] * (radius / room[j] if room[j] > radius else 1.0)
                for d in range(n):
                    out[d] += share * (heard[j * n + d] - own[d])

    return Robust(f"clip:{liars}", inner(rule), liars)


@functools.cache
def trim(liars: int) -> Robust:
    """Trimmed mean: of every number the b largest and b smallest of the neighbours are left out, and the
    others have the same weight as the agent's own."""

    def rule(own, heard, weights, count, n, room, out):  # type: ignore[no-untyped-def]
        for d in range(n):
            total, kept = own[d], 1
            for j in range(count):  # in rising order
                value, i = heard[j * n + d], j
                while i > 0 and room[i - 1] > value:
                    room[i] = room[i - 1]
                    i -= 1
                room[i] = value
            for j in range(liars, count - liars):
                total += room[j]
                kept += 1
            out[d] = total / kept

    return Robust(f"trim:{liars}", inner(rule), liars)


AVERAGES: dict[str, Callable[[int], Robust]] = {"clip": clip, "trim": trim}
"""Rules by name, made for so many false messages next to each agent."""


def robust_of(given: Any) -> Robust | None:
    """A rule as it is, a function, or one by its name, such as "clip:1"; None for any other text.

    Examples
    --------
    >>> robust_of("dual") is None
    True
    """
    if given is None or isinstance(given, Robust):
        return given
    if callable(given):
        return Robust(getattr(given, "__name__", "rule"), given)
    name, _, count = str(given).partition(":")
    if name not in AVERAGES:
        return None
    if not count.isdecimal() or int(count) < 1:
        raise ValueError(
            f"`average` is {given!r}, expected how many neighbours of an agent may lie, such as {name}:1"
        )
    return AVERAGES[name](int(count))


def most_liars(mixing: Mixing) -> int:
    """The largest b for which clipping brings honest agents closer in every exchange; see docs/safe.md.

    Enough is b·a + 2a·√(b·μ) < γ, with a the largest weight of a link, μ the largest eigenvalue of the
    graph's Laplacian and γ the spectral gap of A.

    Examples
    --------
    >>> from ddol.communicate.mixing import metropolis, uniform
    >>> from ddol.communicate.topologies import complete, ring
    >>> most_liars(uniform(complete(16))), most_liars(metropolis(ring(8)))
    (2, 0)
    """
    matrix = np.array(mixing.dense())
    off = matrix - np.diag(np.diag(matrix))
    links = (off > 0.0).astype(float)
    laplacian = np.diag(links.sum(axis=1)) - links
    largest = float(np.linalg.eigvalsh(laplacian)[-1])
    moduli = np.sort(np.abs(np.linalg.eigvals(matrix)))
    gap, a = 1.0 - (float(moduli[-2]) if len(moduli) > 1 else 0.0), float(off.max())
    b = 0
    while (b + 1) * a + 2.0 * a * math.sqrt((b + 1) * largest) < gap:
        b += 1
    return b


def too_sparse(robust: Robust, mixing: Mixing) -> str:
    """What to tell of a graph with too few links for so many liars; nothing if it has enough.

    Examples
    --------
    >>> from ddol.communicate.mixing import metropolis
    >>> from ddol.communicate.topologies import ring
    >>> too_sparse(clip(1), metropolis(ring(8)))[:68]
    '`average` clip:1 on this graph: 8 agents have at most 2 neighbours; '
    """
    b = robust.liars
    if b == 0 or mixing.n_agents == 1:
        return ""
    degrees = np.array([np.count_nonzero(mixing.row(i)[0] != i) for i in range(mixing.n_agents)])
    few, where = int((degrees <= 2 * b).sum()), f"`average` {robust.name} on this graph"
    if few:
        return (
            f"{where}: {few} agents have at most {2 * b} neighbours; to stand {b} that lie next to it an "
            "agent needs more, else it learns almost alone; add links, or lower the number"
        )
    most = most_liars(mixing) if mixing.n_agents <= _DENSE else b
    if not robust.name.startswith("clip") or b <= most:
        return ""
    return (
        f"{where}: averages are proved to bring agents together with at most {most} that lie next to each, "
        f"not {b}; add links, or lower the number"
    )


_DENSE = 2000
"""Agents up to which the eigenvalues of a graph are computed."""
