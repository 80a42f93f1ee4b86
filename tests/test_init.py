"""The public names, which are imported when they are first used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import ddol


def test_every_public_name_has_a_home():
    assert {*ddol._HOME_OF, "__version__"} == set(ddol.__all__)
    for name in ddol.__all__:
        assert getattr(ddol, name) is not None


def test_the_types_and_the_homes_agree():
    tree = ast.parse(Path(ddol.__file__).read_text())
    typed = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ddol.")
        for alias in node.names
    }
    typed.pop("__version__", None)
    assert typed == ddol._HOME_OF


def test_importing_ddol_waits_for_no_compiler():
    code = "import sys, ddol, ddol.cli.app; print({'numba', 'sklearn', 'scipy'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
