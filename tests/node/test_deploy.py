"""Files for containers and services, as far as they can be tested without either."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parents[2] / "deploy"


def test_the_image_runs_without_privileges_and_says_how_it_is():
    text = (DEPLOY / "Dockerfile").read_text()
    assert re.search(r"^USER ddol$", text, re.M) and "HEALTHCHECK" in text
    assert "/v2/health/ready" in text and "STOPSIGNAL SIGTERM" in text
    assert "ENTRYPOINT" in text.splitlines()[-1] and '"serve"' in text


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_the_unit_is_right():
    found = subprocess.run(
        ["systemd-analyze", "verify", str(DEPLOY / "ddol-node.service")],
        capture_output=True, text=True,
    )  # fmt: skip
    assert "ddol-node.service" not in found.stderr, found.stderr
