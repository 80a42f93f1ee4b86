import os
import subprocess
import sys
from pathlib import Path


def test_no_text_is_read_beyond_its_end():
    count = os.environ.get("DDOL_HOSTILE_TEXTS", "3000")
    script = Path(__file__).with_name("guarded_text.py")
    done = subprocess.run(
        [sys.executable, str(script), count, "7"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == count
