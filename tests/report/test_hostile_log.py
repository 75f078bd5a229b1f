"""One hostile log, read by every command in every form: what it carries is shown as text and nothing else.

A stranger chooses model names, served names, file names, addresses and prompts. Here each of them acts in some
reader: Markdown, HTML, terminals, rich, templates, spreadsheets, XML, shells, YAML, workflow commands.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from xml.etree import ElementTree

import pytest
from rich.console import Console

from tests.report.test_formats import acts, tags
from tests.tables import for_each
from vllm_logdoctor import Report, analyze
from vllm_logdoctor.cli.config import yaml_text
from vllm_logdoctor.cli.plan import FORMS
from vllm_logdoctor.comparison.snapshot import snapshot_of
from vllm_logdoctor.comparison.verification import verify
from vllm_logdoctor.comparison.writers import result_of_comparison, result_of_verification
from vllm_logdoctor.plan.formats import render_launch
from vllm_logdoctor.plan.launch import launch_of
from vllm_logdoctor.report.reader import reader
from vllm_logdoctor.report.terminal import print_analysis
from vllm_logdoctor.report.terminal_page import print_page
from vllm_logdoctor.report.writers import FORMATS, render, render_result

PAYLOADS = (
    "<script>window.taken=1</script>",
    "<img src=x onerror=alert(1)>",
    "![x](http://evil.example/b.png)",
    "[click](javascript:alert(1))",
    "\x1b[31mred\x1b]8;;http://evil.example\x07link\x1b]8;;\x07",
    "\u202egnp.exe\u2066",
    "[bold red]x[/] [link=file:///etc/passwd]y",
    "{{ 7*7 }} ${x} {% y %}",
    "=cmd|/C calc!A0",
    "]]> --> */ \x08\x0b\ufffe",
    "$(touch taken) `touch taken` ; touch taken",
    "::error file=a::taken",
    "|a|b|\\|",
    "# heading",
    "```",
    ": !!python/object/apply:os.system [x]",
)


def hostile_log(payload: str) -> bytes:
    """A server that starts, serves, warns and fails, with the payload wherever a stranger's text can be."""
    shown = payload.replace("'", "")
    arguments = f"{{'model_tag': 'org/{shown}', 'served_model_name': ['{shown}'], 'max_num_seqs': 1, 'chat_template': '{shown}'}}"
    statistics = (
        "(APIServer pid=11) INFO 03-02 10:0{minute}:{second:02} [loggers.py:127] Engine 000: Avg prompt throughput: "
        "9.0 tokens/s, Avg generation throughput: 50.0 tokens/s, Running: 1 reqs, Waiting: 9 reqs, GPU KV cache "
        "usage: 1.0%, Prefix cache hit rate: 0.0%"
    )
    lines = [
        f"+ export VLLM_CACHE_ROOT={shown}",
        "INFO 03-02 10:00:00 [__init__.py:216] Automatically detected platform cuda.",
        "(APIServer pid=11) INFO 03-02 10:00:05 [api_server.py:1839] vLLM API server version 0.11.2",
        f"(APIServer pid=11) INFO 03-02 10:00:05 [utils.py:233] non-default args: {arguments}",
        f"(EngineCore_DP0 pid=12) INFO 03-02 10:00:09 [gpu_model_runner.py:2602] Starting to load model {shown}...",
        f"(EngineCore_DP0 pid=12) WARNING 03-02 10:00:10 [a.py:1] A warning that nobody knows: {shown}",
        "(APIServer pid=11) INFO:     Application startup complete.",
        f'(APIServer pid=11) INFO:     10.0.0.1:5 - "POST /v1/{shown} HTTP/1.1" 200 OK',
        f"(APIServer pid=11) INFO 03-02 10:01:01 [logger.py:40] Received request cmpl-1: prompt: '{shown}', params: x",
        *(statistics.format(minute=1 + n // 6, second=n % 6 * 10) for n in range(12)),
        f"(EngineCore_DP0 pid=12) ERROR 03-02 10:04:00 [core.py:710] RuntimeError: {shown}",
        f"RuntimeError: {shown}",
    ]
    return "\n".join(lines).encode("utf-8", "surrogatepass") + b"\n"


@pytest.fixture(scope="module", params=range(0, len(PAYLOADS), 4))
def report(request: pytest.FixtureRequest) -> Report:
    """The report of a log that carries four of the payloads."""
    return analyze(hostile_log(" ".join(PAYLOADS[request.param : request.param + 4])))


@pytest.fixture(scope="module")
def written(report: Report) -> dict[str, dict[str, str]]:
    """The report, a comparison and a verification of it, each in every format."""
    side = snapshot_of(report.to_dict())
    checked = verify(side, side)
    return {
        "analyze": {name: render(report.analysis, name) for name in FORMATS},
        "compare": {name: render_result(result_of_comparison(checked.comparison), name) for name in FORMATS},
        "verify": {name: render_result(result_of_verification(checked), name) for name in FORMATS},
    }


COMMANDS = ("analyze", "compare", "verify")


@for_each("command", COMMANDS)
def test_pages_and_screens_show_it_as_text(written: dict[str, dict[str, str]], command: str) -> None:
    pages = written[command]
    assert [
        name for name in ("markdown", "text", "html", "csv", "github", "junit") if acts(pages[name])
    ] == []
    rendered = reader().render(pages["markdown"])
    assert not [part for part in ("<script", "<img", "<a ", "<style") if part in rendered.lower()]
    out = io.StringIO()
    print_page(pages["markdown"], Console(file=out, width=100, color_system=None))
    assert acts(out.getvalue()) == []


@for_each("command", COMMANDS)
def test_machines_read_it_as_text(written: dict[str, dict[str, str]], command: str) -> None:
    pages = written[command]
    json.loads(pages["json"])
    json.loads(pages["sarif"])
    ElementTree.fromstring(pages["junit"].encode())
    for line in pages["github"].splitlines():
        assert line.split(" ", 1)[0] in ("::error", "::warning", "::notice")
    cells = [cell for row in csv.reader(io.StringIO(pages["csv"])) for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "@", "\t"))]


@for_each("command", COMMANDS)
def test_html_holds_no_element_of_the_log(written: dict[str, dict[str, str]], command: str) -> None:
    page = written[command]["html"]
    loaded = {tag for tag in tags(page) if ".on" in tag or tag.endswith(".src") or "href=" in tag}
    assert loaded == set()
    assert len(re.findall(r"<script[ >]", page.split("<main")[0])) == 0
    assert len(re.findall(r"<script[ >]", page.split("</main>")[1])) == 3


def test_the_view_on_a_terminal_shows_it_as_text(report: Report) -> None:
    out = io.StringIO()
    print_analysis(report.analysis, Console(file=out, width=100, color_system=None))
    assert acts(out.getvalue()) == []


@pytest.mark.parametrize("form", FORMS)
def test_a_launch_keeps_it_in_one_word(report: Report, form: str) -> None:
    launch = launch_of(report.runs[0].run)
    assert launch is not None
    text = render_launch(launch, form)
    assert acts(text) == []
    if form == "shell" and "$'" not in text:
        words = shlex.split(text.replace("\\\n", " "))
        assert words.count("serve") == 1
        assert not [word for word in words if word in ("touch", ";", "taken")]


def test_the_configuration_is_shown_as_text(report: Report) -> None:
    assert acts(yaml_text(report.runs[0].run)) == []
