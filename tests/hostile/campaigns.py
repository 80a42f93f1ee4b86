"""Campaigns: each says what was found wrong among so many tries.

They run in processes of their own, so that a crash is one more finding.
"""

from __future__ import annotations

import ctypes.util
import json
import os
import subprocess
import sys
from typing import NamedTuple


class Campaign(NamedTuple):
    """A function of the first try and of their number, and what to do with it.

    ``module`` and ``function`` name it; one of ``every`` tries is made, as some take long, or so many `times`
    as many, and as many as ``at_a_time`` in one process.
    """

    module: str
    function: str
    every: int = 1
    times: int = 1
    at_a_time: int = 500

    @property
    def name(self) -> str:
        return self.function.replace("_", " ")


CAMPAIGNS = (
    Campaign("files", "mutated_checkpoints"),
    Campaign("files", "crafted_checkpoints"),
    Campaign("files", "mutated_models"),
    Campaign("files", "mutated_traces"),
    Campaign("files", "mutated_recordings"),
    Campaign("files", "crafted_recordings"),
    Campaign("files", "crafted_event_states"),
    Campaign("layouts", "crafted_layouts", every=2, times=10, at_a_time=5000),
    Campaign("crafted", "crafted_models", every=2),
    Campaign("crafted", "crafted_checkpoint_files", every=4),
    Campaign("data_files", "damaged_data", every=5),
    Campaign("envelopes", "mutated_envelopes", at_a_time=50_000),
    Campaign("envelopes", "mutated_ciphertexts", at_a_time=50_000),
    Campaign("envelopes", "mutated_letters", every=10, at_a_time=50_000),
    Campaign("nodes", "mutated_journals", every=4, at_a_time=200),
    Campaign("nodes", "mutated_node_files"),
    Campaign("nodes", "mutated_requests"),
    Campaign("engines", "engines_agree", every=5, at_a_time=200),
    Campaign("engines", "same_at_any_scale", every=20, at_a_time=200),
    Campaign("processes", "cold_runs", every=1000, at_a_time=1),
    Campaign("processes", "killed_runs", every=200, at_a_time=10),
    Campaign("processes", "killed_ranks", every=500, at_a_time=5),
    Campaign("ray_actors", "killed_actors", every=300, at_a_time=10),
    Campaign("ray_actors", "removed_nodes", every=2000, at_a_time=1),
)


CHECKING = {
    "LD_PRELOAD": "libc_malloc_debug.so.0",
    "MALLOC_CHECK_": "3",
    "MALLOC_PERTURB_": "165",
    "PYTHONMALLOC": "malloc",
}
"""glibc's allocator that ends at a write beyond an array, and hands out rubbish."""


def surroundings() -> dict[str, str]:
    """Environment of the processes: with the checking allocator, where there is one."""
    checks = ctypes.util.find_library("c_malloc_debug") is not None
    return {**os.environ, **(CHECKING if checks else {})}


def survey(campaign: Campaign, tries: int) -> tuple[dict[str, str], int]:
    """Findings of a campaign, and how many of its processes crashed.

    A process that ends early says in lines ``at 17`` how far it came: what was before is asked for again,
    and what is behind goes on. One line of ours and exit code 2 are an end as it should be.
    """
    wrong: dict[str, str] = {}
    crashes = 0
    size = campaign.at_a_time
    around = surroundings()
    left = [(first, min(size, tries - first)) for first in range(0, tries, size)]
    while left:
        first, n = left.pop(0)
        code = (
            f"import json; from tests.hostile.{campaign.module} import {campaign.function} as tried; "
            f"print(json.dumps(tried({first}, {n})))"
        )
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, env=around)
        if done.returncode == 0:
            wrong |= json.loads(done.stdout.splitlines()[-1])
            continue
        reached = [int(line[3:]) for line in done.stdout.splitlines() if line.startswith("at ")]
        if reached:
            parts = (first, reached[-1] - first), (reached[-1] + 1, first + n - reached[-1] - 1)
            left += [part for part in parts if part[1]]
        last = done.stderr.rpartition("\nddol: ")[2].splitlines()
        if done.returncode != 2 or len(last) != 1:
            crashes += 1
            place = str(reached[-1]) if reached else f"{first} to {first + n}"
            wrong[place] = f"exit code {done.returncode}: {done.stderr[-200:]}"
    return wrong, crashes
