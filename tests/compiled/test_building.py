"""What is compiled when the package is built."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import util
from pathlib import Path

HOOK = Path(__file__).parents[2] / "build_hooks" / "precompiling.py"


def test_the_compiler_finds_what_was_installed_for_the_build_alone(tmp_path, monkeypatch):
    """pip names it by PYTHONPATH: an environment that is new has nothing else."""
    spec = util.spec_from_file_location("precompiling", HOOK)
    hook = util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    (tmp_path / "src").mkdir()
    monkeypatch.setattr(hook, "_ROOT", tmp_path)
    monkeypatch.setenv("PYTHONPATH", "isolated")
    monkeypatch.delenv("DDOL_PRECOMPILE", raising=False)
    seen = []

    def run(command, env, check):
        seen.append((command[0], env["PYTHONPATH"].split(os.pathsep)))
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(hook.subprocess, "run", run)
    hook._precompile()
    assert seen == [(sys.executable, [str(tmp_path / "src"), "isolated"])]
