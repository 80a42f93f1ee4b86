import os
from pathlib import Path

import pytest
from hypothesis import settings

# The first call compiles, and the machine is shared: time says nothing about correctness.
settings.register_profile("streams", deadline=None)
settings.load_profile("streams")


@pytest.fixture(scope="session")
def data_folder():
    default = Path(__file__).parents[2].parent / "shared" / "data"
    folder = Path(os.environ.get("DDOL_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"no data folder at {folder}; set DDOL_DATA")
    return folder
