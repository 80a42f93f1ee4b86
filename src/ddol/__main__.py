"""``python -m ddol`` and the command ``ddol``."""

from __future__ import annotations

import sys

from ddol.cli.app import app


def main() -> None:
    """Run the command line; the exit code is the process's."""
    try:
        app(prog_name="ddol")
    except SystemExit as end:
        # In an MPI job an error of one process must be the end of all.
        if "ddol.engines.mpi.ranks" in sys.modules:
            from ddol.engines.mpi.ranks import leave

            leave(end.code if isinstance(end.code, int) else int(end.code is not None))
        raise


if __name__ == "__main__":
    main()
