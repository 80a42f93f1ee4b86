"""Every Python block and console line of the README and the docs runs, page by page, in its own folder."""

from __future__ import annotations

import doctest
import gzip
import inspect
import os
import pkgutil
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from click.testing import CliRunner

import ddol
from ddol.cli.app import app
from ddol.presets import PRESETS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.M | re.S)
RUN = ("python", "console")
SHOWN = ("text", "toml", "yaml", "{eval-rst}")
"""Blocks that are no programs; a block of any other kind fails."""
DOCTEST = ">>> "
"""Blocks that begin so share their data, and run in tests/estimators/test_docs.py."""
ELSEWHERE = {
    "ddol launch": "tests/engines/test_launch.py",  # several hosts
    "ddol reproduce": "tests/cli/test_reproduce.py",  # the paper's data, and half a minute
    "ddol plan --dim 54": "tests/lab/test_plan.py",  # measures the machine for seconds
    "ddol train 's3://": "tests/cli/test_stores.py",  # a store
    "ddol train 'part-*.parquet' --engine ray": "tests/engines/test_ray.py",  # starts a cluster
    "ray start": "tests/engines/test_ray_nodes.py",
    "cat hosts": "tests/engines/test_hosts.py",
}
"""Commands that cannot run here, by how they begin, and the tests that run the like."""


def pieces(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


WITH_EXAMPLES = [page for page in PAGES if any(kind in RUN for kind, _ in pieces(page))]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The files that examples speak of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(PRESETS, "slow_start", None)  # so that one that a page registers is removed
    monkeypatch.delitem(PRESETS, "slow_start")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    mpl.use("Agg")
    rng = np.random.default_rng(0)
    X = np.round(rng.standard_normal((300, 4)), 3)
    y = np.where(X @ [1.0, -2.0, 0.5, 0.0] > 0, 1, -1)
    lines = [
        f"{label} " + " ".join(f"{j + 1}:{x:g}" for j, x in enumerate(row))
        for label, row in zip(y, X, strict=True)
    ]
    text = "\n".join(lines) + "\n"
    for name in ("huge.libsvm", "new.libsvm", "more.libsvm", "held-out.libsvm", "data.libsvm"):
        (tmp_path / name).write_text(text)
    (tmp_path / "logs.gz").write_bytes(gzip.compress(text.encode()))
    for site in range(3):
        rows = [f"{label},{a},{b},{c},{d}" for label, (a, b, c, d) in zip(y, X, strict=True)]
        (tmp_path / f"site-{site}.csv").write_text(
            "\n".join(["label,a,b,c,d", *rows[site::3]]) + "\n"
        )
    return tmp_path


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: page.name)
def test_examples_run(page, folder):
    for number, (kind, text) in enumerate(pieces(page)):
        if kind == "python" and not text.startswith(DOCTEST):
            # A file of its own, as a user has it: functions in files are compiled and cached as such.
            path = folder / f"example_{number}.py"
            path.write_text(text)
            runpy.run_path(str(path), run_name="example")
        elif kind == "console":
            for command, output in commands(text):
                if not command.startswith(tuple(ELSEWHERE)):
                    assert_prints(output, run_line(command, page.name == "README.md"), command)


def commands(text: str) -> list[tuple[str, str]]:
    """Every command of a block, without its remark, and what the page says that it prints."""
    assert text.startswith("$ "), f"a console block begins with a command, not with {text[:20]!r}"
    found = [part.partition("\n") for part in text.removeprefix("$ ").split("\n$ ")]
    return [(line.partition("  #")[0].strip(), output) for line, _, output in found]


def run_line(command: str, apart: bool = False) -> str:
    """What a command prints; ``apart`` in a process of its own, which takes half a second longer."""
    assert command.startswith("ddol "), f"no test knows how to run {command!r}"
    words = shlex.split(command)[1:]
    if not apart:
        ran = CliRunner().invoke(app, words)
        assert ran.exit_code == 0, f"{command}\n{ran.stderr}"
        return ran.stdout
    own = [sys.executable, "-m", "ddol", *words]
    done = subprocess.run(own, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


def assert_prints(expected: str, found: str, command: str) -> None:
    """Line by line; … stands for anything."""
    shown = [line for line in expected.splitlines() if line.strip()]
    for line, printed in zip(shown, found.splitlines(), strict=False):
        pattern = ".*".join(re.escape(part) for part in line.split("…"))
        assert re.fullmatch(pattern, printed), f"{command}\n{printed}\nis not\n{line}"
    assert len(shown) <= len(found.splitlines()), f"{command} prints less than the page says"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_example_is_passed_over(page):
    text = page.read_text(encoding="utf-8")
    for kind, block in pieces(page):
        assert kind in RUN + SHOWN, f"a block of {kind or 'no kind'} is not run: {block[:60]!r}"
        if kind == "python" and block.startswith(DOCTEST):
            assert page.name == "estimators.md"
    outside = BLOCK.sub("", text)
    assert not re.findall(r"^ {4}(?:\$ )?(?:ddol|\$) .*$", outside, re.M)


def test_examples_that_cannot_run_here_have_tests():
    texts = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for beginning, where in ELSEWHERE.items():
        assert (ROOT / where).exists(), where
        assert f"$ {beginning}" in texts, f"no page says {beginning!r} any longer"


def test_the_table_of_the_readme_has_a_command_for_every_row(folder):
    workloads = (ROOT / "benchmarks" / "workloads.py").read_text(encoding="utf-8")
    compared = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Compared")[2]
    table = re.findall(r"^\|.*\|$", compared, re.M)
    for row in table[2:]:
        command = row.split("|")[-2].strip()
        if command == "the same":
            continue
        assert command[0] == command[-1] == "`", row
        words = shlex.split(command.strip("`"))
        if words[0] == "ddol":
            run_line(" ".join(words))
        elif words[0] == "make":
            for name in words[-1].removeprefix("ARGS=--only ").split():
                assert f'"{name}"' in workloads, command
        else:
            assert words[:2] == ["python", "-m"]
            assert (ROOT / words[2].replace(".", "/")).with_suffix(".py").exists(), command


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        name, _, anchor = target.partition("#")
        place = page if not name else page.parent / name
        assert place.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors(place), f"{page.name}: {target}"


def test_the_reference_has_every_public_name():
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^   ddol\.(\w+)$", text, re.M))
    assert named == {name for name in ddol.__all__ if not name.startswith("__")}


def test_every_name_of_the_reference_has_an_example_that_runs():
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    for name in re.findall(r"^   (ddol\.[\w.]+)$", text, re.M):
        told = inspect.getdoc(pkgutil.resolve_name(name)) or ""
        assert doctest.DocTestParser().get_examples(told), f"{name} has no example"


def test_the_site_has_every_page():
    contents = (ROOT / "docs" / "conf.py").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert page.stem == "index" or f'"{page.stem}"' in contents, page.name
