"""The ten questions of the tutorial: each is answered by at most two lines, and the answers are right."""

from __future__ import annotations

import ast
import os
import re
import textwrap
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import vllm_logdoctor as vld

pd = pytest.importorskip("pandas")

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/tutorials/first-report.md").read_text(encoding="utf-8")
ANSWERS = [
    textwrap.dedent(block)
    for block in re.findall(r"^    ```python\n(.*?)^    ```$", PAGE, re.MULTILINE | re.DOTALL)
]
STARVED = ROOT / "fixtures/vllm-0.11.2-kv-starved.log"


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    other = vld.analyze(ROOT / "fixtures/vllm-0.32.0-healthy-serve.log")
    return {"pd": pd, "vld": vld, "report": vld.analyze(STARVED, year=2025), "other": other}


def answer(number: int, names: dict[str, Any]) -> Any:
    *first, last = ast.parse(ANSWERS[number - 1]).body
    known = dict(names)
    exec(compile(ast.Module(first, []), "tutorial", "exec"), known)
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), "tutorial", "eval"), known)


def test_there_are_ten_answers_of_at_most_two_lines() -> None:
    assert len(ANSWERS) == 10
    assert all(len(text.splitlines()) <= 2 for text in ANSWERS)


def test_throughput_over_time(names: dict[str, Any]) -> None:
    frame = answer(1, names)
    assert frame.index[0].year == 2025
    assert frame.generation.max() == names["report"].to_frame().generation_max[0]


def test_a_full_cache(names: dict[str, Any]) -> None:
    frame = answer(2, names)
    assert (frame.kv_usage > 90).all()
    assert frame.time.notna().all()


def test_runs_side_by_side(names: dict[str, Any]) -> None:
    frame = answer(3, names)
    assert frame.version.tolist() == ["0.11.2", "0.32.0"]
    assert frame.outcome.tolist() == [run.outcome for one in ("report", "other") for run in names[one].runs]


def test_a_comparison(names: dict[str, Any]) -> None:
    assert answer(4, names).to_dict()["schema"] == "logdoctor-comparison/1"


def test_settings_that_differ(names: dict[str, Any]) -> None:
    assert "max_num_seqs" in answer(5, names).index


def test_start_up_by_phase(names: dict[str, Any]) -> None:
    frame = answer(6, names)
    assert set(frame.index.get_level_values(0)) == {"0.11.2", "0.32.0"}
    assert {"imports", "engine-init"} <= set(frame.name)


def test_gpu_hours(names: dict[str, Any]) -> None:
    run = names["report"].runs[0]
    assert answer(7, names) == pytest.approx((run.ended - run.started).total_seconds() / 3600 * 8)


def test_share_by_limit(names: dict[str, Any]) -> None:
    shares = answer(8, names)
    assert shares.sum() == pytest.approx(1)
    assert shares.idxmax() == "kv-cache-limited"


def test_warnings(names: dict[str, Any]) -> None:
    assert len(answer(9, names)) == len(names["report"].runs[0].diagnosis.messages)


def test_generated_tokens(names: dict[str, Any]) -> None:
    stats = names["report"].runs[0].stats.to_frame()
    assert answer(10, names) == pytest.approx((stats.generation * stats.seconds.diff()).sum())


class TestTheYear:
    def test_is_that_of_the_parameter(self) -> None:
        run = vld.analyze(STARVED, year=2031).runs[0]
        assert (run.started.year, run.year_source) == (2031, "parameter")

    def test_is_else_that_of_the_last_change_of_the_file(self, tmp_path: Path) -> None:
        path = tmp_path / "vllm.log"
        path.write_bytes(STARVED.read_bytes())
        os.utime(path, (datetime(2026, 1, 15).timestamp(),) * 2)
        run = vld.analyze(path).runs[0]
        # The log was written in November.
        assert (run.ended.year, run.year_source) == (2025, "file date")

    def test_is_not_known_of_bytes(self) -> None:
        run = vld.analyze(STARVED.read_bytes()).runs[0]
        assert (run.started, run.year_source) == (None, "")
        assert run.duration > 100


class TestArguments:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ({"source": None}, "expected a path"),
            ({"source": 5}, "expected a path"),
            ({"source": STARVED, "objective": "latancy"}, "did you mean latency"),
            ({"source": STARVED, "year": "2026"}, "expected a number"),
            ({"source": STARVED, "patterns": "absent.toml"}, "no such pattern pack: absent.toml"),
            ({"source": [str(STARVED), "absent.log"]}, "no such file: absent.log"),
        ],
    )
    def test_a_wrong_one_is_named(self, arguments: dict[str, Any], words: str) -> None:
        with pytest.raises(vld.LogdoctorError, match=words):
            vld.analyze(**arguments)

    def test_a_wrong_setting_is_named(self, names: dict[str, Any]) -> None:
        with pytest.raises(vld.LogdoctorError, match="did you mean kv_cache_dtype"):
            vld.whatif(names["report"], kv_cache_dtyp="fp8")


def test_the_functions_of_the_command_line(names: dict[str, Any]) -> None:
    assert {"analyze", "compare", "explain", "verify", "whatif"} <= set(dir(vld))
    assert "eager" in vld.explain("eager-mode")
    assert vld.verify(names["other"], against=names["report"]).to_dict()["changes"]
    assert vld.whatif(names["report"], gpu_memory_utilization=0.9).kv_cache_tokens.basis
    for rows in ("periods", "messages", "what_if", "processes"):
        assert (getattr(names["report"].runs[0], rows).to_frame().run == 1).all()
