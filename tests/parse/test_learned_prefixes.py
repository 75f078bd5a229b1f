"""A prefix that no list knows is learned from the file, so that a log says the same whatever a supervisor puts before its lines."""

from tests.failure.judging import examples, failures
from tests.tables import for_each
from vllm_logdoctor.parse import RecordParser
from vllm_logdoctor.parse.learned_prefixes import MOST, LearnedPrefixes
from vllm_logdoctor.scan import WantedLine

PREFIXES = {
    "a process manager": "0|serve    | {}",
    "a logger of its own": "2026-05-01 10:00:0{digit},12{digit} - launcher - INFO - {}",
    "a table of columns": "2026-05-01 10:00:0{digit}.121 | INFO     | launcher:pipe:4{digit} - {}",
    "CI with seconds and a stream": "2026-05-01T10:00:0{digit}.121Z 01O {}",
    "an actor of Ray Serve": "(ServeReplica:default:LLM pid=4{digit}42, ip=10.0.0.7) {}",
    "a file and a number": "serve.log:1{digit}:{}",
    "a quotation": "> {}",
    "epoch and a tabulator": "176000000{digit}000\t{}",
}
FEW = sorted(name for name, text in examples().items() if "Traceback (most" in text and "core.py" in text)[
    ::9
]


def prefixed(text: str, prefix: str) -> str:
    return "".join(
        prefix.replace("{digit}", str(number % 10)).replace("{}", line) + "\n"
        for number, line in enumerate(text.splitlines())
    )


@for_each("name", FEW)
@for_each("prefix", PREFIXES.values())
def test_the_cause_is_the_same_behind_every_prefix(name: str, prefix: str) -> None:
    plain, wrapped = failures(examples()[name]), failures(prefixed(examples()[name], prefix))
    assert [one.id for one in wrapped][:1] == [one.id for one in plain][:1]


def messages(*lines: str) -> list[str]:
    parser = RecordParser()
    return [
        record.message
        for number, line in enumerate(lines)
        for record in parser.parse(WantedLine(0, number, line.encode()))
    ]


def test_a_traceback_teaches_what_precedes_its_lines() -> None:
    assert messages(
        "web/1: Traceback (most recent call last):",
        'web/1:   File "a.py", line 3, in run',
        "web/1: KeyError: 'x'",
    ) == [
        "Traceback (most recent call last):",
        '  File "a.py", line 3, in run',
        "KeyError: 'x'",
    ]


def test_one_header_teaches_nothing_and_the_lines_of_another_file_are_left_alone() -> None:
    learned = LearnedPrefixes()
    learned.learn(0, "job 7 says ")
    assert learned.length(0, "job 7 says yes") == 0
    learned.learn(0, "job 8 says ")
    assert learned.length(0, "job 9 says yes") == len("job 9 says ")
    assert learned.length(1, "job 9 says yes") == 0


def test_a_log_of_many_prefixes_costs_no_more_than_a_few() -> None:
    learned = LearnedPrefixes()
    for word in ("a", "b", "c", "d", "e", "f", "g"):
        learned.learn(0, f"{word}> ")
        learned.learn(0, f"{word}> ")
    assert sum(learned.length(0, f"{word}> x") > 0 for word in "abcdefg") == MOST


def test_entities_of_html_are_the_signs_that_they_stand_for() -> None:
    assert messages(
        "INFO 05-01 10:00:00 [utils.py:1] non-default args: {&#39;model&#39;: &#39;org/m&#39;}"
    ) == ["non-default args: {'model': 'org/m'}"]
