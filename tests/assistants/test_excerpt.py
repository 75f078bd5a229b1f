"""An excerpt holds what somebody needs to judge a log without it, and nothing that must not leave."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import logdoctor
from tests.parse.planted_secrets import BY_NAME, BY_PLACE, BY_SHAPE, token
from tests.report.test_formats import acts, tags
from tests.tables import for_each
from vllm_logdoctor import analyze
from vllm_logdoctor.assistants.excerpt import FEWEST, MOST, Excerpt
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.report.reader import reader

FIXTURES = Path("fixtures").resolve()
HEAD = (
    "(APIServer pid=5) INFO 03-04 10:11:10 [api_server.py:1289] vLLM API server version 0.11.2",
    "(APIServer pid=5) INFO 03-04 10:11:11 [utils.py:253] non-default args: {'model': 'org/m', 'max_num_seqs': 64}",
    "(EngineCore_DP0 pid=9) INFO 03-04 10:11:40 [kv_cache_utils.py:1087] GPU KV cache size: 100,000 tokens",
)
CRASH = "(EngineCore_DP0 pid=9) ERROR 03-04 10:13:00 [core.py:708] RuntimeError: CUDA error: an illegal memory access was encountered"


def excerpt_of(*lines: str, **options: int) -> Excerpt:
    return analyze([*HEAD, *lines]).excerpt(**options)


def at(excerpt: Excerpt) -> dict[str, str]:
    return {one.at: one.text for one in excerpt.lines}


def forms(excerpt: Excerpt) -> list[str]:
    return [excerpt.to_markdown(), excerpt.to_text(), json.dumps(excerpt.to_dict(), ensure_ascii=False)]


def test_every_line_is_at_its_number_in_the_log() -> None:
    path = FIXTURES / "vllm-0.16.0-kill-enginecore.log"
    log = path.read_bytes().decode().split("\n")
    shown = analyze(str(path)).excerpt()
    assert shown.lines
    for line in shown.lines:
        assert line.text.rstrip("…") in log[int(line.at) - 1]


@for_each(
    "name",
    [path.name for path in sorted(FIXTURES.glob("*.log")) if "fail-" in path.name],
)
def test_the_decisive_line_of_a_failure_is_there(name: str) -> None:
    report = analyze(str(FIXTURES / name))
    failures = [one for run in report.runs for one in run.findings if one.kind == "failure"]
    assert str(failures[0].evidence[0].line) in at(report.excerpt())


def test_a_crash_comes_with_its_process_its_last_sign_of_life_and_the_settings() -> None:
    shown = excerpt_of(CRASH)
    assert [(one.name, one.value) for one in shown.signs] == [
        ("failed first in", "EngineCore_DP0 pid 9 DP0"),
        ("last sign of life", "GPU KV cache size: 100,000 tokens"),
    ]
    assert [(one.name, one.value) for one in shown.settings] == [("max_num_seqs", "64"), ("model", "org/m")]
    assert shown.launch.startswith("vllm serve org/m") or shown.launch == ""
    assert at(shown)["4"] == CRASH
    assert shown.concluded[0].kind == "failure"


def test_a_conclusion_says_which_part_it_has_in_the_failure_and_an_advice_says_none() -> None:
    assert "- Concluded (root failure, confidence " in excerpt_of(CRASH).to_markdown()
    served = analyze(FIXTURES / "vllm-0.11.2-kv-starved.log").excerpt().to_markdown()
    assert "- Concluded (performance, confidence " in served


def test_the_load_is_there_where_requests_were_served() -> None:
    served = analyze(FIXTURES / "vllm-0.11.2-kv-starved.log").excerpt()
    assert ("answered", "56 requests, all 200") in [(one.name, one.value) for one in served.load]
    assert excerpt_of(CRASH).load == ()


def test_native_text_above_a_traceback_is_there() -> None:
    native = "ptxas fatal   : Value 'sm_120a' is not defined for option 'gpu-name'"
    trace = (
        "Traceback (most recent call last):",
        '  File "/opt/vllm/v1/engine/core.py", line 9, in run',
        "    compile()",
        "RuntimeError: build failed",
    )
    assert native in at(excerpt_of(native, *trace)).values()


def test_an_error_that_is_not_the_named_cause_is_there_as_well() -> None:
    odd = "libodd: error 17: widget table is corrupt"
    assert odd in at(excerpt_of(odd, CRASH)).values()


@pytest.mark.parametrize("lines", [FEWEST, 60, MOST])
@pytest.mark.parametrize("name", ["vllm-0.16.0-kill-enginecore.log", "vllm-0.11.2-two-runs-one-log.log"])
def test_it_has_at_most_so_many_lines_in_every_form(name: str, lines: int) -> None:
    shown = analyze(str(FIXTURES / name)).excerpt(lines=lines)
    assert shown.to_markdown().count("\n") <= lines
    assert shown.to_text().count("\n") <= lines


def test_a_long_log_of_many_errors_stays_within_the_bound() -> None:
    errors = [
        f"(EngineCore_DP0 pid=9) ERROR 03-04 10:13:{n % 60:02} [core.py:{n}] OSError: {'x' * n} is gone {'y' * 900}"
        for n in range(300)
    ]
    shown = excerpt_of(*errors)
    assert shown.to_markdown().count("\n") <= MOST
    assert max(len(one.text) for one in shown.lines) <= 500


@pytest.mark.parametrize("lines", [0, FEWEST - 1, MOST + 1])
def test_other_numbers_of_lines_are_refused(lines: int) -> None:
    with pytest.raises(LogdoctorError, match="30 to 150"):
        excerpt_of(CRASH, lines=lines)


def test_the_last_run_that_failed_is_shown_and_the_others_are_named() -> None:
    names = ("vllm-0.32.0-fail-port-in-use.log", "vllm-0.16.0-fail-trust-remote-code.log")
    shown = analyze(b"".join((FIXTURES / name).read_bytes() for name in names)).excerpt()
    assert (shown.run, shown.runs) == (2, 2)
    assert any(one.text.startswith("Run 1: ") for one in shown.concluded)
    assert any("Address already in use" in text for text in at(shown).values())


def test_a_run_that_is_not_there_is_refused() -> None:
    with pytest.raises(LogdoctorError, match="there is no run 7: the log holds 1"):
        excerpt_of(CRASH, run=7)


@pytest.mark.parametrize("form", BY_NAME + BY_PLACE)
def test_a_secret_with_a_name_does_not_leave(form: str) -> None:
    secret = token()
    shown = excerpt_of(
        f"(APIServer pid=5) WARNING 03-04 10:12:00 [odd.py:93] near {form.format(secret)} failed", CRASH
    )
    assert not [text for text in forms(shown) if secret in text]


@for_each("kind", BY_SHAPE)
def test_a_secret_with_a_shape_does_not_leave(kind: str) -> None:
    shown = excerpt_of(f"(APIServer pid=5) ERROR 03-04 10:12:00 [odd.py:93] key {BY_SHAPE[kind]} bad", CRASH)
    core = BY_SHAPE[kind].replace("-----END RSA PRIVATE KEY-----", "")[-16:]
    assert not [text for text in forms(shown) if core in text]


@pytest.mark.parametrize(
    "payload",
    [
        "```",
        "````` </details>",
        "<script>x</script>",
        "\x1b[31mred",
        "\u202egnp.exe",
        "[a](javascript:b)",
        "# heading",
    ],
)
def test_log_text_is_text_in_every_form(payload: str) -> None:
    shown = excerpt_of(
        f"(EngineCore_DP0 pid=9) ERROR 03-04 10:12:00 [odd.py:93] {payload}", f"ValueError: {payload}", CRASH
    )
    assert not [text for text in forms(shown) if acts(text)]
    page = reader().render(shown.to_markdown())
    assert not {tag for tag in tags(page) if tag.startswith(("script", "img", "a.href", "details", "h1"))}
    assert page.count("<pre>") <= 2


def test_the_command_writes_each_form(tmp_path: Path) -> None:
    log = str(FIXTURES / "vllm-0.11.2-kv-starved.log")
    assert logdoctor("excerpt", log, cwd=tmp_path).stdout.startswith("### LIMITED: KV cache full")
    assert logdoctor("excerpt", log, "-f", "json", "-o", "case.json", cwd=tmp_path).returncode == 0
    assert json.loads((tmp_path / "case.json").read_text())["run"] == 1
    wrong = logdoctor("excerpt", log, "-f", "pdf", cwd=tmp_path)
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert logdoctor("excerpt", log, "-o", log, cwd=tmp_path).returncode == 2


TRACE = (
    "Traceback (most recent call last):",
    '  File "/opt/vllm/v1/worker/model_runner.py", line 9, in execute',
    "    hidden = self.model(",
    "             ^^^^^^^^^^^",
    '  File "/opt/vllm/attention/backend.py", line 7, in forward',
    "    return flash(q, k, v)",
)
MARKED = "(EngineCore_DP0 pid=9) ERROR 03-04 10:13:00 [core.py:708] "
QUIET = tuple(
    f"(APIServer pid=5) INFO 03-04 10:12:{n:02} [odd.py:{n}] widget {chr(97 + n % 26) * (5 + n // 26)} is at work"
    for n in range(60)
)


def test_the_places_of_the_traceback_are_there_when_its_error_was_announced_before() -> None:
    announced = f"{MARKED}Error in model execution: CUDA error: an illegal memory access was encountered"
    trace = [f"{MARKED}{line}" for line in TRACE]
    shown = at(excerpt_of(*QUIET, announced, *trace, CRASH)).values()
    assert any("attention/backend.py" in text for text in shown)
    assert any("flash(q, k, v)" in text for text in shown)
    assert not any(text.endswith("^^^") for text in shown)


def test_the_statement_that_raised_is_there_when_its_place_is_broken_over_lines() -> None:
    broken = (
        *TRACE,
        '  File "/opt/vllm/loader/download',
        'er.py", line 80, in fetch',
        '    raise WidgetError(self.pool, "gone")',
    )
    shown = at(excerpt_of(*QUIET, *broken, "RuntimeError: the widget is gone")).values()
    assert any("raise WidgetError" in text for text in shown)


def test_what_the_process_that_failed_said_to_go_without_is_there() -> None:
    without = "(EngineCore_DP0 pid=9) INFO 03-04 10:11:12 [importing.py:27] 0 active drivers found. Disabling widgets to prevent errors."
    of_another = without.replace("pid=9", "pid=8").replace("EngineCore_DP0", "EngineCore_DP1")
    shown = at(excerpt_of(without, of_another, *QUIET, *TRACE[:1], CRASH)).values()
    assert without in shown
    assert of_another not in shown


@pytest.mark.parametrize(
    ("host", "left"),
    [
        ("203.0.114.7", False),
        ("[2a00:1450::7]", False),
        ("2a00:1450:0:0:0:0:0:7", False),
        ("127.0.0.1", True),
        ("10.1.2.3", True),
        ("192.168.1.9", True),
        ("999.1.1.1", True),
    ],
)
def test_the_address_of_a_client_on_the_internet_does_not_leave(host: str, left: bool) -> None:
    shown = excerpt_of(f'INFO:     {host}:53124 - "POST /v1/completions HTTP/1.1" 200 OK', CRASH)
    assert all((host in text) == left for text in forms(shown))
    assert any(':53124 - "POST' in text for text in at(shown).values())


def test_a_server_that_was_stopped_did_not_fail_first_anywhere() -> None:
    stopped = "(EngineCore_DP0 pid=9) KeyboardInterrupt"
    assert "failed first in" not in {one.name for one in excerpt_of(*TRACE, stopped).signs}
