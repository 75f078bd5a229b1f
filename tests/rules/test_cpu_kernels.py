"""A CPU backend without its compiled kernels is told before anything else, and other platforms are left alone."""

from __future__ import annotations

import pytest

import vllm_logdoctor

RULE = "cpu-kernels-not-loaded"
WARNED = (
    "WARNING 05-01 10:00:01 [{site}:487] Failed to import from vllm._C: "
    "ImportError('libnuma.so.1: cannot open shared object file: No such file or directory')"
)
CACHE = [
    "ERROR 05-01 10:00:01 [registry.py:810] Error saving model info cache.",
    "ERROR 05-01 10:00:01 [registry.py:810] Traceback (most recent call last):",
    'ERROR 05-01 10:00:01 [registry.py:810]   File "/usr/local/lib/python3.12/pathlib.py", line 1311, in mkdir',
    "ERROR 05-01 10:00:01 [registry.py:810]     os.mkdir(self, mode)",
    "ERROR 05-01 10:00:01 [registry.py:810] FileNotFoundError: [Errno 2] No such file or directory: '/.cache/vllm/modelinfos'",
    "ERROR 05-01 10:00:01 [registry.py:810]",
    "ERROR 05-01 10:00:01 [registry.py:810] During handling of the above exception, another exception occurred:",
    "ERROR 05-01 10:00:01 [registry.py:810]",
    "ERROR 05-01 10:00:01 [registry.py:810] Traceback (most recent call last):",
]


@pytest.mark.parametrize(("site", "told"), [("cpu.py", True), ("interface.py", False)])
def test_kernels_that_the_cpu_backend_could_not_load_come_before_a_cache_that_it_does_without(
    site: str, told: bool
) -> None:
    report = vllm_logdoctor.analyze([WARNED.format(site=site), *CACHE])
    text = report.to_markdown()
    assert ("1. CPU backend without its compiled kernels" in text) is told
    assert (RULE in report.to_json()) is told
    assert ("nstall `libnuma1`" in text) is told


def test_that_a_folder_above_a_file_is_missing_is_shown_by_what_followed_while_it_was_handled() -> None:
    text = vllm_logdoctor.analyze(CACHE).to_markdown()
    assert "No writable home directory for caches [L5, L7]" in text
