"""Build a release and try it as a user would: `make release`.

1. The source distribution, and from it a wheel without object code (`py3-none-any`) and one with it for every
   Python of the supported range that is installed. What is built first is built twice, and both must be the
   same to the byte.
2. Names, metadata and the README are checked by twine.
3. Each wheel goes into a fresh environment without extras, where the README's commands and its Python run.
"""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORM = "manylinux_2_17_x86_64"
"""Of the object code, which calls functions of the C library that are older than that."""


def main() -> None:
    """Build, compare, check, install, run."""
    os.environ["SOURCE_DATE_EPOCH"] = run("git", "log", "-1", "--format=%ct", capture=True).strip()
    os.environ["PYTHONHASHSEED"] = "0"
    pythons = {version: found for version in PYTHONS if (found := python_of(version))}
    if not pythons:
        sys.exit(f"make release: found none of Python {', '.join(PYTHONS)}; install one")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = twice(folder / "source", build_source)
        environments = {v: environment(folder / v, python) for v, python in pythons.items()}
        first, *others = pythons
        pure = twice(
            folder / "pure", lambda to: build_wheel(environments[first], source, to, pure=True)
        )
        own = twice(folder / first, lambda to: build_wheel(environments[first], source, to))
        wheels = {first: own} | {
            v: build_wheel(environments[v], source, folder / v) for v in others
        }
        dist = ROOT / "dist"
        shutil.rmtree(dist, ignore_errors=True)
        dist.mkdir()
        for path in {source, pure, *wheels.values()}:
            shutil.copy2(path, dist)
        run(sys.executable, "-m", "twine", "check", "--strict", *map(str, sorted(dist.iterdir())))
        try_out(folder / "pure-tried", pythons[first], pure)
        for version, wheel in wheels.items():
            try_out(folder / f"{version}-tried", pythons[version], wheel)
    print("release:", *(path.name for path in sorted(dist.iterdir())), sep="\n  ")
    missing = [version for version in PYTHONS if version not in pythons]
    print(f"tried with Python {', '.join(pythons)}")
    if missing:
        print(f"not installed here, so without a wheel of its own: Python {', '.join(missing)}")


def twice(folder: Path, build: Callable[[Path], Path]) -> Path:
    """Build two times; both results must be the same to the byte."""
    found = [build(folder / name) for name in ("one", "two")]
    sums = {hashlib.sha256(path.read_bytes()).hexdigest() for path in found}
    if len(sums) > 1 or found[0].name != found[1].name:
        sys.exit(f"make release: two builds of {found[0].name} differ")
    return found[0]


def build_source(folder: Path) -> Path:
    """Build the source distribution."""
    run(sys.executable, "-m", "build", "--sdist", "--outdir", str(folder), str(ROOT))
    return next(folder.glob("*.tar.gz"))


def build_wheel(pip: Path, source: Path, folder: Path, pure: bool = False) -> Path:
    """Build a wheel from the source distribution, with object code or without."""
    words = [str(pip), "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(source)]
    if not pure and sys.platform == "linux" and platform.machine() == "x86_64":
        words.append(f"--config-settings=--build-option=--plat-name={PLATFORM}")
    run(*words, environ={"DDOL_PRECOMPILE": "0" if pure else "1"})
    wheel = next(folder.glob("*.whl"))
    if ("none-any" in wheel.name) != pure:
        sys.exit(f"make release: found {wheel.name} {'with' if pure else 'without'} object code")
    return wheel


def environment(folder: Path, python: str) -> Path:
    """Make a fresh environment; its pip."""
    run(python, "-m", "venv", str(folder / "venv"))
    pip = folder / "venv" / "bin" / "pip"
    run(str(pip), "install", "--quiet", "--upgrade", "pip")
    return pip


def try_out(folder: Path, python: str, wheel: Path) -> None:
    """Install a wheel and run what the README says, in an empty folder."""
    pip = environment(folder, python)
    run(str(pip), "install", "--quiet", str(wheel))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    make_files(folder)
    blocks = re.findall(r"```console\n(.*?)```", readme, re.DOTALL)
    own = {"PATH": f"{pip.parent}:{os.environ['PATH']}", "DDOL_CACHE_DIR": str(folder / "cache")}
    for line in "".join(blocks).splitlines():
        if line.startswith("$ "):
            run("sh", "-c", line[2:], cwd=folder, capture=True, environ=own)
    for block in re.findall(r"```python\n(.*?)```", readme, re.DOTALL):
        run(str(pip.parent / "python"), "-c", block, cwd=folder, capture=True, environ=own)


def make_files(folder: Path) -> None:
    """Write the files that the README's commands read."""
    for name in ("huge.libsvm", "new.libsvm"):
        lines = (f"{1 if k % 3 else -1} 1:{k % 3} 2:{k % 7}\n" for k in range(600))
        (folder / name).write_text("".join(lines))
    for site in range(3):
        lines = (f"{'yes' if k % 3 else 'no'},{k % 3},{k % 7}\n" for k in range(site, 600))
        (folder / f"site-{site}.csv").write_text("label,a,b\n" + "".join(lines))


def python_of(version: str) -> str | None:
    """The interpreter of a version, on the path or under pyenv."""
    candidates = [shutil.which(f"python{version}")]
    candidates += sorted(map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python")))
    for candidate in filter(None, candidates):
        told = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=False)
        if told.returncode == 0 and told.stdout.startswith(f"Python {version}."):
            return candidate
    return None


def run(
    *words: str,
    cwd: Path = ROOT,
    capture: bool = False,
    environ: dict[str, str] | None = None,
) -> str:
    """Run a command that must succeed; what it printed, if asked for."""
    own = {**os.environ, **(environ or {})}
    done = subprocess.run(words, cwd=cwd, capture_output=capture, text=True, check=False, env=own)
    if done.returncode != 0:
        sys.exit(f"make release: {' '.join(words)} failed\n{done.stderr or ''}")
    return done.stdout or ""


if __name__ == "__main__":
    main()
