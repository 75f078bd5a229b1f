"""A call that failed is the root of a run unless a later line shows the engine at work."""

import pytest

from tests.failure.judging import diagnosis
from tests.failure.records import framed, traceback
from tests.failure.test_outcome import READY, SERVED, START
from tests.run.lives_of_a_server import statistics

IDLE = (
    statistics(clock="05-01 10:41:00", running=0)
    .replace("100.0 tokens/s", "0.0 tokens/s")
    .replace("10.0 tokens/s", "0.0 tokens/s")
)


OTHER = "(APIServer pid=1) INFO 05-01 10:42:00 [launcher.py:9] Another word"


@pytest.mark.parametrize(
    ("after", "failed"),
    [
        ([], True),
        ([OTHER], True),
        ([statistics(clock="05-01 10:41:00")], False),
        ([IDLE], False),
        ([statistics(clock="05-01 10:41:00")] * 3 + [OTHER] * 400, False),
        ([OTHER] * 400, True),
    ],
    ids=[
        "end",
        "other",
        "statistics",
        "idle statistics",
        "statistics far above the end",
        "others to the end",
    ],
)
def test_a_call_that_failed_is_the_root_where_no_line_shows_the_engine_at_work_after_it(after, failed):
    call = framed(
        "EngineCore pid=9",
        ["Invocation of reset_odd method failed", *traceback(("_invoke_utility_method", "result = get_result()"), ends="RuntimeError: the odd thing is not there")],
        "core.py:1449",
        "10:40:12",
    )  # fmt: skip
    found = diagnosis("\n".join([*START, *READY, *SERVED, *call, *after]))
    assert ("engine-code-bug" in [one.id for one in found.findings if one.role == "root"]) is failed
