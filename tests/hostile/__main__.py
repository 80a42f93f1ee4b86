"""All campaigns at length: ``python -m tests.hostile --tries 10000``."""

from __future__ import annotations

import argparse
import sys

from tests.hostile.campaigns import CAMPAIGNS, survey


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=10_000, help="of each campaign")
    tries = parser.parse_args().tries
    failed = 0
    print("| campaign | tried | crashed | wrong |\n|---|---|---|---|")
    for name in CAMPAIGNS:
        wrong, crashes = survey(name, tries)
        failed += len(wrong)
        print(f"| {name.replace('_', ' ')} | {tries} | {crashes} | {len(wrong)} |", flush=True)
        for number, said in list(wrong.items())[:10]:
            print(f"  {number}: {said}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
