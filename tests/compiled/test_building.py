"""What is compiled when the package is built."""

from __future__ import annotations

from importlib import util
from pathlib import Path

import pytest

HOOK = Path(__file__).parents[2] / "build_hooks" / "precompiling.py"


def build_hook():
    pytest.importorskip("setuptools")
    spec = util.spec_from_file_location("precompiling", HOOK)
    hook = util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    return hook


@pytest.mark.parametrize("compiled", [True, False])
def test_a_wheel_with_object_code_is_tagged_with_its_platform(tmp_path, monkeypatch, compiled):
    """setuptools tags a wheel as one of this platform if there are extension modules."""
    hook = build_hook()
    monkeypatch.setattr(hook, "_ROOT", tmp_path)
    shipped = hook._shipped()
    shipped.mkdir(parents=True)
    monkeypatch.setattr(hook, "_precompile", (shipped / "code").touch if compiled else shipped.stat)
    monkeypatch.setattr(
        hook.build_meta, "build_wheel", lambda *given: hook.Distribution().has_ext_modules()
    )
    assert hook.build_wheel(str(tmp_path)) is compiled
    assert not hook.Distribution().has_ext_modules()


def test_the_compiler_runs_on_the_source_beside_what_was_installed_for_the_build_alone(
    tmp_path, monkeypatch
):
    """pip names that by PYTHONPATH, and takes out what the environment has already: an earlier install."""
    hook = build_hook()
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
