"""``python -m ddol`` and the command ``ddol``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; the exit code is the process's."""
    try:
        from ddol.cli.app import app  # it takes a while, and Ctrl-C may come meanwhile

        app(prog_name="ddol")
    except KeyboardInterrupt:
        print("stopped by SIGINT", file=sys.stderr)
        raise SystemExit(130) from None
    except SystemExit as end:
        # In an MPI job an error of one process must be the end of all.
        if "ddol.engines.mpi.ranks" in sys.modules:
            from ddol.engines.mpi.ranks import leave

            leave(end.code if isinstance(end.code, int) else int(end.code is not None))
        raise


if __name__ == "__main__":
    main()
