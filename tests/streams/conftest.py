import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_folder():
    default = Path(__file__).parents[2].parent / "shared" / "data"
    folder = Path(os.environ.get("DDOL_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"no data folder at {folder}; set DDOL_DATA")
    return folder
