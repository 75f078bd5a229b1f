"""What to do is said once: an action that a page says again in more words is reported in these words."""

from __future__ import annotations

from vllm_logdoctor.pipeline import Options, analyse
from vllm_logdoctor.report import markdown
from vllm_logdoctor.report.alternatives import in_full, ways_beside
from vllm_logdoctor.rules.model import Change
from vllm_logdoctor.source import inputs_from

KILLED = """\
(APIServer pid=1) INFO 05-01 10:00:01 [api_server.py:1300] vLLM API server version 0.11.0
(APIServer pid=1) INFO:     Application startup complete.
(APIServer pid=1) ERROR 05-01 10:41:12 [core_client.py:564] Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.
"""


def report_of(log: str) -> str:
    return markdown.render(analyse(inputs_from(log.encode()), Options()))


def test_a_crash_report_says_each_action_once() -> None:
    report = report_of(KILLED)
    assert report.lower().count("check the node at that time") == 1
    assert "dmesg -T" in report.partition("\n## ")[0]


def test_an_action_is_reported_with_the_command_for_it() -> None:
    change = Change("keep the output", "action", None, "vllm serve ... > vllm.log 2>&1")
    assert in_full(change, ["Start again."]) is None
    assert ways_beside([change], ["Start again."]) == ("Start again.",)


def test_flags_are_no_actions() -> None:
    assert ways_beside([Change("--max-num-seqs", "flag", 256, 64)], ["Lower `--max-num-seqs`."]) != ()


def test_a_start_that_was_cut_asks_first_what_ended_it_whatever_would_be_faster() -> None:
    start = """\
(APIServer pid=1) INFO 05-01 10:00:01 [api_server.py:1300] vLLM API server version 0.11.0
(APIServer pid=1) INFO 05-01 10:00:01 [utils.py:233] non-default args: {'model': 'org/tiny', 'enforce_eager': True}
(EngineCore pid=2) INFO 05-01 10:00:20 [core.py:97] Initializing a V1 LLM engine (v0.11.0) with config: \
model='org/tiny', enforce_eager=True, device_config=cuda
(EngineCore pid=2) INFO 05-01 10:01:20 [gpu_model_runner.py:2900] Model loading took 14.2 GiB and 21.3 seconds
"""
    report = report_of(start)
    assert report.startswith("# CUT OFF: the log ends during start-up\n")
    assert "1. If the process still runs, see what it does" in report.partition("\n## ")[0]
    assert "log cut off" not in report.partition("\n## ")[0]
    assert "--enforce-eager" not in report.partition("\n## ")[0]
    assert "sacct" in report
    planned = analyse(inputs_from(start.encode()), Options()).runs[0].plan.changes
    assert planned[0].change.knob.startswith("find out what ended the process")
