"""What a user can do by mistake: one clear line, a documented exit status, and nothing written over a log."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import ROOT, logdoctor

FIXTURE = ROOT / "fixtures" / "vllm-0.11.2-kv-starved.log"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    shutil.copy(FIXTURE, tmp_path / "vllm.log")
    return tmp_path


def one_line(done: subprocess.CompletedProcess[str], status: int, *words: str) -> None:
    assert done.returncode == status, done.stderr
    assert done.stderr.startswith("logdoctor: ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stdout == ""
    for word in words:
        assert word in done.stderr


class TestAnOutputThatIsAnInput:
    @pytest.mark.parametrize(
        "arguments",
        [
            ("analyze", "vllm.log", "-o", "vllm.log"),
            ("analyze", "vllm.log", "-o", "report.json", "-o", "./vllm.log"),
            ("analyze", "vllm.log", "-o", "link.log", "--format", "json"),
            ("analyze", "vllm.log", "-o", "hard.log", "--format", "json"),
            ("analyze", ".", "-o", "vllm.log", "--format", "json"),
            ("compare", "vllm.log", "vllm.log", "-o", "vllm.log", "--format", "json"),
            ("verify", "vllm.log", "--against", "vllm.log", "-o", "vllm.log", "--format", "json"),
        ],
    )
    def test_is_refused_and_nothing_is_written(self, arguments: tuple[str, ...], here: Path) -> None:
        (here / "link.log").symlink_to("vllm.log")
        os.link(here / "vllm.log", here / "hard.log")
        one_line(logdoctor(*arguments, cwd=here), 2)
        assert (here / "vllm.log").read_bytes() == FIXTURE.read_bytes()
        assert sorted(path.name for path in here.iterdir() if path.suffix != "") == [
            "hard.log",
            "link.log",
            "vllm.log",
        ]

    def test_a_packed_log(self, here: Path) -> None:
        packed = gzip.compress(FIXTURE.read_bytes())
        (here / "vllm.log.gz").write_bytes(packed)
        one_line(
            logdoctor("analyze", "vllm.log.gz", "-o", "vllm.log.gz", "-f", "text", cwd=here), 2, "also read"
        )
        assert (here / "vllm.log.gz").read_bytes() == packed

    def test_the_file_behind_standard_input(self, here: Path) -> None:
        with (here / "vllm.log").open() as log:
            one_line(
                logdoctor("analyze", "-", "-o", "vllm.log", "-f", "text", cwd=here, stdin=log), 2, "also read"
            )
        assert (here / "vllm.log").read_bytes() == FIXTURE.read_bytes()

    def test_a_copy_of_standard_input(self, here: Path) -> None:
        """A pipe hides the name of the log, but not what the output holds; a report is written over."""
        for output, statuses in (("vllm.log", [2, 2]), ("out.txt", [0, 0])):
            for status in statuses:
                with FIXTURE.open() as log:
                    done = logdoctor("analyze", "-", "-f", "text", "-o", output, cwd=here, stdin=log)
                assert done.returncode == status, done.stderr
                assert status == 0 or "may be the log on standard input" in done.stderr
        assert (here / "vllm.log").read_bytes() == FIXTURE.read_bytes()

    def test_standard_output_appended_to_the_log(self, here: Path) -> None:
        with (here / "vllm.log").open("ab") as log:
            done = subprocess.run(
                [sys.executable, "-m", "vllm_logdoctor", "analyze", "vllm.log"],
                cwd=here, stdout=log, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
            )  # fmt: skip
        assert done.returncode == 2
        assert "standard output is also read" in done.stderr
        assert (here / "vllm.log").read_bytes() == FIXTURE.read_bytes()

    def test_the_baseline(self, here: Path) -> None:
        assert logdoctor("analyze", "vllm.log", "-o", "known.json", cwd=here).returncode == 0
        known = (here / "known.json").read_bytes()
        one_line(
            logdoctor("analyze", "vllm.log", "--baseline", "known.json", "-o", "known.json", cwd=here), 2
        )
        assert (here / "known.json").read_bytes() == known


EMPTY = (
    ("analyze", ""),
    ("compare", "vllm.log", ""),
    ("config", ""),
    ("plan", ""),
    ("follow", ""),
    ("whatif", "", "--set", "max_num_seqs=8"),
    ("verify", "vllm.log", "--against", ""),
    ("analyze", "vllm.log", "--with", ""),
    ("analyze", "vllm.log", "--baseline="),
    ("analyze", "vllm.log", "-o", ""),
    ("excerpt", "vllm.log", "-o", ""),
    ("patterns", "test", ""),
    ("fleet", "add", "store", ""),
    ("fleet", "show", ""),
)
"""Paths that a variable of the shell should have held."""


class TestWhatIsMistyped:
    @pytest.mark.parametrize(
        ("arguments", "status", "words"),
        [
            (("analyze", "vllm.log", "tpyo.log"), 3, "no such file: tpyo.log"),
            (("analyze", "vllm.log", "tpyo.log", "--fail-on", "high"), 3, "no such file: tpyo.log"),
            (("analyze", "tpyo.log"), 3, "no such file"),
            *((words, 2, "an argument is empty") for words in EMPTY),
            (("analyze", "x" * 5000), 3, "no such file"),
            (("analyze", "vllm.log", "-o", "report.pdf"), 2, ".pdf names no format"),
            (("analyze", "vllm.log", "-o", "report"), 2, "names no format"),
            (("analyze", "vllm.log", "-o", "x" * 300 + ".json"), 3, "can't write"),
            (("analyze", "vllm.log", "-o", "absent/report.json"), 3, "can't write"),
            (("analyze", "vllm.log", "--format", "jsn"), 2, "did you mean json?"),
            (("analyze", "vllm.log", "--objective", "latancy"), 2, "did you mean latency?"),
            (("analyze", "vllm.log", "--fail-on", "hgih"), 2, "did you mean high?"),
            (("plan", "vllm.log", "--form", "slrum"), 2, "did you mean slurm?"),
            (("whatif", "vllm.log", "--set", "kv_cache_dtyp=fp8"), 2, "did you mean kv_cache_dtype?"),
            (("whatif", "vllm.log", "--set", "kv_cache_dtype"), 2, "NAME=VALUE"),
            (("whatif", "vllm.log", "--set", "kv_cache_dtype=fp99"), 2, "fp99"),
            (("whatif", "vllm.log", "--set", "max_num_seqs=-5"), 2, "-5"),
            (("whatif", "vllm.log", "--set", "gpu_memory_utilization=95"), 2, "between 0 and 1"),
            (("whatif", "vllm.log", "--set", "max_model_len=many"), 2, "many"),
            (("whatif", "vllm.log", "--set", "max_model_len=1e999"), 2, "inf"),
            (("analyze", "/dev/zero"), 3, "device"),
            (("config", "absent.log"), 3, "no such file"),
            (("fleet", "show", "absent"), 3, "no such store"),
            (("fleet", "check", "absent"), 3, "no such store"),
        ],
    )  # fmt: skip
    def test_is_one_line(self, arguments: tuple[str, ...], status: int, words: str, here: Path) -> None:
        one_line(logdoctor(*arguments, cwd=here), status, words)
        assert sorted(path.name for path in here.glob("*.*")) == ["vllm.log"]


class TestAnOutput:
    def test_that_cannot_be_written_leaves_the_old_one_whole(self, here: Path) -> None:
        (here / "report.json").write_text("old")
        limited = f'ulimit -f 2; exec "{sys.executable}" -m vllm_logdoctor analyze vllm.log -o report.json'
        done = subprocess.run(
            ["bash", "-c", limited], cwd=here, capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(here)},
        )  # fmt: skip
        assert done.returncode in (3, -25), done.stderr
        assert (here / "report.json").read_text() == "old"

    def test_keeps_the_rights_of_the_file_and_leaves_no_other(self, here: Path) -> None:
        (here / "report.json").write_text("old")
        (here / "report.json").chmod(0o640)
        assert logdoctor("analyze", "vllm.log", "-o", "report.json", cwd=here).returncode == 0
        assert (here / "report.json").stat().st_mode & 0o777 == 0o640
        assert json.loads((here / "report.json").read_text())["schema"] == "logdoctor/1"
        assert not list(here.glob(".logdoctor-*"))

    def test_through_a_link_goes_to_its_target(self, here: Path) -> None:
        (here / "target.json").write_text("")
        (here / "report.json").symlink_to("target.json")
        assert logdoctor("analyze", "vllm.log", "-o", "report.json", cwd=here).returncode == 0
        assert (here / "report.json").is_symlink()
        assert json.loads((here / "target.json").read_text())["runs"]

    def test_to_a_device(self, here: Path) -> None:
        assert logdoctor("analyze", "vllm.log", "-f", "json", "-o", "/dev/null", cwd=here).returncode == 0


class TestTheSurroundings:
    def test_pipes_in_place_of_both_logs(self, here: Path) -> None:
        command = f'exec "{sys.executable}" -m vllm_logdoctor compare <(cat vllm.log) <(cat vllm.log) -f json'
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=here,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["schema"].startswith("logdoctor")

    @pytest.mark.parametrize(
        ("arguments", "status", "words"),
        [
            (("patterns", "test", "pipe.toml"), 3, "pipe.toml"),
            (("patterns", "new", "--from", "pipe.toml:1"), 3, "pipe.toml"),
            (("patterns", "list", "--patterns", "pipe.toml"), 2, "no such pattern pack"),
            (("analyze", "vllm.log", "--patterns", "pipe.toml"), 2, "no such pattern pack"),
            (("explain", "oom", "--patterns", "absent.toml"), 2, "no such pattern pack"),
        ],
    )
    def test_a_pipe_that_nobody_writes_into(
        self, arguments: tuple[str, ...], status: int, words: str, here: Path
    ) -> None:
        os.mkfifo(here / "pipe.toml")
        one_line(logdoctor(*arguments, cwd=here), status, words)

    @pytest.mark.parametrize(
        ("redirection", "status", "words"),
        [
            ("- <&-", 3, "standard input is closed"),
            ("vllm.log >&-", 3, "standard output is closed"),
            ("<(cat vllm.log) -f json", 0, ""),
            ("vllm.log -o report.json >&-", 0, ""),
            ("vllm.log -o report.json 2>&-", 0, ""),
            ("vllm.log -o report.json <&- >&- 2>&-", 0, ""),
            ("absent.log 2>&-", 3, ""),
        ],
    )
    def test_closed_streams(self, redirection: str, status: int, words: str, here: Path) -> None:
        command = f'exec "{sys.executable}" -m vllm_logdoctor analyze {redirection}'
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=here,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert done.returncode == status, done.stderr
        assert words in done.stderr
        if "report.json" in redirection:
            assert json.loads((here / "report.json").read_text())["runs"]

    def test_a_deleted_working_directory(self, here: Path) -> None:
        command = (
            f'mkdir gone; cd gone; rmdir ../gone; exec "{sys.executable}" -m vllm_logdoctor analyze {{}}'
        )
        run = {"capture_output": True, "text": True, "env": {**os.environ, "PYTHONPATH": str(ROOT)}}
        done = subprocess.run(["bash", "-c", command.format(here / "vllm.log")], cwd=here, **run)
        assert done.returncode == 0, done.stderr
        done = subprocess.run(["bash", "-c", command.format("vllm.log")], cwd=here, **run)
        assert (done.returncode, done.stdout) == (3, ""), done.stderr

    @pytest.mark.parametrize(
        ("text", "words"),
        [("x = " + "[" * 100_000, "nested too deep"), ("#" * (1 << 21), "larger than 1 MiB"), ("objective = 'speed'", "unknown objective")],
    )  # fmt: skip
    def test_a_settings_file_that_is_none(self, text: str, words: str, here: Path) -> None:
        (here / "logdoctor.toml").write_text(text)
        one_line(logdoctor("analyze", "vllm.log", cwd=here), 2, words)

    def test_settings_without_an_end(self, here: Path) -> None:
        one_line(logdoctor("analyze", "vllm.log", cwd=here, LOGDOCTOR_CONFIG="/dev/zero"), 2, "is no file")

    @pytest.mark.parametrize("text", ["[" * 100_000, "{}", "[]", "\x00"])
    def test_a_baseline_that_is_none(self, text: str, here: Path) -> None:
        (here / "known.json").write_text(text)
        one_line(logdoctor("analyze", "vllm.log", "--baseline", "known.json", cwd=here), 3, "baseline")
