"""Who wrote a line, from where, and what it says, whatever stands around it: a wrapper, JSON, a torn write, a bar, quotes."""

from __future__ import annotations

import json

from tests.parse.framing import records
from tests.tables import for_each

CORE = {"levelname": "INFO", "processName": "EngineCore_DP0"}
HEAD = "INFO 03-04 10:11:12 [loader.py:1]"
DONE = (9, "", "INFO", ("loader.py", 1), "done")
BARE = (None, "", "INFO", ("loader.py", 1), "done")
BAR = "Loading: 50%|#####     | 1/2 [00:01<00:01,  1.0it/s]"
Said = tuple[object, ...]
"""Number of the process, host, level, call site, message."""


@for_each(
    ("line", "expected"),
    [
        ("(EngineCore_DP0 pid=5) 2026-03-04 10:11:12,710 - vllm.v1.metrics.loggers - INFO - text", [(5, "", "INFO", None, "text")]),
        ("web-1  | INFO:vllm.engine.llm_engine:text", [(None, "web-1", "INFO", None, "text")]),
        (json.dumps({"message": "(EngineCore_DP0 pid=5) said", "levelname": "INFO"}), [(5, "", "INFO", None, "said")]),
        (json.dumps({"message": "said", **CORE, "process": 5}), [(5, "", "INFO", None, "said")]),
        (json.dumps({"message": "said", **CORE, "pid": 6}), [(6, "", "INFO", None, "said")]),
        # The record knows its process better than what stands before it.
        ("(APIServer pid=7) " + json.dumps({"message": "said", **CORE, "process": 5}), [(5, "", "INFO", None, "said")]),
        ("(APIServer pid=7) " + json.dumps({"message": "said"}), [(7, "", "INFO", None, "said")]),
        # A bar that waits for its end is a text of its own; a few torn characters are none.
        (f"{BAR}(Worker_TP1 pid=9) {HEAD} done", [(None, "", "", None, f"{BAR}(Worker_TP1 pid=9)"), DONE]),
        (f"torn (Worker_TP1 pid=9) {HEAD} done", [DONE]),
        (f"{BAR}\r{HEAD} done", [(None, "", "", None, BAR), BARE]),
        (f"\ufeff{HEAD} done   ", [BARE]),
        # Two writes without a line end between them are two records.
        (f"{HEAD} a b.{HEAD} done", [(None, "", "INFO", ("loader.py", 1), "a b."), BARE]),
        # What a wrapper calls its message is a record, what a text quotes is none.
        (f'time="x" msg="{HEAD} done', [BARE]),
        (f'it said prompt="{HEAD} done', [(None, "", "", None, f'it said prompt="{HEAD} done')]),
        ("Killed", [(None, "", "", None, "Killed")]),
    ],
)  # fmt: skip
def test_a_line_says_who_wrote_what_from_where(line: str, expected: list[Said]) -> None:
    assert [
        (one.process.pid, one.process.host, one.level, one.call_site, one.message) for one in records(line)
    ] == expected
