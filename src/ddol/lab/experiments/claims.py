"""The sentences of the paper's experimental section that can be tested, beside what was measured."""

from __future__ import annotations

from ddol.lab.experiments import descent_claims as descent
from ddol.lab.experiments import majority_claims as majority
from ddol.lab.experiments.charts import NAMES
from ddol.lab.experiments.evidence import (
    HOLDS,
    NOT,
    PART,
    Claim,
    Results,
    falls,
    objectives,
    per_agent,
)
from ddol.lab.experiments.sources import DATASETS


def table_facts(results: Results) -> Claim | None:
    """Sizes, density and balance of the data sets."""
    parts, good = [], []
    for name, seen in results.facts.items():
        said = DATASETS[name]
        same = (
            seen.features == said.features
            and seen.rows >= said.rows
            and abs(seen.stored - said.stored) < 0.006
            and abs(seen.majority - said.majority) < 0.0006
        )
        good.append(same)
        parts.append(
            f"{name}: {seen.rows:,} rows, {seen.features} features, {100 * seen.stored:.0f} % not 0, "
            f"larger class {100 * seen.majority:.1f} %"
        )
    if not parts:
        return None
    quote = (
        "Table 1: svmguide1 3,089 rows, 4 features, 100 % not 0, balance 64.7 %; cod-rna 59,535, 8, "
        "100 %, 66.7 %; covtype 522,910, 54, 22 %, 51.2 %."
    )
    verdict = HOLDS if all(good) else PART if any(good) else NOT
    note = ". covtype's 522,910 rows are the first 90 % of a seeded shuffle"
    return Claim("table 1", quote, "; ".join(parts) + note, verdict)


CLAIMS = (
    table_facts,
    majority.fewer_mistakes,
    majority.halved,
    majority.total_bound,
    majority.same_total,
    majority.n_times_faster,
    majority.averaging_makes_fewer,
    majority.expert_per_agent,
    majority.constant,
    majority.tighter,
    descent.root_of_agents_in_regret,
    descent.mispredictions_fall,
    descent.objective_falls,
    descent.larger_at_32,
    descent.enough_samples,
    descent.root_of_agents,
    descent.lower_total,
    descent.slightly_higher,
    descent.smaller_errors,
    descent.faster_at_same_error,
)


def claims_of(results: Results) -> list[Claim]:
    """All claims that these runs say something about, in the order of the paper."""
    return [claim for claim in (test(results) for test in CLAIMS) if claim is not None]


def which_scale(results: Results) -> str:
    """Whether raw or scaled cod-rna behaves as the paper says; empty without those runs."""
    parts = []
    for name in descent.DESCENT:
        counts = {v: _agreeing(results, v, name) for v in ("raw", "scaled")}
        if None in counts.values():
            continue
        best = max(counts, key=lambda variant: counts[variant] or 0)
        shares = ", ".join(f"{variant} in {count} of 2" for variant, count in counts.items())
        parts.append(f"{NAMES[name]} matches the paper {best} ({shares})")
    if not parts:
        return ""
    return (
        "cod-rna was run raw, where feature 1 is about −700, and with every feature scaled to [0, 1]. "
        "Counting whether mispredictions and objectives fall with every step in N: "
        + "; ".join(parts)
        + "."
    )


def _agreeing(results: Results, variant: str, name: str) -> int | None:
    """How many of the two trends of the paper a run shows; None without it."""
    runs = results.of("cod-rna", variant, name)
    if len(runs) < 2:
        return None
    return sum(falls(list(m(runs)[1].values())) == HOLDS for m in (per_agent, objectives))
