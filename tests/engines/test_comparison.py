"""Several engines side by side: compared, side by side, refused with a reason, or not in the log."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.engines.logs import LLAMA_BENCH, llama_cpp, sglang, vllm
from vllm_logdoctor.cli import main
from vllm_logdoctor.engine_comparison.rows import refusal
from vllm_logdoctor.engine_comparison.side import Side

SHARED = Path(__file__).resolve().parents[3] / "shared" / "engines" / "logs"
Compare = Callable[..., dict[str, object]]


@pytest.fixture
def compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Compare:
    def run(*texts: str, options: tuple[str, ...] = (), form: str = "json") -> dict[str, object]:
        names = []
        for number, text in enumerate(texts):
            file = tmp_path / f"{number}.log"
            file.write_text(text)
            names.append(str(file))
        monkeypatch.setattr("sys.argv", ["logdoctor", "compare", *names, *options, "--format", form])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        printed = capsys.readouterr().out
        return json.loads(printed) if form == "json" else {"text": printed}  # type: ignore[no-any-return]

    return run


def row(document: dict[str, object], name: str) -> dict[str, object]:
    return next(one for one in document["rows"] if one["name"] == name)  # type: ignore[index,attr-defined]


def test_equal_load_is_compared_with_a_range(compare: Compare) -> None:
    found = row(compare(vllm(speed=100.0), sglang(speed=90.0)), "all equal loads, tok/s")
    (relation,) = found["relations"]  # type: ignore[misc]
    assert found["kind"] == "compared"
    assert relation["ratio"] == pytest.approx(0.9, abs=0.02)
    assert relation["low"] < 0.9 < relation["high"]
    assert relation["verdict"] == "slower"


def test_swapping_the_sides_inverts_the_ratio(compare: Compare) -> None:
    one = row(compare(vllm(), sglang(), llama_cpp(slots=2)), "all equal loads, tok/s")
    other = row(compare(sglang(), vllm(), llama_cpp(slots=2)), "all equal loads, tok/s")
    assert one["relations"][0]["ratio"] == pytest.approx(1 / other["relations"][0]["ratio"])  # type: ignore[index]


def test_all_slots_of_llama_cpp_are_compared_with_the_total_of_vllm(compare: Compare) -> None:
    found = row(
        compare(vllm(speed=64.0), llama_cpp(slots=2, tokens=64, seconds=2.0)), "all equal loads, tok/s"
    )
    assert found["relations"][0]["ratio"] == pytest.approx(1.0, abs=0.02)  # type: ignore[index]


def test_under_speculation_steps_are_compared_and_tokens_are_not(compare: Compare) -> None:
    document = compare(vllm(speed=100.0, drafts=True), sglang(speed=80.0, drafts="EAGLE"))
    assert row(document, "decode tok/s, 2 running")["kind"] == "side by side"
    steps = row(document, "all equal loads, steps/s")
    assert steps["relations"][0]["ratio"] == pytest.approx(1.0, abs=0.03)  # type: ignore[index]
    assert [cell["value"] for cell in row(document, "acceptance length, median")["cells"]] == [2.5, 2.0]  # type: ignore[attr-defined]


REFUSALS = {
    "another model": (vllm(model="org/other-7b"), sglang(), "different models"),
    "another format of the weights": (
        vllm(),
        llama_cpp(slots=2, quantization="Q4_K - Medium"),
        "weights bf16",
    ),
    "drafts on one side": (vllm(), sglang(drafts="EAGLE"), "only one side uses speculative decoding"),
    "half of a disaggregated pair": (vllm(), sglang(part="decode"), "disaggregated pair (decode)"),
}


VLLM_SIDE = Side("vllm", "vLLM", "a.log", "org/tiny-1b", "bf16", drafts="")


@pytest.mark.parametrize(
    ("refused", "compared", "reason"),
    [
        ({"engine": "ollama"}, {"engine": "sglang"}, "durations of requests and no tokens"),
        ({"model": "org/tiny-7b"}, {"model": "/models/tiny-1b-f16.gguf"}, "different models"),
        ({"weights": "q4_k_m"}, {"weights": "f16"}, "weights bf16 against q4_k_m"),
        ({"drafts": "EAGLE"}, {"drafts": None}, "only one side uses speculative decoding"),
        ({"part": "decode"}, {"part": ""}, "one half of a disaggregated pair (decode)"),
    ],
)
def test_each_refusal_falls_with_its_reason(
    refused: dict[str, str], compared: dict[str, str], reason: str
) -> None:
    other = replace(VLLM_SIDE, engine="llama.cpp")
    assert reason in refusal(VLLM_SIDE, replace(other, **refused))
    assert refusal(replace(other, **refused), VLLM_SIDE), "whichever side is the first"
    assert refusal(VLLM_SIDE, replace(other, **compared)) == ""


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refused_row_says_why(name: str, compare: Compare) -> None:
    one, other, reason = REFUSALS[name]
    found = row(compare(one, other), "decode tok/s, 2 running")
    assert found["kind"] == "refused"
    assert reason in found["relations"][0]["reason"]  # type: ignore[index]
    assert found["relations"][0]["ratio"] is None  # type: ignore[index]


def test_the_same_row_is_compared_where_nothing_is_refused(compare: Compare) -> None:
    assert row(compare(vllm(), sglang()), "decode tok/s, 2 running")["kind"] == "compared"


def test_one_sample_is_refused_and_two_are_not(compare: Compare) -> None:
    def other(samples: int) -> str:
        return "\n".join(sglang(running=2).splitlines()[: 7 + samples]) + "\n"

    assert "fewer than 2 samples" in str(row(compare(vllm(), other(2)), "decode tok/s, 2 running"))
    assert row(compare(vllm(), other(3)), "decode tok/s, 2 running")["kind"] == "compared"


def test_a_test_without_a_server_is_never_filled_from_statistics(compare: Compare) -> None:
    document = compare(vllm(running=1), LLAMA_BENCH)
    found = row(document, "tg128 tok/s, one request, no server")
    assert [cell and cell["value"] for cell in found["cells"]] == [None, 150.0]  # type: ignore[attr-defined]
    assert found["relations"] == []
    assert "llama-benchy --tg 128" in str(found["note"])


def test_the_same_test_of_two_benchmarks_is_compared(compare: Compare) -> None:
    found = row(
        compare(LLAMA_BENCH, LLAMA_BENCH.replace("150.00", "75.00")), "tg128 tok/s, one request, no server"
    )
    assert found["relations"][0]["ratio"] == pytest.approx(0.5)  # type: ignore[index]


def test_per_request_speed_is_never_set_against_a_total(compare: Compare) -> None:
    found = row(compare(vllm(), llama_cpp()), "decode tok/s per request")
    assert (found["kind"], found["relations"]) == ("side by side", [])


def test_prompt_speed_is_refused_with_the_hits(compare: Compare) -> None:
    found = row(compare(vllm(), sglang()), "prompt tok/s")
    assert found["kind"] == "refused"
    assert "60 %" in str(found["note"])


def test_prompt_speed_without_hits_is_refused_for_what_else_is_in_a_window(compare: Compare) -> None:
    found = row(compare(vllm(), sglang().replace("#cached-token: 60", "#cached-token: 0")), "prompt tok/s")
    assert found["kind"] == "refused"
    assert "hits" not in str(found["note"])
    assert "idle time" in str(found["note"])


def test_shares_that_no_log_holds_name_the_tool(compare: Compare) -> None:
    found = row(compare(vllm(), sglang()), "MoE, %")
    assert found["kind"] == "not in the log"
    assert "nsys" in str(found["note"])


def test_a_load_that_one_side_has_not_is_no_refusal(compare: Compare) -> None:
    text = str(compare(vllm(), sglang(), llama_cpp(slots=4), form="markdown")["text"])
    (line,) = [one for one in text.splitlines() if one.startswith("| decode tok/s, 2 running")]
    assert "llama.cpp: no such load on one side" in line
    assert "refused" not in line


def test_the_busiest_thread_is_one_of_the_log_where_the_machine_runs_another_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "vllm.log").write_text(vllm())
    top = "top - 10:05:00 up 1 day, load average: 1.0\n\n  PID USER %CPU COMMAND\n   99 root 99.9 VLLM::EngineCor\n    8 root 61.0 VLLM::EngineCor\n"
    (folder / "top.txt").write_text(top)
    (tmp_path / "b.log").write_text(sglang())
    monkeypatch.setattr(
        "sys.argv", ["logdoctor", "compare", str(folder), str(tmp_path / "b.log"), "--format", "json"]
    )
    with pytest.raises(SystemExit):
        main()
    found = row(json.loads(capsys.readouterr().out), "CPU of the busiest thread, %")
    assert found["cells"][0]["value"] == 61.0  # type: ignore[index]


@pytest.mark.parametrize("form", ["sarif", "junit", "csv", "github"])
def test_formats_of_findings_are_refused_where_several_engines_are_compared(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [str(tmp_path / name) for name in ("vllm.log", "sglang.log")]
    for name, text in zip(names, (vllm(), sglang()), strict=True):
        Path(name).write_text(text)
    monkeypatch.setattr("sys.argv", ["logdoctor", "compare", *names, "--format", form])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert f"unknown format '{form}'; choose one of markdown, json, text, html" in capsys.readouterr().err


def test_claims_are_printed_as_the_users(compare: Compare) -> None:
    plain = str(compare(vllm(), sglang(), form="markdown")["text"])
    claimed = str(
        compare(vllm(), sglang(), options=("--same-machine", "--same-workload"), form="markdown")["text"]
    )
    assert "Not in the logs: the card and the prompts" in plain
    assert "By your word, not by the logs: one machine and one workload." in claimed
    assert "Not in the logs" not in claimed


def test_a_handicap_is_named_before_any_ratio(compare: Compare) -> None:
    eager = sglang().replace("disable_cuda_graph=False", "disable_cuda_graph=True")
    text = str(compare(vllm(), eager, form="markdown")["text"])
    assert text.index("--disable-cuda-graph") < text.index("compared")


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the shared samples, which are no part of the project")
def test_ratio_of_two_real_logs_is_within_five_points_of_the_clients(compare: Compare) -> None:
    one, other = (
        (SHARED / name).read_text(errors="replace")
        for name in ("vllm__sostrowsk__vllm-int4.log", "sglang__sostrowsk__sglang-int4.log")
    )
    found = row(compare(one, other), "all equal loads, steps/s")
    assert abs(found["relations"][0]["ratio"] - 0.877) < 0.05  # type: ignore[index]
