"""Settings of all tests."""

import logging

import pytest
from hypothesis import HealthCheck, settings

SLOW = ("engines/test_ray", "test_docs", "engines/test_mpi", "test_benchmarks", "engines/test_launch",
        "compiled/test_store", "cli/test_servers", "hostile/", "engines/", "node/")  # fmt: skip
"""Files that take long, the longest first, by how their names begin: a worker should not end with one."""

# The first call compiles, and the machine is shared: time says nothing about correctness. The same examples
# in every run: what fails fails for whoever looks into it.
settings.register_profile(
    "ddol",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ddol")


@pytest.fixture(autouse=True)
def _ddol_logger_as_found():
    """Remove log handlers that examples of pages, or commands in this process, have added."""
    yield
    logger = logging.getLogger("ddol")
    logger.handlers, logger.propagate = [], True
    logger.setLevel(logging.NOTSET)


def pytest_collection_modifyitems(items):
    """Let slow files begin first; the order within a file, and of all other files, stays."""
    items.sort(key=lambda item: _place(item.nodeid.removeprefix("tests/")))


def _place(name: str) -> int:
    return next((k for k, begins in enumerate(SLOW) if name.startswith(begins)), len(SLOW))
