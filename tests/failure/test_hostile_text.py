"""No text of a log makes a signature search for long: expressions are proven linear, and timed on texts made against them."""

from __future__ import annotations

import re
import time

import pytest

from vllm_logdoctor import analyze
from vllm_logdoctor.catalogue.literal_coverage import GAP, shapes
from vllm_logdoctor.catalogue.locate import builtin_root, page_files
from vllm_logdoctor.catalogue.pages import RulePage, Signature, read_pages

LENGTH = 20_000
MOST_SECONDS = 2.0
CRASH = """\
INFO 11-20 10:00:00 [api_server.py:1289] vLLM API server version 0.11.0
ERROR 11-20 10:00:09 [core.py:708] EngineCore failed to start.
ERROR 11-20 10:00:09 [core.py:708] Traceback (most recent call last):
ERROR 11-20 10:00:09 [core.py:708]   File "/opt/vllm/v1/engine/core.py", line 699, in run_engine_core
ERROR 11-20 10:00:09 [core.py:708]     engine_core = EngineCoreProc(*args, **kwargs)
ERROR 11-20 10:00:09 [core.py:708] RuntimeError: {text}
"""
PAGES = [
    pytest.param(page, id=page.id) for page in read_pages(page_files(builtin_root()))[0] if page.signatures
]


def texts_against(signature: Signature) -> set[str]:
    """Texts full of beginnings of a match that never ends."""
    parts = [*signature.literals[:3], *(shape.split(GAP)[0] for shape in sorted(shapes(signature.regex))[:3])]
    return {(part * LENGTH)[:LENGTH] for part in (*parts, "a", "/a.") if part}


@pytest.mark.parametrize("page", PAGES)
def test_a_signature_gives_up_soon(page: RulePage) -> None:
    for signature in page.signatures:
        search = re.compile(signature.regex, re.DOTALL).search
        for text in texts_against(signature):
            start = time.process_time()
            search(text)
            assert time.process_time() - start < MOST_SECONDS


@pytest.mark.parametrize("part", ["/xgrammar/", ".triton/cache", "CUDA out of memory", "is not supported by"])
def test_an_exception_of_one_repeated_word_is_analysed_at_once(part: str) -> None:
    start = time.process_time()
    (run,) = analyze(CRASH.format(text=part * (LENGTH // len(part))).encode()).runs
    assert time.process_time() - start < MOST_SECONDS
    assert run.outcome == "crashed_at_startup"
