"""``python -m ddol`` and the command ``ddol``."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading

_SELDOM = 100_000
"""New objects between two looks of the garbage collector: a command makes few, most of them to stay."""


def main() -> None:
    """Run the command line; the exit code is the process's."""
    gc.set_threshold(_SELDOM)
    try:
        from ddol.cli.app import app  # it takes a while, and Ctrl-C may come meanwhile

        app(prog_name="ddol")
    except KeyboardInterrupt:
        print("stopped by SIGINT", file=sys.stderr)
        raise SystemExit(130) from None
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        # In an MPI job an error of one process must be the end of all.
        if "ddol.engines.mpi.ranks" in sys.modules:
            from ddol.engines.mpi.ranks import leave

            leave(code)  # MPI ends with the interpreter
        elif not isinstance(end.code, str):
            _leave_at_once(code)
        raise
    finally:
        gc.freeze()  # memory goes back with the process, and nobody needs to look for cycles in it


def _leave_at_once(code: int) -> None:
    """End the process where nobody is left to be waited for.

    To take the interpreter and the compiler's libraries apart takes as long as many thousand examples.
    """
    if sum(not thread.daemon for thread in threading.enumerate()) > 1:  # others than this one
        return
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (AttributeError, OSError, ValueError):
        return  # closed, or there is none: Python knows what to say
    os._exit(code)


if __name__ == "__main__":
    main()
