"""The build backend: setuptools, after compiling ddol's own functions for this processor's level.

What is compiled goes into ``ddol/compiled/shipped``. Where that fails, or ``DDOL_PRECOMPILE=0`` is set, the
package is as good, and its first run compiles.
"""

import compileall
import gzip
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from unittest import mock

from setuptools import build_meta
from setuptools.build_meta import (  # noqa: F401, the rest of the interface
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)
from setuptools.dist import Distribution

_ROOT = Path(__file__).parent.parent
_NEEDED = ("numpy", "scipy", "numba", "llvmlite", "click", "rich", "safetensors", "scikit-learn")


def get_requires_for_build_wheel(config_settings=None):
    """Return what it takes to compile: dependencies that users have anyway."""
    plain = build_meta.get_requires_for_build_wheel(config_settings)
    if not _wanted():
        return plain
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return plain + [each for each in project["dependencies"] if each.startswith(_NEEDED)]


def build_sdist(sdist_directory, config_settings=None):
    """Build, with all times set to SOURCE_DATE_EPOCH where it is given: equal trees give equal bytes."""
    name = build_meta.build_sdist(sdist_directory, config_settings)
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if epoch is not None:
        _with_times(Path(sdist_directory, name), int(epoch))
    return name


def _with_times(path, epoch):
    """Write an archive anew, its members in order and of one time and owner."""
    packed = io.BytesIO()
    with (
        tarfile.open(path) as old,
        gzip.GzipFile(fileobj=packed, mode="wb", filename="", mtime=epoch) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    path.write_bytes(packed.getvalue())


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Compile, then build."""
    _precompile()
    # Object code is of this platform: setuptools tags a wheel so if it is told of extension modules.
    with mock.patch.object(Distribution, "has_ext_modules", lambda _: any(_shipped().glob("*"))):
        return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """Compile, then build a wheel that points to the source, whose modules nobody else compiles."""
    _precompile()
    compileall.compile_dir(_ROOT / "src", quiet=2)
    return build_meta.build_editable(wheel_directory, config_settings, metadata_directory)


get_requires_for_build_editable = get_requires_for_build_wheel


def _wanted():
    return os.environ.get("DDOL_PRECOMPILE", "1") != "0"


def _shipped():
    """The folder of compiled code in the package."""
    return _ROOT / "src" / "ddol" / "compiled" / "shipped"


def _workers():
    """One process for a release: names inside the code are numbered in the order of compiling."""
    return ("--workers", "1") if "SOURCE_DATE_EPOCH" in os.environ else ()


def _precompile():
    shipped = _shipped()
    for old in shipped.glob("*"):
        old.unlink()
    if not _wanted():
        return
    # Python begins with the folder it is called in, whatever pip's own paths take out: an earlier editable
    # install, for one. Behind it stands what pip has installed for this build alone.
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, "-m", "ddol.precompile", "--ship", str(shipped), *_workers()],
            cwd=_ROOT / "src",
            env={**os.environ, "DDOL_CACHE_DIR": cache},
            check=False,
        )
    if done.returncode != 0:
        print("ddol: nothing could be compiled beforehand; the first run will", file=sys.stderr)
