"""The browser that the tests of one module share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .chromium import Chromium, chromium_path


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    program = chromium_path()
    if program is None:
        pytest.skip("no Chromium here: bash tests/browser/install_chromium.sh")
    try:
        started = Chromium(program, tmp_path_factory.mktemp("profile"))
    except (TimeoutError, BrokenPipeError) as error:
        pytest.skip(f"{program} does not start here: {error}")
    with started as running:
        yield running
