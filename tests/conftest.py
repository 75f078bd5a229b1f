"""What holds for all tests: nothing is written outside a temporary folder, and a slow machine fails no law."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("without deadlines", deadline=None)
settings.load_profile("without deadlines")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Start one worker more than cores for `-n auto`: some tests wait for a batch system, a browser or a time limit."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture(autouse=True, scope="session")
def caches_in_a_temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep compiled expressions and fonts of this test process, and of those that it starts, in its own folder."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        patch.setenv("MPLCONFIGDIR", str(folder / "matplotlib"))
        yield
