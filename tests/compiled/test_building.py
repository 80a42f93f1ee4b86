"""What is compiled when the package is built."""

from __future__ import annotations

from importlib import util
from pathlib import Path

import pytest

HOOK = Path(__file__).parents[2] / "build_hooks" / "precompiling.py"


def test_the_compiler_runs_on_the_source_beside_what_was_installed_for_the_build_alone(
    tmp_path, monkeypatch
):
    """pip names that by PYTHONPATH, and takes out what the environment has already: an earlier install."""
    pytest.importorskip("setuptools")
    spec = util.spec_from_file_location("precompiling", HOOK)
    hook = util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    package, isolated = tmp_path / "src" / "ddol", tmp_path / "isolated"
    package.mkdir(parents=True)
    isolated.mkdir()
    (package / "__init__.py").touch()
    (package / "compiled").mkdir()
    (package / "precompile.py").write_text(
        "import pathlib, sys, needed\npathlib.Path(sys.argv[2]).write_text(needed.told)"
    )
    (isolated / "needed.py").write_text("told = 'compiled'")
    source = str(tmp_path / "src")
    (isolated / "sitecustomize.py").write_text(
        f"import sys\nsys.path = [p for p in sys.path if p != {source!r}]"
    )
    monkeypatch.setattr(hook, "_ROOT", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(isolated))
    monkeypatch.delenv("DDOL_PRECOMPILE", raising=False)
    hook._precompile()
    assert (package / "compiled" / "shipped").read_text() == "compiled"
