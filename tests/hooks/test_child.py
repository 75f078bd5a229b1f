"""What a hook's child may take, what it is given, and what the hook says of how it ended."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from hook_samples import SERVER_LOG

from vllm_logdoctor.hooks import engine
from vllm_logdoctor.hooks.engine import run_hook
from vllm_logdoctor.hooks.request import HookRequest

LIMITS = """
import json, os, resource
limits = {name: resource.getrlimit(getattr(resource, "RLIMIT_" + name))[0] for name in ("AS", "CPU", "FSIZE", "CORE")}
print("logdoctor:", json.dumps({**limits, "nice": os.nice(0), "alarm": int(os.environ["ALARM"])}))
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "vllm.log").write_text(SERVER_LOG)
    return tmp_path / "vllm.log"


def said_by(program: str, request: HookRequest, patch: pytest.MonkeyPatch) -> list[str]:
    """Return what a hook says whose child runs a program in place of the analysis."""
    patch.setattr(engine, "_START", program)
    patch.setattr(engine, "SAID", "logdoctor: ")
    return run_hook(request, {})


@pytest.mark.parametrize(("seconds", "memory"), [(7, 512), (60, 2048)])
def test_a_child_has_limits_of_its_own(
    seconds: int, memory: int, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An alarm that is set tells the seconds that are left only.
    monkeypatch.setattr(signal, "alarm", lambda after: os.putenv("ALARM", str(after)))
    (line,) = said_by(LIMITS, HookRequest((log,), seconds=seconds, memory_mib=memory), monkeypatch)
    assert json.loads(line.removeprefix("logdoctor: ")) == {
        "AS": memory << 20, "CPU": seconds + 1, "FSIZE": 64 << 20, "CORE": 0, "nice": min(os.nice(0) + 10, 19), "alarm": seconds + 2,
    }  # fmt: skip


def test_a_child_is_given_the_logs_their_names_after_the_job_and_how_it_ended(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "import sys; print('logdoctor:', sys.argv[1])"
    (line,) = said_by(
        program, HookRequest((log,), status=137, report="r.json", folder=log.parent), monkeypatch
    )
    task = json.loads(line.removeprefix("logdoctor: "))
    assert task["logs"] == [[str(log), str(log)]]
    assert task["report"] == str(log.parent / "r.json")
    assert (task["end"]["signal"], task["end"]["words"]) == (9, "exit status 137")
    (line,) = said_by(program, HookRequest((log,), report="-"), monkeypatch)
    task = json.loads(line.removeprefix("logdoctor: "))
    assert (task["report"], task["end"]) == (None, None)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("print('noise'); [print('logdoctor: line', n) for n in range(5)]", ["line 2", "line 3", "line 4"]),
        ("print('MemoryError'); raise SystemExit(1)", ["no report: more than 2048 MiB of memory needed; by hand: logdoctor analyze {log}"]),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", ["no report: more than 2048 MiB of memory needed; by hand: logdoctor analyze {log}"]),
        ("import os, signal; os.kill(os.getpid(), signal.SIGXCPU)", ["no report: not done after 60 s; by hand: logdoctor analyze {log}"]),
        ("import os, signal; os.kill(os.getpid(), signal.SIGALRM)", ["no report: not done after 60 s; by hand: logdoctor analyze {log}"]),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", ["no report: the tool ended with signal 15"]),
        ("print('odd'); print(' '); raise SystemExit(3)", ["no report: the tool ended with status 3: odd"]),
        ("print('nothing for a hook')", ["no report: the tool ended with status 0: nothing for a hook"]),
        ("print('logdoctor: half'); raise SystemExit(3)", ["no report: the tool ended with status 3: logdoctor: half"]),
    ],
)  # fmt: skip
def test_the_end_of_a_child_is_said_in_one_line(
    program: str, said: list[str], log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = said_by(program, HookRequest((log,)), monkeypatch)
    assert found == [f"logdoctor: {line.format(log=log)}" for line in said]


def test_a_child_that_says_all_and_does_not_end_is_not_waited_for(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = (
        "import os, time; print('logdoctor: done', flush=True); os.close(1); os.close(2); time.sleep(60)"
    )
    assert said_by(program, HookRequest((log,), seconds=1), monkeypatch) == [
        f"logdoctor: no report: not done after 1 s; by hand: logdoctor analyze {log}"
    ]


@pytest.mark.usefixtures("forked")
def test_of_several_logs_those_that_hold_something_of_vllm_are_read(tmp_path: Path) -> None:
    texts = {"a.out": SERVER_LOG, "b.err": "", "c.out": "hello\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    lines = run_hook(HookRequest(tuple(tmp_path / name for name in texts)), {})
    assert lines[-1] == f"logdoctor: report: {tmp_path}/a.out.logdoctor.md"
    assert lines[0].startswith("logdoctor: vLLM 0.11.2")
    nothing = run_hook(HookRequest((tmp_path / "b.err", tmp_path / "absent")), {})
    assert nothing[0].startswith("logdoctor: no report: ")


@pytest.mark.parametrize(("append", "words"), [(True, "the script of the job has ended"), (False, None)])
def test_only_a_hook_at_the_end_of_the_script_knows_that_it_has_ended(
    append: bool, words: str | None, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = log.with_name("job.out")
    output.write_text("")
    request = HookRequest((log,), append=append, output=output)
    (line,) = said_by("import sys; print('logdoctor:', sys.argv[1])", request, monkeypatch)
    end = json.loads(line.removeprefix("logdoctor: "))["end"]
    assert (end and end["words"]) == words
    assert output.read_text() == (f"{line}\n" if append else "")
