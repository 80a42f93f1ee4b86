"""All campaigns at length: ``python -m tests.hostile --tries 10000``."""

from __future__ import annotations

import argparse
import sys

from tests.hostile.campaigns import CAMPAIGNS, survey


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=10_000, help="fewer where each takes long")
    parser.add_argument(
        "--only", metavar="WORD", default="", help="campaigns with it in their names"
    )
    given = parser.parse_args()
    failed = 0
    print("| campaign | tried | crashed | wrong |\n|---|---|---|---|")
    for campaign in CAMPAIGNS:
        if given.only not in campaign.name:
            continue
        tries = max(given.tries * campaign.times // campaign.every, 1)
        wrong, crashes = survey(campaign, tries)
        failed += len(wrong)
        print(f"| {campaign.name} | {tries} | {crashes} | {len(wrong)} |", flush=True)
        for number, said in list(wrong.items())[:10]:
            print(f"  {number}: {said}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
