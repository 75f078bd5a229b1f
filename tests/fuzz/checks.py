"""What must be true of the report on any bytes."""

from __future__ import annotations

import time

from tests.fuzz.logs import MARKUP, SECRET
from vllm_logdoctor import LogdoctorError, analyze
from vllm_logdoctor.pipeline import Options, analyse
from vllm_logdoctor.report.json import render
from vllm_logdoctor.source import Input

_SECONDS = 3.0
_SECONDS_PER_MEGABYTE = 20.0


def problems_of(data: bytes) -> list[str]:
    """Return what is wrong with the reports on a log; an error that is documented is no problem."""
    begun = time.process_time()
    try:
        report = analyze(data)
        texts = {
            "json": report.to_json(), "markdown": report.to_markdown(), "terminal": report.to_text(), "html": report.to_html(),
        }  # fmt: skip
    except LogdoctorError as error:
        return [] if error.exit_code in (3, 4) else [f"exit code {error.exit_code}: {error}"]
    except Exception as error:
        return [f"crash: {type(error).__name__}: {error}"]
    seconds = time.process_time() - begun
    found = []
    if seconds > _SECONDS + _SECONDS_PER_MEGABYTE * len(data) / 1e6:
        found.append(f"{seconds:.1f} s for {len(data):,} bytes")
    if "defect of logdoctor" in texts["json"]:
        found.append("a defect is noted in the report")
    found += [f"planted secret in {name}" for name, text in texts.items() if SECRET in text]
    if MARKUP in texts["html"]:
        found.append("markup of the log in html")
    documents = {
        render(analyse([Input("vllm.log", data=data)], Options(chunk_bytes=size))) for size in (257, 1 << 19)
    }
    if len(documents) > 1:
        found.append("another report for another chunk size")
    return found
