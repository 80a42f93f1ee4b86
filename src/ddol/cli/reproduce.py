"""``ddol reproduce``: the paper's figures again, with progress."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ddol.cli.table import say
from ddol.cli.training import command
from ddol.lab.experiments.config import Figure, known_figures
from ddol.lab.experiments.run import reproduce as run_experiments
from ddol.storage import write_text

_CLAIMS_TOP = """# The paper's claims, one by one

One command runs all of it and writes this page:

```console
$ {command}
```

Every figure is a small file, `src/ddol/lab/experiments/figures/*.toml`; `ddol reproduce --list` names them,
and a file of one's own can be given in their place. `python -m ddol.lab.experiments.errata` plays the
counterexample to two of the paper's theorems ([docs/errata.md](errata.md)).

{scale}

"""


def reproduce(
    names: Sequence[str], data: str | None, seeds: int, out: str, claims: str | None, quiet: bool
) -> None:
    """Run figures, write their results, and print the verdicts on the claims."""
    with _Progress(quiet) as progress:
        found = run_experiments(names, data, seeds, progress.say, progress.show)
    page = found.write(out, command())
    if claims is not None:
        top = _CLAIMS_TOP.format(command=command(), scale=found.scale)
        write_text(claims, top + found.markdown() + "\n")
    for claim in found.claims:
        print(f"{claim.verdict:>14}  figure {claim.figures:<8} {claim.quote}")
    if not quiet:
        say(f"{len(found.figures)} figures in {found.seconds:.0f} s; page: {page}")


def list_figures() -> None:
    """Print numbers, names and titles."""
    for figure in known_figures():
        print(f"{figure.number:>3}  {figure.name:<24} {figure.title}")


class _Progress:
    """A bar on a terminal, a line a figure elsewhere."""

    def __init__(self, quiet: bool) -> None:
        self.quiet, self.last = quiet, ""
        self.bar: Any = None
        self.task: Any = None

    def __enter__(self) -> _Progress:
        if not self.quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress

            self.bar = Progress(console=Console(stderr=True), transient=True)
            self.bar.start()
            self.task = self.bar.add_task("", total=None)
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def say(self, text: str) -> None:
        if self.bar is not None:
            self.bar.console.print(text, markup=False, highlight=False)
        elif not self.quiet:
            say(text)

    def show(self, figure: Figure, done: int, total: int) -> None:
        title = f"figure {figure.number}: {figure.title}"
        if self.bar is not None:
            self.bar.update(self.task, description=title, completed=done, total=total)
        elif title != self.last:
            self.say(f"{title} ({done} of {total} runs)")
        self.last = title
