"""Builds and installations are runs of a kind of their own: what their tools refused first is the cause."""

from __future__ import annotations

from tests.rules.making import record
from tests.tables import for_each
from vllm_logdoctor import analyze
from vllm_logdoctor.run.builds import is_build

_COMPILER = """\
Building wheels for collected packages: vllm
  Building wheel for vllm (pyproject.toml) ... error
  error: subprocess-exited-with-error
  running build_ext
  [1/9] Building CXX object CMakeFiles/_C.dir/csrc/cpu/attention.cpp.o
  FAILED: CMakeFiles/_C.dir/csrc/cpu/attention.cpp.o
  /src/csrc/cpu/attention.cpp:281:40: error: use of undeclared identifier 'vcvt'
  ninja: build stopped: subcommand failed.
  ERROR: Failed building wheel for vllm
"""


def _first_run(tmp_path, text):
    log = tmp_path / "build.log"
    log.write_text(text)
    return analyze(log).runs[0]


def test_a_compiler_error_is_the_cause_of_a_failed_build(tmp_path):
    result = _first_run(tmp_path, _COMPILER)
    root = next(finding for finding in result.findings if finding.role == "root")
    assert (result.kind, result.outcome) == ("build", "crashed_at_startup")
    assert "attention.cpp:281:40: error" in root.evidence[0].text


def test_what_only_a_running_vllm_can_suffer_is_not_named_in_a_build(tmp_path):
    crash = _COMPILER.replace(
        "/src/csrc/cpu/attention.cpp:281:40: error: use of undeclared identifier 'vcvt'",
        "ptxas terminated (signal: 11)sccache: Compiler killed by signal 11",
    )
    result = _first_run(tmp_path, crash)
    root = next(finding for finding in result.findings if finding.role == "root")
    assert root.id == "unclassified-failure"
    assert "ptxas terminated" in root.evidence[0].text
    assert "use another release of it" in root.alternatives[0]
    assert "sccache" not in analyze(tmp_path / "build.log").to_markdown().split("\n")[0]
    killed = _first_run(tmp_path, crash.replace("signal: 11", "signal: 9").replace("signal 11", "signal 9"))
    memory = next(finding for finding in killed.findings if finding.role == "root")
    assert "MAX_JOBS" in memory.alternatives[0]


def test_a_build_whose_tools_say_only_that_it_failed_has_no_cause_in_the_log(tmp_path):
    text = "error: subprocess-exited-with-error\n\n× Getting requirements to build wheel for vllm did not run successfully.\n"
    result = _first_run(tmp_path, text)
    (root,) = [finding for finding in result.findings if finding.role == "root"]
    assert (root.id, root.changes) == ("cause-not-in-log", ())
    assert "pip install -v" in root.alternatives[0]


def test_what_a_step_of_a_build_lacked_is_its_failure(tmp_path):
    text = "12.1   Downloading a wheel\n623.7   error: <urlopen error retrieval incomplete>\n624.1   error: subprocess-exited-with-error\n"
    (root,) = [finding for finding in _first_run(tmp_path, text).findings if finding.role == "root"]
    assert (root.id, root.confidence) == ("unclassified-failure", "medium")
    assert "retrieval incomplete" in root.evidence[0].text
    assert "Correct what this line names" in root.alternatives[0]


def test_a_build_that_another_package_finished_after_its_error_failed(tmp_path):
    text = f"{_COMPILER}Successfully built quantile-python\nERROR: Could not build wheels for vllm\n"
    assert _first_run(tmp_path, text).outcome == "crashed_at_startup"


def test_an_installation_that_is_done_is_no_failure(tmp_path):
    text = "Collecting vllm==0.6.3\nCollecting torch==2.4.0\nInstalling collected packages: torch, vllm\nSuccessfully installed torch-2.4.0 vllm-0.6.3\n"
    result = _first_run(tmp_path, text)
    assert (result.kind, result.outcome) == ("build", "clean_shutdown")
    assert result.findings == ()


def test_kernels_that_fail_to_compile_in_a_running_engine_are_no_build(tmp_path):
    text = """\
ninja: build stopped: subcommand failed.
Traceback (most recent call last):
  File "/opt/env/lib/python3.12/site-packages/vllm/v1/engine/core.py", line 12, in run_engine_core
    engine_core = EngineCoreProc(*args, **kwargs)
RuntimeError: Ninja build failed.
"""
    assert _first_run(tmp_path, text).kind != "build"


def test_packages_that_another_engine_installs_at_its_start_make_no_build(tmp_path):
    sglang = "[2026-06-08 03:49:11] server_args=ServerArgs(model_path='org/m', tokenizer_path='org/m', dtype='bfloat16')\n"
    result = _first_run(tmp_path, f"Collecting flashinfer\nRequirement already satisfied: torch\n{sglang}")
    assert (result.run.server, result.kind) == ("sglang", "unknown")


def test_the_words_of_cmake_are_below_the_place_that_it_names(tmp_path):
    text = (
        "      CMake Error at CMakeLists.txt:14 (project):\n        Running\n\n"
        "         '/opt/build/bin/ninja' '--version'\n\n        failed with:\n\n         no such file or directory\n"
    )
    result = _first_run(tmp_path, text)
    root = next(finding for finding in result.findings if finding.role == "root")
    assert "/opt/build/bin/ninja, and can't run it" in root.explanation
    own = "      CMake Error at CMakeLists.txt:14 (message):\n        The tool set of this site\n        is not known.\n\n"
    root = next(finding for finding in _first_run(tmp_path, own).findings if finding.role == "root")
    assert "The tool set of this site is not known." in root.explanation


def test_a_job_that_its_batch_system_refuses_behind_an_installation_is_no_build(tmp_path):
    done = "Collecting vllm==0.6.3\nCollecting torch==2.4.0\nInstalling collected packages: torch, vllm\nSuccessfully installed torch-2.4.0 vllm-0.6.3\nEnvironment ready.\n"
    refused = "srun: error: Unable to allocate resources: Requested node configuration is not available\n"
    result = _first_run(tmp_path, done + refused)
    (root,) = [finding for finding in result.findings if finding.role == "root"]
    assert (result.kind, result.outcome) == ("unknown", "unknown")
    assert "Unable to allocate resources" in root.evidence[0].text
    assert "submit it again" in root.alternatives[0]
    assert "BUILD" not in result.to_markdown()
    assert _first_run(tmp_path, done).kind == "build"


def test_a_check_of_a_wheel_that_stops_a_docker_build_is_its_failure(tmp_path):
    text = (
        "=> ERROR [build 9/9] RUN python3 check-wheel-size.py dist                0.4s\n"
        "0.311 Not allowed: Wheel dist/vllm-0.6.3-cp38-abi3-linux_x86_64.whl is larger (291.37 MB) than the limit (250 MB).\n"
        "ERROR: failed to solve: process did not complete successfully: exit code: 1\n"
    )
    (root,) = [finding for finding in _first_run(tmp_path, text).findings if finding.role == "root"]
    assert root.title == "Wheel larger than the size check allows"
    assert "291.37 MB, with a limit of 250 MB" in root.explanation
    assert "Not allowed: Wheel" in root.evidence[0].text


def test_a_file_that_docker_does_not_find_is_the_failure(tmp_path):
    text = (
        "#17 [build 2/5] WORKDIR /workspace/\n"
        "#17 CANCELED\n"
        " 114 | >>>     uv pip install -r requirements/vllm.txt\n"
        'ERROR: failed to build: failed to solve: failed to compute cache key: failed to calculate checksum of ref ab::cd: "/req/vllm.txt": not found\n'
    )
    (root,) = [finding for finding in _first_run(tmp_path, text).findings if finding.role == "root"]
    assert root.id == "unclassified-failure"
    assert len(root.evidence) == 1


@for_each(
    ("behind", "builds"),
    [
        ([], True),
        (["serve.sh: error: no model is given"], False),
        (["/usr/bin/python3: fatal error: no module"], False),
        (["no error: all is well"], True),
        # What the command did last counts: its last three lines, of which an empty one is none.
        (["serve.sh: error: no model is given", "one", "two"], False),
        (["serve.sh: error: no model is given", "one", "two", "three"], True),
        (["serve.sh: error: no model is given", "  ", "  ", "  "], False),
    ],
)
def test_a_command_that_fails_behind_a_finished_installation_makes_a_log_of_a_job(
    behind: list[str], builds: bool
) -> None:
    steps = ["Collecting torch==2.4.0", "Building wheels for collected packages: vllm"]
    done = "Successfully installed torch-2.4.0 vllm-0.6.3"
    assert is_build([record(text) for text in [*steps, done]]) is True
    lines = [record(text, number) for number, text in enumerate([*steps, done, *behind], 1)]
    assert is_build(lines) is builds
    # Without an installation that is done, or above its end, the error is the installation's.
    assert is_build([record(text, n) for n, text in enumerate([*steps, *behind])]) is True
    assert is_build([record(text, n) for n, text in enumerate([*steps, *behind, done])]) is True
