"""Files beside a log that are damaged, hostile or huge: one line each, nothing lost, no verdict turned."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.evidence.samples import SAMPLES
from tests.tables import for_each
from vllm_logdoctor.evidence.given import evidence_from
from vllm_logdoctor.evidence.model import EvidenceFile, Reading
from vllm_logdoctor.evidence.read import read_evidence
from vllm_logdoctor.pipeline import analyse
from vllm_logdoctor.report import markdown
from vllm_logdoctor.report.json import document
from vllm_logdoctor.run.beside import files_of_runs
from vllm_logdoctor.run.observed import observed
from vllm_logdoctor.source import inputs_from

LOG = Path(__file__).resolve().parents[2] / "fixtures" / "vllm-0.11.2-kv-starved.log"


def test_entities_of_xml_are_not_expanded() -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaaaaaa"><!ENTITY b "&a;&a;">]>\n' + SAMPLES["nvidia-smi-xml"].replace(
        "NVIDIA T", "&b;"
    )
    values = [one.value for one in read_evidence("q.xml", bomb.encode()).readings if one.name == "product"]
    assert values == ["&b;"]


def test_a_formula_in_a_csv_is_text(tmp_path: Path) -> None:
    file = tmp_path / "smi.csv"
    file.write_text("name, memory.used [MiB], power.draw [W]\n=HYPERLINK(1), 12 MiB, 3 W\n")
    analysis = analyse(inputs_from(str(LOG)), evidence=evidence_from([str(file)]))
    assert analysis.beside[0].evidence.kind == "nvidia-smi-csv"
    assert "HYPERLINK" not in markdown.render(analysis) or "`=HYPERLINK(1)`" in markdown.render(analysis)


def test_secrets_are_masked() -> None:
    text = SAMPLES["collect-env"] + "HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz0123456789\n"
    assert "hf_abcdefghijklmnop" not in str(read_evidence("env.txt", text.encode()))


@for_each("name", sorted(set(SAMPLES) - {"nsys-sqlite"}))
@for_each("share", [0.3, 0.7])
def test_a_truncated_file_is_no_error(name: str, share: float) -> None:
    text = SAMPLES[name]
    read_evidence(name, text[: int(len(text) * share)].encode())


def test_a_folder_of_many_files_is_read_with_a_line_each(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number:05}.txt").write_text(SAMPLES["free"] if number % 3 else "nothing\n")
    analysis = analyse(inputs_from(str(LOG)), evidence=evidence_from([str(tmp_path)]))
    assert len(analysis.beside) == 300
    assert len({one.evidence.file for one in analysis.beside}) == 300


HOSTILE = {
    "empty lines": "\n" * 60_000,
    "spaces": " " * 60_000,
    "lines of spaces": " \n" * 30_000,
    "marks of a head": "=" * 60_000,
    "a head and empty lines": "Memory Device\n" + "\n" * 60_000,
    "many heads": "Last State: a\n" * 4_000,
    "many keys": '"State" ' * 7_000,
    "bars": "| " * 30_000,
    "words and semicolons": "a;" * 30_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_text_made_to_be_slow_is_recognized_as_nothing_at_once(name: str) -> None:
    began = time.process_time()
    assert read_evidence("file", HOSTILE[name].encode()).kind == ""
    assert time.process_time() - began < 2


@pytest.mark.parametrize("quote", ['"', "'"])
def test_deep_answers_of_prometheus_are_one_line(quote: str) -> None:
    deep = '{"resultType": "vector", "metric": '.replace('"', quote) + "[" * 20_000
    found = read_evidence("answer.json", deep.encode())
    assert (found.kind, found.readings) == ("prometheus-json", ())
    assert found.note.startswith("damaged")


def test_deep_json_ends_without_an_error() -> None:
    deep = '{"traceEvents": ' + "[" * 5000
    assert read_evidence("t.json", deep.encode()).kind == "torch-chrome-trace"


def test_figures_that_are_no_numbers_decide_nothing(tmp_path: Path) -> None:
    file = tmp_path / "metrics.txt"
    file.write_text(SAMPLES["prometheus-text"].replace("10.0", "NaN").replace("5.0", "+Inf"))
    plain = analyse(inputs_from(str(LOG)))
    beside = analyse(inputs_from(str(LOG)), evidence=evidence_from([str(file)]))
    assert [one.id for one in beside.runs[0].findings] == [one.id for one in plain.runs[0].findings]


def test_a_trace_is_streamed(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    event = json.dumps({"cat": "kernel", "name": "gemm", "ts": 1, "dur": 1, "args": {"stack": "x" * 900}})
    with file.open("w") as out:
        out.write('{"traceEvents": [')
        for _ in range(2000):
            out.write(event + ",\n")
        out.write(event + "]}")
    import tracemalloc

    tracemalloc.start()
    from vllm_logdoctor.evidence.read import read_evidence_file

    found = read_evidence_file(file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert next(one.value for one in found.readings if one.name == "kernel events") == 2001
    assert peak < file.stat().st_size


SECRET = "hf_abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("docker-inspect", f'[{{\n "Config": {{"Env": ["HF_TOKEN={SECRET}"]}},\n "Args": ["--api-key", "{SECRET}"],\n "State": {{"OOMKilled": false, "ExitCode": 1, "Error": "HF_TOKEN={SECRET}"}}\n}}]'),
        ("kubectl-describe", f"Name:   server-0\nPriority:  0\n      vllm serve tiny --api-key {SECRET}\n    Environment:\n      HF_TOKEN:  {SECRET}\n"),
        ("collect-env", SAMPLES["collect-env"] + f"HF_TOKEN={SECRET}\nVLLM_API_KEY={SECRET}\n"),
        ("qstat-f", f"Job Id: 42.head\n    Variable_List = HF_TOKEN={SECRET}\n    comment = run with HF_TOKEN={SECRET}\n"),
    ],
)  # fmt: skip
def test_no_secret_of_a_file_is_in_any_report(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "beside.txt").write_text(text)
    analysis = analyse(inputs_from(str(LOG)), evidence=evidence_from([str(tmp_path / "beside.txt")]))
    assert analysis.beside[0].evidence.kind == name
    assert SECRET not in markdown.render(analysis) + json.dumps(document(analysis), default=str)


@pytest.mark.parametrize("name", ["torch-chrome-trace", "nsys-stats-text", "prometheus-json"])
def test_a_file_cut_off_gives_what_comes_before_and_turns_no_verdict(tmp_path: Path, name: str) -> None:
    plain = analyse(inputs_from(str(LOG)))
    (tmp_path / "cut").write_text(SAMPLES[name][:-30])
    analysis = analyse(inputs_from(str(LOG)), evidence=evidence_from([str(tmp_path / "cut")]))
    assert len(analysis.beside) == 1
    assert [one.id for one in analysis.runs[0].findings] == [one.id for one in plain.runs[0].findings]


class LookedThrough(tuple[Reading, ...]):
    """Readings that count how often they are looked through."""

    times = 0

    def __iter__(self) -> Iterator[Reading]:
        type(self).times += 1
        return super().__iter__()


def test_a_file_is_looked_through_as_often_for_forty_sets_of_runs_as_for_one() -> None:
    run = analyse(inputs_from(str(LOG))).runs[0].run

    def looked(runs: int) -> int:
        LookedThrough.times = 0
        files = [
            EvidenceFile(kind, kind, LookedThrough(read_evidence(kind, SAMPLES[kind].encode()).readings))
            for kind in ("dmesg", "docker-inspect", "top", "collect-env", "vllm-bench-json", "free")
            for _ in range(5)
        ]
        for _ in range(runs):
            files_of_runs(files, [run])
        return LookedThrough.times

    assert looked(40) == looked(1)


def test_values_that_are_only_shown_take_no_place_of_those_that_count() -> None:
    others = [
        (EvidenceFile(f"{number}.json", "vllm-bench-json", (Reading("mean_ttft_ms", 1.0),)), False)
        for number in range(500)
    ]
    own = EvidenceFile("own.json", "vllm-bench-json", (Reading("mean_ttft_ms", 21.5),))
    assert [one.value for one in observed([*others, (own, True)]).of("client")] == [21.5]
