"""The public names, which are imported when they are first used, and what a run imports."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import ddol
import ddol.streams
import ddol.streams.over

LAZY = pytest.mark.parametrize(
    "package", [ddol, ddol.streams, ddol.streams.over], ids=lambda package: package.__name__
)

NOT_FOR_TRAINING = (
    *("numba", "scipy", "sklearn", "rich", "typer", "pydantic", "mpi4py"),
    *("numpy.ma", "numpy.random", "concurrent.futures", "logging", "fsspec"),
    *("asyncio", "email", "importlib.metadata", "socket", "subprocess", "difflib", "fractions"),
    "gzip",
    *("ddol.reference", "ddol.checkpoint", "ddol.folders", "ddol.measure", "ddol.lab"),
    *("ddol.cli.commands", "ddol.job.evaluation", "ddol.job.initial", "ddol.cli.predictions"),
    *("ddol.schedules.clock", "ddol.schedules.events", "ddol.schedules.recording"),
    *("ddol.engines.events", "ddol.engines.threads", "ddol.engines.mpi", "ddol.engines.ray"),
    *("ddol.communicate.talking", "ddol.update.majority", "ddol.update.mirrors"),
    *("ddol.update.newton", "ddol.streams.tables", "ddol.streams.synthetic"),
    *("ddol.streams.text.csv", "ddol.streams.coding.hashing", "ddol.streams.coding.names"),
    *("ddol.streams.coding.stumps", "ddol.streams.over.lateness", "ddol.streams.over.shuffle"),
    *("ddol.streams.over.filling", "ddol.streams.over.holdout", "ddol.streams.store.remote"),
)


@LAZY
def test_every_public_name_has_a_home(package):
    at_once = set(package.__all__) - set(package._HOME_OF)
    assert at_once <= set(vars(package)) and set(package._HOME_OF) <= set(package.__all__)
    for name in package.__all__:
        assert getattr(package, name) is not None


@LAZY
def test_the_types_and_the_homes_agree(package):
    tree = ast.parse(Path(package.__file__).read_text())
    only_typed = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {
        alias.name: node.module
        for node in only_typed.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == package._HOME_OF


@LAZY
def test_a_name_that_is_not_there(package):
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'nam'"):
        package.nam


@pytest.mark.parametrize(
    "old, name",
    [
        ("ddol.plan", "plan"),
        ("ddol.engines.run", "encoded"),
        ("ddol.live.server", "LiveServer"),
        ("ddol.measure.frontier", "frontier"),
        ("ddol.measure.report", "write_report"),
    ],
)
def test_old_names_of_modules_that_moved_warn(old, name):
    with pytest.warns(DeprecationWarning, match=rf"{old} is ddol\.(lab|job)"):
        found = getattr(importlib.import_module(old), name)
    assert found.__module__.startswith(("ddol.lab.", "ddol.job."))


def test_nothing_but_the_command_line_imports_the_lab():
    package = Path(ddol.__file__).parent
    importing = {
        path.relative_to(package).parts[0]
        for path in package.rglob("*.py")
        if "from ddol.lab" in path.read_text(encoding="utf-8")
    }
    assert importing <= {"cli", "lab"}


def test_no_module_hides_a_function_of_the_same_name():
    code = "import ddol.streams.open, ddol.streams; print(callable(ddol.streams.mapped))"
    assert _said(code) == "True"


def test_importing_ddol_waits_for_no_compiler():
    code = "import sys, ddol, ddol.cli.app; print({'numba', 'sklearn', 'scipy'} & set(sys.modules))"
    assert _said(code) == "set()"


MOST_MODULES = 155
"""Of ddol, in a plain run from LIBSVM text: each takes its part of the time before the first example."""


def test_training_imports_only_what_it_needs(tmp_path):
    data = tmp_path / "data.libsvm"
    data.write_text("1 1:0.5 2:1\n-1 1:-0.5 2:2\n" * 8)
    code = f"""
import sys, numpy
at_once = {{name for name in sys.modules if name.startswith("numpy.")}}  # NumPy 1 imports more of itself
from ddol.cli.app import app
arguments = ["train", {str(data)!r}, "--model", {str(tmp_path / "model")!r}, "--quiet"]
app(arguments, standalone_mode=False)
print(*[name for name in {NOT_FOR_TRAINING} if name in sys.modules and name not in at_once])
print(sum(name.split(".")[0] == "ddol" for name in sys.modules))
"""
    _said(code)  # compiles, where nobody has done so before
    *unwanted, count = _said(code).split()
    assert unwanted == [] and int(count) <= MOST_MODULES
    assert (tmp_path / "model").exists()


@pytest.mark.parametrize("words", [["--version"], ["--help"]])
def test_whoever_does_not_compute_waits_for_no_numpy(words):
    code = f"""
import sys
from ddol.cli.app import app
try:
    app({words})
except SystemExit:
    pass
print("numpy" in sys.modules)
"""
    assert _said(code).split()[-1] == "False"


def _said(code: str) -> str:
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return found.stdout.strip()
