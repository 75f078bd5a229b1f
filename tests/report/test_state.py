"""The state of a run, in capitals: which of all that is known of a run it tells, and with which doubt."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tests.report.test_verdict import line, page_of
from tests.rules.making import a_run, load, record
from tests.tables import for_each
from vllm_logdoctor.report.state import (
    costly_findings,
    doubted,
    failed_request,
    of_little_load,
    state,
    state_level,
)
from vllm_logdoctor.report.verdict import sentence
from vllm_logdoctor.rules.bottleneck import ONE_FAILED, Bottleneck
from vllm_logdoctor.rules.failure.nonfatal import CLIENT_FAILED, TRANSFER
from vllm_logdoctor.rules.failure.requests import REFUSED
from vllm_logdoctor.rules.model import Change, Effect, Finding
from vllm_logdoctor.rules.performance.order import CLIENT
from vllm_logdoctor.run.model import Benchmark, Occurrences, Progress, Run, Value

BUSY = {"running": 8, "generation": 300.0, "kv": 4.0}
LOADED = load((12, BUSY))
POST = ("POST", "/v1/completions")
STEP = (Change("--x", "flag", None, 1, "safe", ""),)


def found(id: str, title: str = "Something", kind: Any = "performance", **more: Any) -> Finding:
    given = {
        "severity": "high",
        "confidence": "high",
        "changes": STEP,
        "evidence": (line(7, "the line"),),
        **more,
    }
    return Finding(
        id,
        kind,
        title=title,
        explanation=more.pop("explanation", "It is so."),
        **{k: v for k, v in given.items() if k != "explanation"},
    )


def limited(name: Any, reason: str = "the load is not known", **more: Any) -> Bottleneck:
    return Bottleneck(name, reason, **more)


def told(run: Run, *findings: Finding, limit: Bottleneck | None = None, **more: Any) -> str:
    return state(page_of(run, *findings, limit=limit, **more))


@for_each(
    ("run", "said"),
    [
        ({"outcome": "crashed_at_startup"}, "FAILED at start-up: cause not in this log"),
        ({"outcome": "crashed_while_serving"}, "FAILED while serving: cause not in this log"),
        (
            {"outcome": "crashed_while_serving", "kind": "offline"},
            "FAILED after start-up: cause not in this log",
        ),
        ({"outcome": "killed"}, "KILLED: cause not in this log"),
        ({"server": "sglang"}, "NOT JUDGED: log of SGLang"),
        ({"server": "other"}, "NOT JUDGED: log of other"),
        ({"kind": "build"}, "BUILD: no error"),
        ({"router": True}, "ROUTER: no error"),
        ({"kind": "offline"}, "COMPLETED"),
        ({}, "HEALTHY: no statistics of the load in this log"),
        ({"samples": LOADED}, "HEALTHY: no clear limit"),
    ],
)
def test_the_state_of_a_run_without_a_finding(run: dict[str, Any], said: str) -> None:
    assert told(a_run(**run)) == said


@for_each(
    ("limit", "run", "said"),
    [
        ("startup-only", {}, "STARTED: no request in this log"),
        ("startup-only", {"kind": "offline"}, "STARTED: no prompts in the lines of vLLM"),
        ("idle", {"samples": LOADED}, "HEALTHY: idle, no requests"),
        ("client-limited", {"samples": LOADED}, "HEALTHY"),
        ("client-limited", {"samples": LOADED[:2]}, "NO FAILURE: no request waited in 2 statistics lines"),
        ("kv-cache-limited", {"samples": LOADED, "set": {"max_num_seqs": 8}}, "LIMITED: KV cache full"),
        ("max-num-seqs-limited", {"samples": LOADED, "set": {"max_num_seqs": 8}}, "LIMITED: max_num_seqs reached"),
        # Without the setting, and with room in the cache, both are only probable.
        ("max-num-seqs-limited", {"samples": LOADED, "version": None}, "LIMITED: max_num_seqs reached (probable)"),
        # Ranks alone leave the network a suspect, as its finding of low confidence has it.
        ("interconnect-limited", {"samples": LOADED, "set": {"tensor_parallel_size": 16}}, "LIMITED: network between nodes (suspected)"),
        ("prefill-limited", {"samples": LOADED}, "LIMITED: prefill"),
        ("host-limited", {"samples": LOADED}, "LIMITED: slow decode steps"),
        ("host-limited", {"samples": LOADED, "set": {"cpu_offload_gb": 10}}, "LIMITED: CPU offload of weights"),
    ],
)  # fmt: skip
def test_the_state_of_a_load_is_its_limit(limit: Any, run: dict[str, Any], said: str) -> None:
    assert told(a_run(**run), limit=limited(limit)) == said


def test_a_cache_is_called_full_as_the_finding_on_it_says() -> None:
    run = a_run(samples=LOADED, set={"max_num_seqs": 8})
    one = found("kv-cache-preemption", "KV cache held by few: they are long", severity="medium")
    assert told(run, one, limit=limited("kv-cache-limited")) == "LIMITED: KV cache held by few"
    assert (
        told(run, one, limit=limited("prefill-limited", "a queue, which is not in the log"))
        == "LIMITED: prefill or max_num_seqs"
    )


def test_requests_that_wait_without_a_known_limit_are_a_limit() -> None:
    queue = a_run(samples=load((12, {**BUSY, "waiting": 3})))
    assert told(queue) == "LIMITED: requests wait, the cause is not in the log"
    assert told(queue, found("some-rule", "A slow way")) == "LIMITED: A slow way"
    assert told(queue, limit=limited("client-limited")) == "HEALTHY"


SERVING = {"kind": "configuration", "topic": "serving"}


@for_each(
    ("finding", "costly"),
    [
        (found("some-rule"), True),
        (found("some-rule", severity="critical"), True),
        (found("some-rule", severity="medium"), False),
        (found("some-rule", changes=()), False),
        (found("some-rule", kind="information"), False),
        (found("engine-makes-no-progress", kind="information"), True),
        (found("some-rule", kind="configuration"), True),
        (found("some-rule", effect=Effect("generation_throughput", 1.1, 1.2, "computed", "", 0.9)), True),
        (found("some-rule", effect=Effect("generation_throughput", 1.1, 1.2, "computed", "", 0.89)), False),
    ],
)
def test_what_costs_a_run_much(finding: Finding, costly: bool) -> None:
    page = page_of(a_run(samples=LOADED), finding)
    assert bool(costly_findings(page)) is costly
    assert state_level(page) == ("limited" if costly else "healthy")


def test_without_a_load_only_settings_that_fail_cost_anything() -> None:
    slow, wrong = found("some-rule"), found("some-rule", kind="configuration")
    short = {"limit": limited("client-limited")}
    assert not costly_findings(page_of(a_run(), slow))
    assert not costly_findings(page_of(a_run(samples=LOADED[:2]), slow, **short))
    assert costly_findings(page_of(a_run(samples=LOADED), slow, **short))
    assert costly_findings(page_of(a_run(samples=LOADED[:2]), slow))
    assert costly_findings(page_of(a_run(), wrong))
    assert costly_findings(page_of(a_run(), hidden=(wrong,)))


@for_each(
    ("statuses", "reason", "findings", "said"),
    [
        ((500,), "", (), "REQUESTS FAILED: no request succeeded"),
        ((500, 200), "", (), "HEALTHY: no statistics of the load in this log"),
        ((500,), ONE_FAILED, (), "REQUEST FAILED: the only answered one to the model"),
        ((400,), ONE_FAILED, (found(REFUSED, "Prompt too long", kind="configuration", severity="low"),), "REQUEST FAILED: prompt too long"),
        ((500,), "", (found("answered-with-errors", "Most requests fail", **SERVING),), "LIMITED: Most requests fail"),
    ],
)  # fmt: skip
def test_a_run_in_which_no_request_succeeded(
    statuses: tuple[int, ...], reason: str, findings: tuple[Finding, ...], said: str
) -> None:
    run = a_run(accesses={(*POST, status): 3 for status in statuses})
    assert told(run, *findings, limit=limited("none-clear", reason or "x")) == said


def transfers(lines: int, kind: Any = "configuration") -> Finding:
    return found(
        TRANSFER, "KV transfers failed", kind=kind, severity="medium", evidence=tuple(map(line, range(lines)))
    )


def test_transfers_that_fail_again_and_again_are_to_be_checked() -> None:
    run = a_run(samples=LOADED)
    assert told(run, transfers(3)) == "TO CHECK: KV transfers failed"
    assert told(run, transfers(2)) == "HEALTHY: no clear limit"
    assert told(run, hidden=(transfers(3),)) == "TO CHECK: KV transfers failed"
    assert told(run, transfers(3), limit=limited("prefill-limited")) == "LIMITED: prefill"
    assert told(run, transfers(3), found("some-rule", "A slow way")) == "LIMITED: A slow way"
    unanswered = a_run(accesses={(*POST, 500): 3})
    assert told(unanswered, transfers(3)) == "REQUESTS FAILED: no request succeeded"


REQUEST = found(REFUSED, "Prompt too long", kind="configuration", severity="low", role="root")


@for_each(
    ("run", "limit", "findings", "said"),
    [
        # A log that shows nothing else is about the error of the request.
        ({"startup": False}, "none-clear", (REQUEST,), "REQUEST ERROR: prompt too long"),
        ({"startup": False}, "none-clear", (found("other"), REQUEST), "EXCERPT: requests without statistics"),
        ({"startup": False}, "startup-only", (), "EXCERPT: the log shows neither a complete start nor statistics of a load"),
        ({"startup": False, "followed": True}, "startup-only", (), "CUT OFF: the next start follows before this one completed"),
        ({"startup": False, "followed": True, "version": None}, "startup-only", (), "EXCERPT: the log shows neither"),
        ({"startup": False, "outcome": "truncated"}, "startup-only", (), "CUT OFF: the log ends during start-up"),
        ({"outcome": "truncated", "kind": "offline"}, "startup-only", (), "CUT OFF: no result in the log"),
        ({"outcome": "truncated", "kind": "offline", "samples": LOADED}, "none-clear", (), "HEALTHY: no clear limit"),
        ({}, "startup-only", (REQUEST,), "STARTED: prompt too long"),
        ({"samples": LOADED[:2]}, "client-limited", (REQUEST,), "NO FAILURE: prompt too long"),
        # Where refused requests are counted, the figures say how many.
        ({"samples": LOADED[:2], "accesses": {(*POST, 400): 1, (*POST, 200): 9}}, "client-limited", (REQUEST,), "NO FAILURE: no request waited in 2 statistics lines"),
        ({"samples": LOADED}, "client-limited", (replace(REQUEST, title=CLIENT_FAILED),), "HEALTHY, but a client of the server failed"),
    ],
)  # fmt: skip
def test_an_error_of_a_request_is_the_state_of_a_log_with_little_else(
    run: dict[str, Any], limit: Any, findings: tuple[Finding, ...], said: str
) -> None:
    given = dict(run)
    complete = given.pop("startup", True)
    one = a_run(**given)
    one.startup_complete = complete
    assert told(one, *findings, limit=limited(limit)).startswith(said)


def test_the_first_screen_is_about_a_request_only_where_little_else_is_known() -> None:
    little, much = a_run(samples=LOADED[:2]), a_run(samples=LOADED)
    client = limited("client-limited")
    assert failed_request(page_of(little, REQUEST, limit=client)) is REQUEST
    assert failed_request(page_of(little, replace(REQUEST, role=None), limit=client)) is None
    assert failed_request(page_of(little, replace(REQUEST, evidence=()), limit=client)) is None
    assert failed_request(page_of(much, REQUEST, limit=client)) is None
    paced = found(CLIENT, "No request waited")
    assert of_little_load(page_of(little, paced, limit=client)) is paced
    assert of_little_load(page_of(much, paced, limit=client)) is None


def test_results_of_a_client_without_and_with_lines_of_the_server() -> None:
    results = [Benchmark("serve", {"Successful requests": 9.0}, (line(3),))]
    client = a_run(kind="client", benchmarks=results, version=None)
    client.startup_complete = False
    assert told(client) == "BENCHMARK CLIENT: results"
    client.model = Value("org/m", "explicit")
    assert told(client) == "BENCHMARK RESULTS: the log has no lines of the server"


@for_each(
    ("confidence", "title", "text", "said"),
    [
        ("high", "Disk full", "x", "FAILED at start-up: Disk full"),
        ("medium", "Disk full", "x", "FAILED at start-up, probable cause: Disk full"),
        ("low", "Disk full", "x", "FAILED at start-up, possible cause: Disk full"),
        # What is only quoted is certain.
        ("low", "Error: no space", "OSError: no   space left", "FAILED at start-up: Error: no space"),
        ("low", "Error: no space", "OSError: other", "FAILED at start-up, possible cause: Error: no space"),
        ("low", "Error: no spa...", "OSError: no space left", "FAILED at start-up: Error: no spa..."),
        ("low", "KeyError in scheduler.py", "x", "FAILED at start-up: KeyError in scheduler.py"),
    ],
)
def test_a_failure_is_told_with_the_doubt_that_is_left(
    confidence: Any, title: str, text: str, said: str
) -> None:
    root = found(
        "disk-full", title, kind="failure", role="root", confidence=confidence, evidence=(line(7, text),)
    )
    assert told(a_run(outcome="crashed_at_startup"), root) == said
    assert (doubted(root) == "high") is (", p" not in said)


def failure(id: str = "disk-full", title: str = "Disk full", **more: Any) -> Finding:
    return found(id, title, kind="failure", role="root", **more)


def test_a_failure_of_a_log_that_is_cut_off_is_possible_unless_it_is_proved() -> None:
    cut = a_run(outcome="truncated")
    assert told(cut, failure(confidence="medium")) == "CUT OFF, possible failure: Disk full"
    assert not told(cut, failure()).startswith("CUT OFF")


def test_words_of_the_state_are_not_repeated_by_the_cause() -> None:
    crashed = a_run(outcome="crashed_while_serving")
    assert (
        told(crashed, failure(title="Out of memory while serving")) == "FAILED while serving: Out of memory"
    )
    stopped = failure("stopped-by-user-or-script", "Stopped by a signal")
    assert told(a_run(outcome="killed"), stopped) == "STOPPED by a signal"
    assert "STOPPED" not in told(a_run(outcome="killed"), replace(stopped, confidence="medium"))


def test_an_error_that_nothing_names_is_told_in_its_own_words() -> None:
    def unnamed(text: str) -> str:
        one = failure("unclassified-failure", "ValueError in a.py, b", evidence=(line(7, text),))
        return told(a_run(outcome="crashed_at_startup"), one).removeprefix("FAILED at start-up: ")

    assert unnamed("ValueError: no such row. Did you mean 7?") == "ValueError: no such row"
    assert unnamed("ValueError") == "ValueError in a.py, b"
    assert unnamed("12 34") == "ValueError in a.py, b"
    assert unnamed("FAILED tests/test_a.py::test_b - ValueError: no such row") == "ValueError: no such row"


def costly(run: Run, *findings: Finding, limit: Bottleneck) -> str:
    return sentence(page_of(run, *findings, limit=limit))


QUEUE = {"samples": load((12, {**BUSY, "waiting": 3}))}
WORDS = Bottleneck("none-clear", "requests wait.", (line(30), line(31), line(32)))
SLOW = found("some-rule", "A slow way", explanation="Steps are slow. More of it.")


@for_each(
    ("limit", "findings", "said"),
    [
        # Lines of a limit: two, and how many more.
        ("prefill-limited", (), "Requests wait [L30, L31, L32]."),
        # A limit that the log names comes before a setting that costs.
        ("prefill-limited", (SLOW,), "Requests wait [L30, L31, L32]."),
        # Else the setting comes first, in the words of the state or with its own.
        ("none-clear", (SLOW,), "Steps are slow. More of it [L7]. Requests wait [L30, L31, L32]."),
        ("client-limited", (SLOW,), "Steps are slow. More of it [L7]. Requests wait [L30, L31, L32]."),
        # Requests that fail come before every limit.
        ("prefill-limited", (found("some-rule", "Most fail", explanation="All fail.", **SERVING),), "All fail [L7]. Requests wait [L30, L31, L32]."),
        ("prefill-limited", (found("answered-with-server-errors", "1 % fail", severity="medium", explanation="Some fail."),), "Some fail [L7]. Requests wait [L30, L31, L32]."),
        ("none-clear", (found("answered-with-server-errors", "1 % fail", severity="medium", explanation="Some fail."),), "Requests wait [L30, L31, L32]."),
    ],
)  # fmt: skip
def test_the_sentence_on_a_load_says_what_matters_more_first(
    limit: Any, findings: tuple[Finding, ...], said: str
) -> None:
    assert costly(a_run(**QUEUE), *findings, limit=replace(WORDS, name=limit)) == said


def test_the_sentence_on_a_piece_is_its_first_finding_where_a_limit_is_known() -> None:
    piece = a_run()
    piece.startup_complete = False
    started = replace(WORDS, name="startup-only")
    assert costly(piece, SLOW, limit=started) == "A slow way [L7]."
    assert costly(piece, limit=started) == "Requests wait [L30, L31, L32]."
    assert costly(piece, SLOW, limit=WORDS) == "Requests wait [L30, L31, L32]."


@for_each(
    ("run", "findings", "limit", "level"),
    [
        ({"outcome": "clean_shutdown", "kind": "offline"}, (failure(),), "none-clear", "failed"),
        ({"server": "sglang", "samples": LOADED}, (), "prefill-limited", "cut"),
        ({"kind": "build"}, (SLOW,), "prefill-limited", "healthy"),
        ({"router": True}, (), "none-clear", "healthy"),
        ({"samples": LOADED}, (), "prefill-limited", "limited"),
        ({"samples": LOADED}, (), "none-clear", "healthy"),
    ],
)
def test_the_level_of_a_state(
    run: dict[str, Any], findings: tuple[Finding, ...], limit: Any, level: str
) -> None:
    assert state_level(page_of(a_run(**run), *findings, limit=limited(limit))) == level


def test_a_test_that_failed_is_named_or_its_assertion_is() -> None:
    error = record("E       AssertionError: 3 != 4", 9)
    run = a_run(kind="test", version=None, records=[error])
    run.startup_complete = False
    assert told(run, limit=limited("startup-only")) == "TEST FAILED: an assertion"
    run.records = [record("____________ test_sum[2] ____________", 8), error]
    assert told(run, limit=limited("startup-only")) == "TEST FAILED: test_sum[2]"
    run.records = []
    assert told(run, limit=limited("startup-only")) == "TEST FAILED: an assertion"


def test_what_an_error_dumps_is_left_out_of_a_long_state_only() -> None:
    def unnamed(text: str) -> str:
        one = failure("unclassified-failure", "ValueError in a.py, b", evidence=(line(7, text),))
        return told(a_run(outcome="crashed_at_startup"), one).removeprefix("FAILED at start-up: ")

    short = "ValueError: no such row in data={'a': 1}"
    assert unnamed(short) == short
    long = unnamed(f"ValueError: no such row in data={{'text': '{'word ' * 40}'}}")
    assert long == "ValueError: no such row in data…"
    glued = "ptxas terminated (signal: 11)sccache: Compiler killed by signal 11"
    assert unnamed(glued) == "ptxas terminated (signal: 11)"
    assert unnamed("function test_a at 0x7fc6998f1800 failed") == "function test_a failed"


def test_an_output_that_is_always_empty_is_to_be_checked() -> None:
    run = a_run(kind="offline", progress=[Progress(line(5), 8, 8, 4.0)])
    run.messages["empty-output"] = Occurrences(count=8)
    assert told(run) == "TO CHECK: every printed output is empty"
    run.messages["empty-output"] = Occurrences(count=7)
    assert told(run) == "COMPLETED"
