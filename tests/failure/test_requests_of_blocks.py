"""Which tracebacks report one request that failed: by who logged them, by their class, and by where they were raised."""

from __future__ import annotations

from tests.failure.records import framed, records_of, traceback
from tests.tables import for_each
from vllm_logdoctor.run.blockkinds import is_request
from vllm_logdoctor.run.blocks import blocks_of

TOO_LONG = "ValueError: This model's maximum context length is 4096 tokens."
OTHER = "ValueError: the shape differs"


def failed(ends: str, function: str = "check") -> list[str]:
    return traceback((function, "raise x"), ends=ends)


@for_each(
    ("lines", "of_request"),
    [
        # A request that is refused says so by its class or text, in the front end alone.
        (failed(TOO_LONG), True),
        (framed("APIServer pid=1", failed(TOO_LONG), "x.py:1"), True),
        (framed("EngineCore pid=9", failed(TOO_LONG), "x.py:1"), False),
        (framed("Worker_TP0 pid=9", failed(TOO_LONG), "x.py:1"), False),
        *((failed(f"{name}: no"), True) for name in ("fastapi.exceptions.RequestValidationError", "HTTPException", "jinja2.exceptions.TemplateError", "vllm.exceptions.VLLMValidationError")),
        (failed(OTHER), False),
        (framed("APIServer pid=1", failed(OTHER), "x.py:1"), False),
        # What serves requests logged it.
        (framed("APIServer pid=1", failed(OTHER), "serving_chat.py:300"), True),
        (framed("APIServer pid=1", ["Error in preprocessing prompt inputs", *failed(OTHER)], "serving_chat.py:300"), True),
        # The step of the engine is shared by all requests.
        (framed("APIServer pid=1", failed(OTHER, "run_busy_loop"), "serving_chat.py:300"), False),
    ],
)  # fmt: skip
def test_a_traceback_of_one_request(lines: list[str], of_request: bool) -> None:
    (block,) = blocks_of(records_of("\n".join(lines)))
    assert is_request(block) is of_request
