"""Build a release and try it as a user would: `make release`.

1. The source distribution and the wheel are built twice; both builds must be the same to the byte.
2. Names, metadata and the README are checked by twine.
3. For every Python of the supported range that is installed, the wheel goes into a fresh environment without
   extras, and the README's first commands run there.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
TRIED = (
    ("train", "--agents", "4", "--model", "m.ddol", "--quiet"),
    ("inspect", "m.ddol"),
    ("bound", "--algorithm", "dwm-i", "--experts", "50", "--mistakes", "100"),
)


def main():
    """Build, compare, check, install, run."""
    epoch = run("git", "log", "-1", "--format=%ct", capture=True).strip()
    os.environ["SOURCE_DATE_EPOCH"] = epoch
    os.environ["PYTHONHASHSEED"] = "0"
    dist = ROOT / "dist"
    with tempfile.TemporaryDirectory() as folder:
        first, second = build(Path(folder, "first")), build(Path(folder, "second"))
        differing = [name for name in first if first[name] != second.get(name)]
        if differing:
            sys.exit(f"make release: {', '.join(differing)} differ between two builds")
        shutil.rmtree(dist, ignore_errors=True)
        shutil.copytree(Path(folder, "first"), dist)
    run(sys.executable, "-m", "twine", "check", *map(str, sorted(dist.iterdir())))
    wheels = sorted(dist.glob("*.whl"))
    tried = [version for version in PYTHONS if try_out(version, wheels)]
    if not tried:
        sys.exit(f"make release: found none of Python {', '.join(PYTHONS)}; install one")
    print(f"release: {', '.join(path.name for path in sorted(dist.iterdir()))}")
    print(f"tried with Python {', '.join(tried)}")


def build(folder):
    """Build the source distribution, and the wheel from it: checksums by name."""
    run(sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def try_out(version, wheels):
    """Install the wheel with one Python and run the first commands; False if there is no such Python."""
    python = python_of(version)
    if python is None:
        print(f"Python {version} is not installed: not tried")
        return False
    with tempfile.TemporaryDirectory() as folder:
        run(python, "-m", "venv", folder)
        run(f"{folder}/bin/pip", "install", "--quiet", *map(str, wheels))
        for words in TRIED:
            run(f"{folder}/bin/ddol", *words, cwd=folder, capture=True)
    return True


def python_of(version):
    """The interpreter of a version, on the path or under pyenv."""
    candidates = [shutil.which(f"python{version}")]
    candidates += sorted(map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python")))
    for candidate in filter(None, candidates):
        told = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=False)
        if told.returncode == 0 and told.stdout.startswith(f"Python {version}."):
            return candidate
    return None


def run(*words, cwd=ROOT, capture=False):
    """Run a command that must succeed; what it printed, if asked for."""
    done = subprocess.run(words, cwd=cwd, capture_output=capture, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"make release: {' '.join(words)} failed\n{done.stderr or ''}")
    return done.stdout


if __name__ == "__main__":
    main()
