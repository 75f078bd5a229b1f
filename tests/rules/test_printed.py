"""What to look for after a restart is named as the release and its engine print it."""

from __future__ import annotations

import pytest

from vllm_logdoctor.rules.printed import as_printed
from vllm_logdoctor.run.model import Run, Value


@pytest.mark.parametrize(
    ("version", "engine", "platform", "line"),
    [
        ("0.5.4", "V0", "cuda", "`# GPU blocks`"),
        ("0.6.6", "V0", "tpu", "`# TPU blocks`"),
        ("0.6.6", None, "cuda", "`# GPU blocks`"),
        ("0.8.5", "V0", "cuda", "`# cuda blocks`"),
        ("0.9.2", "V0", "rocm", "`# rocm blocks`"),
        ("0.7.3", "V1", "cuda", "`# GPU blocks`"),
        ("0.8.5", "V1", "cuda", "`GPU KV cache size`"),
        ("0.33.0", "V1", "cuda", "`GPU KV cache size`"),
        (None, None, None, "`GPU KV cache size` (engine V0: `# GPU blocks`)"),
    ],
)
def test_the_size_of_the_cache(
    version: str | None, engine: str | None, platform: str | None, line: str
) -> None:
    run = Run(version=Value(version, "reported") if version else None, engine=engine, platform=platform)  # type: ignore[arg-type]
    assert as_printed("Look for `GPU KV cache size`.", run) == f"Look for {line}."


def test_requests_that_wait_are_pending_ones_in_v0() -> None:
    assert as_printed("`Waiting` falls.", Run(engine="V0")) == "`Pending` falls."
    assert as_printed("`Waiting` falls.", Run(engine="V1")) == "`Waiting` falls."
