"""Reads log text as the tool does and returns what it says of the failure."""

from __future__ import annotations

from functools import lru_cache

from tests.failure.records import framed, traceback
from vllm_logdoctor.catalogue.locate import builtin_root, page_files
from vllm_logdoctor.catalogue.pages import read_page
from vllm_logdoctor.pipeline import Options, analyse
from vllm_logdoctor.report.model import Diagnosis
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.source import inputs_from


def diagnosis(text: str) -> Diagnosis:
    """Return what is said of the only run, or of the first one that broke."""
    runs = analyse(inputs_from(text.encode()), Options()).runs
    return next((run for run in runs if run.run.outcome.startswith("crashed")), runs[0])


def failures(text: str) -> list[Finding]:
    """Return the findings on what broke, the root first."""
    return [finding for finding in diagnosis(text).findings if finding.kind == "failure"]


def root(text: str) -> Finding:
    """Return the root."""
    return next(finding for finding in diagnosis(text).findings if finding.role == "root")


@lru_cache(maxsize=1)
def examples() -> dict[str, str]:
    """Return the example of each rule page that has one."""
    return {page.id: page.example for page in map(read_page, page_files(builtin_root())) if page.example}


def crashed(ends: str, version: str = "0.11.0", config: str = "", place: str = "load_model") -> Finding:
    """Return the root of a start that an exception ended."""
    start = f"(EngineCore_DP0 pid=9) INFO 05-01 09:59:20 [core.py:77] Initializing a V1 LLM engine (v{version}) with config: model='m', {config}"
    block = framed(
        "EngineCore_DP0 pid=9",
        ["EngineCore failed to start.", *traceback((place, "x()"), ends=ends)],
        "core.py:708",
    )
    return root("\n".join([start, *block]))


def raised(*frames: tuple[str, int, str, str], error: str, above: str = "") -> str:
    """Return a traceback as Python prints it, with a line above."""
    lines = [above, "Traceback (most recent call last):"]
    for file, line, function, code in frames:
        lines += [f'  File "{file}", line {line}, in {function}', f"    {code}"]
    return "\n".join([*lines, error]).strip()


ENGINE = (
    "/opt/site-packages/vllm/v1/engine/core.py",
    60,
    "__init__",
    "self.executor = executor_class(config)",
)
