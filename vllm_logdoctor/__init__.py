"""vllm_logdoctor: reads a vLLM log and says what really ran, what broke and why, and what to change first.

Example:
    >>> import vllm_logdoctor
    >>> report = vllm_logdoctor.analyze(b"INFO 01-01 00:00:00 [api_server.py:1] vLLM API server version 0.11.0\\n")
    >>> report.runs[0].version
    '0.11.0'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vllm_logdoctor.api import Report, RunView, analyze
    from vllm_logdoctor.errors import LogdoctorError
    from vllm_logdoctor.library import compare, verify, whatif
    from vllm_logdoctor.rules.explaining import explain
    from vllm_logdoctor.rules.model import Change, Finding
    from vllm_logdoctor.run.model import Evidence, Value

__all__ = [
    "Change",
    "Evidence",
    "Finding",
    "LogdoctorError",
    "Report",
    "RunView",
    "Value",
    "analyze",
    "compare",
    "explain",
    "verify",
    "whatif",
]

_HOMES = {
    "Report": "api", "RunView": "api", "analyze": "api", "LogdoctorError": "errors",
    "compare": "library", "explain": "rules.explaining", "verify": "library", "whatif": "library",
    "Change": "rules.model", "Effect": "rules.model",
    "Finding": "rules.model", "Evidence": "run.model", "Phase": "run.model", "Sample": "run.model", "Value": "run.model",
}  # fmt: skip


def __getattr__(name: str) -> object:
    # The command line starts without what the library needs: each name is imported on first use.
    if name not in _HOMES:
        raise AttributeError(f"module 'vllm_logdoctor' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"vllm_logdoctor.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
