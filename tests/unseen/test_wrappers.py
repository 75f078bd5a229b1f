"""The same run behind every wrapper: what a wrapper adds changes no fact."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.tables import for_each
from tests.unseen.lives import life
from tests.unseen.reading import facts, log, only_run

LOGS = {
    "stopped": life(stop="asked"),
    "crashed": life(stop="out-of-memory"),
    "unnamed": life("0.9.1", named=False, stop="asked"),
    "0.33.0": log("0.33.0-all-parts"),
    "0.6.1": log("0.6.1-preempted"),
}
ISO = "2026-03-04T05:06:07"


def before(prefix: str) -> Callable[[str], str]:
    return lambda text: re.sub("^", lambda _: prefix, text, flags=re.MULTILINE).removesuffix(prefix)


def rows(row: Callable[[str], str], head: str = "") -> Callable[[str], str]:
    return lambda text: head + "".join(row(line) + "\n" for line in text.splitlines())


def objects(**names: Any) -> Callable[[str], str]:
    """One JSON object per line; the value LINE is the line."""

    def filled(value: Any, line: str) -> Any:
        if isinstance(value, dict):
            return {key: filled(one, line) for key, one in value.items()}
        return line if value == "LINE" else value

    return rows(lambda line: json.dumps(filled(names, line)))


def cut_at(width: int) -> Callable[[str], str]:
    return rows(lambda line: "\n".join(line[n : n + width] for n in range(0, max(len(line), 1), width)))


WRAPPERS: dict[str, Callable[[str], str]] = {
    "docker logs -t": before(f"{ISO}.123456789Z "),
    "CRI": before(f"{ISO}.123456789+02:00 stderr F "),
    "journald": before("Mar 04 05:06:07 gpu-node-7 vllm[4242]: "),
    "journald in Russian": before("мар 04 05:06:07 gpu07 python3[4242]: "),
    "journald in Chinese": before("3月 04 05:06:07 gpu07 python3[4242]: "),
    "journald short-iso": before(f"{ISO}+0100 gpu07 python3[4242]: "),
    "journald short-precise": before("Mar 04 05:06:07.123456 gpu07 vllm-serve[4242]: "),
    "syslog RFC 5424": before(f"<30>1 {ISO}.123Z host vllm 42 - - "),
    "docker compose": before("vllm-1  | "),
    "docker compose coloured": before("\x1b[36mvllm-1  | \x1b[0m"),
    "kubectl --prefix": before("[pod/vllm-abc-123/server] "),
    "kubectl --prefix --timestamps": before(f"[pod/vllm-abc-123/server] {ISO}.1Z "),
    "stern": before("vllm-abc-5d8 server "),
    "srun -l": before("0: "),
    "srun -l, many ranks": before(" 12: "),
    "mpirun": before("[1,0]<stderr>:"),
    "torchrun": before("[default0]:"),
    "GitHub Actions": before(f"{ISO}.1234567Z "),
    "gh run view": before(f"serve\tRun vllm\t{ISO}.1234567Z "),
    "GitLab": before(f"{ISO}.123456Z 01E "),
    "Buildkite": before(f"[{ISO}Z] "),
    "Buildkite raw": before("\x1b_bk;t=1741064767123\x07"),
    "ts": before("Mar 04 05:06:07 "),
    "supervisor": before("2026-03-04 05:06:07,123 DEBG 'vllm' stdout output: "),
    "honcho": before("05:06:07 vllm.1 | "),
    "loguru": before("2026-03-04 05:06:07.123 | INFO     | runner:stream:42 - "),
    "a script's logger": before("2026-03-04 05:06:07,123 - INFO - vLLM: "),
    "grep -n": before("logs/vllm.log:7:"),
    "Ray": before("(ServeReplica:default:LLM pid=777) "),
    "Ray on a node": before("(VLLMActor pid=777, ip=10.1.2.3) "),
    "SkyPilot": before("(head, rank=0, pid=2345) "),
    "VLLM_LOGGING_PREFIX": before("[replica-3] "),
    "quoted in Markdown": before("> "),
    "fenced in Markdown": lambda text: f"### Log\n\n```text\n{text}```\n\nAny idea?\n",
    "docker json-file": rows(
        lambda line: json.dumps({"log": line + "\n", "stream": "stderr", "time": f"{ISO}Z"})
    ),
    "Loki": objects(labels={"pod": "vllm"}, line="LINE", timestamp=f"{ISO}Z"),
    "Cloud Logging": objects(insertId="a", textPayload="LINE", timestamp=f"{ISO}Z", severity="ERROR"),
    "Datadog": objects(id="A", content={"timestamp": f"{ISO}Z", "message": "LINE", "service": "vllm"}),
    "CloudWatch": objects(timestamp=1772600767000, message="LINE", ingestionTime=1772600767000),
    "Elastic": objects(_source={"@timestamp": f"{ISO}Z", "message": "LINE", "kubernetes": {"pod": "x"}}),
    "journalctl -o json": objects(__REALTIME_TIMESTAMP="1772600767000000", _PID="42", MESSAGE="LINE"),
    "fluentd": rows(lambda line: f"{ISO}+00:00 kube.vllm " + json.dumps({"log": line, "stream": "stderr"})),
    "CSV": rows(
        lambda line: f'{ISO}Z,"h","vllm","' + line.replace('"', '""') + '"', "Date,Host,Service,Message\n"
    ),
    "HTML": lambda text: (
        text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    ),
    "a web page": lambda text: text.replace(" ", "\u00a0"),
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "NUL block": lambda text: "\0" * 5000 + text,
    "byte order mark": lambda text: "\ufeff" + text,
    "a terminal of 80 columns": cut_at(80),
    "a terminal of 132 columns": cut_at(132),
    "a terminal of 200 columns": cut_at(200),
    "script": lambda text: (
        "Script started on 2026-03-04\r\n" + text.replace("\n", "\r\n") + "Script done\r\n"
    ),
    "tmux": lambda text: "\x1b[?2004h$ vllm serve\n" + text.replace("\n", "\x1b[K\n"),
    "no last line end": lambda text: text.rstrip("\n"),
}


@for_each("wrapper", WRAPPERS)
def test_a_wrapper_changes_no_fact(wrapper: str) -> None:
    name = sorted(LOGS)[sum(map(ord, wrapper)) % len(LOGS)]
    assert facts(only_run(WRAPPERS[wrapper](LOGS[name]))) == facts(only_run(LOGS[name]))


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-8-sig"])
def test_a_coding_changes_no_fact(coding: str) -> None:
    text = LOGS["stopped"]
    assert facts(only_run(text.encode(coding))) == facts(only_run(text))


def test_rows_of_a_terminal_keep_the_line_numbers_of_the_file() -> None:
    text = cut_at(80)(LOGS["stopped"])
    run = only_run(text)
    lines = text.splitlines()
    assert all("Avg prompt" in lines[sample.line - 1] for sample in run.samples)


def test_a_log_with_lines_of_many_lengths_is_not_taken_for_a_terminals() -> None:
    statistics = "".join(line + "\n" for line in LOGS["stopped"].splitlines() if "Avg prompt" in line) * 10
    assert only_run(statistics).sample_count == 30
