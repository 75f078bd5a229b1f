"""Text that holds no line of vLLM: what a container's runtime, pip, Ray Serve or a client say of a failure."""

from __future__ import annotations

import pytest

from tests.failure.judging import diagnosis, root
from tests.failure.records import traceback
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.pipeline import Options, analyse
from vllm_logdoctor.report.model import Diagnosis
from vllm_logdoctor.report.proof import carrying
from vllm_logdoctor.source import inputs_from

REFUSED = (
    "(HTTP code 500) server error - OCI runtime create failed: runc create failed: unable to start container process: error during "
    "container init: error running hook #0: exit status 1, stdout: , stderr: "
)


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("nvidia-container-cli: requirement error: unsatisfied condition: cuda>=13.1, please update: unknown", "driver-too-old"),
        ("nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown", "container-not-started"),
        ('exec: "serve-model": executable file not found in $PATH: unknown', "container-not-started"),
    ],
)  # fmt: skip
def test_what_a_container_runtime_refuses_is_the_failure(said: str, cause: str) -> None:
    found = diagnosis(f"{REFUSED}{said}\n")
    (broken,) = [one for one in found.findings if one.role == "root"]
    assert (broken.id, broken.confidence) == (cause, "high")
    assert (found.run.kind, found.run.outcome) == ("container", "crashed_at_startup")


def _of_pip(*lines: str) -> str:
    return "\n".join(
        ("ERROR: pip's dependency resolver does not currently take into account all the packages.", *lines)
    )


def test_packages_that_pip_finds_unfit_are_a_finding_where_nothing_else_is() -> None:
    found = root(
        _of_pip(
            "vllm 0.99.1 requires pillow>=90.0, but you have pillow 11.0 which is incompatible.",
            "vllm 0.99.1 requires torch==9.9.0, but you have torch 9.8.1 which is incompatible.",
        )
    )
    assert found.id == "python-dependency-conflict"
    assert (
        found.explanation
        == "The log is the output of pip. vllm 0.99.1 needs torch==9.9.0, and torch 9.8.1 is installed."
    )


def test_such_words_of_pip_above_a_server_that_starts_are_no_failure() -> None:
    text = _of_pip("vllm 0.99.1 requires torch==9.9.0, but you have torch 9.8.1 which is incompatible.")
    server = (
        "(APIServer pid=1) INFO 05-01 10:00:00 [api_server.py:1300] vLLM API server version 0.11.0\n"
        "(APIServer pid=1) INFO:     Application startup complete.\n"
    )
    assert not [one for one in diagnosis(f"{text}\n{server}").findings if one.kind == "failure"]


def _waiting(needed: str, offered: str) -> Diagnosis:
    return diagnosis(
        '{"levelname": "WARNING", "asctime": "2026-05-01 10:00:00,000", "message": "deployment_state.py:77 - Deployment '
        "'VLLMDeployment:m' 1 replicas that have taken more than 30s to be scheduled. Resources required for each replica: "
        f'{needed}, total resources available: {offered}. Use `ray status` for more details."}}\n'
    )


def test_a_replica_that_asks_for_what_no_node_has_is_the_failure() -> None:
    needed, offered = r"{\"CPU\": 1.0, \"GPU\": 2.0}", r"{\"CPU\": 64.0, \"GPU\": 1.0}"
    (broken,) = [one for one in _waiting(needed, offered).findings if one.role == "root"]
    assert (broken.id, broken.confidence) == ("ray-not-enough-gpus", "medium")
    assert "It lacks GPU (needs 2, has 1)." in broken.explanation


def test_a_replica_that_waits_although_the_cluster_has_enough_shows_no_lack() -> None:
    found = _waiting(r"{\"CPU\": 1.0}", r"{\"CPU\": 64.0}")
    assert not [one for one in found.findings if one.id == "ray-not-enough-gpus"]


LOST = "2026-05-01 10:00:00.000 | ERROR    | bot.llm:ask:12 - OpenAI API error: Connection error.\n"


def test_a_client_that_reaches_no_server_is_judged_by_the_address_that_it_is_given() -> None:
    found = root(f'{LOST}{LOST}[llm]\nbase_url = "http/10.0.0.9:8000/v1"\n')
    assert (found.id, found.title) == (
        "request-error-not-server-fault",
        "The client did not reach the server",
    )
    assert "`http/10.0.0.9:8000/v1`, is no URL" in found.explanation
    assert "with its scheme" in found.alternatives[0]
    right = root(f'{LOST}base_url = "http://10.0.0.9:8000/v1"\n')
    assert "`http://10.0.0.9:8000/v1`." in right.explanation
    assert "curl" in right.alternatives[0]


def test_a_client_of_urllib3_that_reaches_no_server_is_one_too() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "ask.py", line 3, in <module>\n'
        '    answer = requests.get("http://gw:8000/v1/models")\n'
        "requests.exceptions.ConnectionError: HTTPConnectionPool(host='gw', port=8000): Max retries exceeded with url: /v1/models "
        "(Caused by NewConnectionError('Connection refused'))\n"
    )
    assert root(text).title == "The client did not reach the server"


@pytest.mark.parametrize(
    "text",
    [
        "docker: container 3f2a started\nOCI runtime: runc 1.2.4\n",
        '[llm]\nbase_url = "http://10.0.0.9:8000/v1"\n',
        "Connection error.\n",
    ],
)
def test_a_container_that_started_or_the_settings_of_a_client_are_no_log_of_vllm(text: str) -> None:
    with pytest.raises(LogdoctorError):
        analyse(inputs_from(text.encode()), Options())


def test_tests_that_name_one_error_are_said_to_agree() -> None:
    line = "[2025-02-23T04:29:50Z] FAILED tests/models/test_{}.py::test_models[half] - AssertionError: group is already there"
    alike = root("\n".join([line.format("a"), line.format("b")]))
    assert alike.explanation == "2 tests failed with the same error."
    assert [one.line for one in carrying(alike)] == [1, 2]


def test_the_error_of_tests_is_explained_where_its_text_alone_decides_it() -> None:
    line = "FAILED tests/models/test_{}.py::test_models[half] - AssertionError: expert group is already initialized"
    found = root("\n".join([line.format("a"), line.format("b")]))
    assert "An earlier engine of this process" in found.explanation


def test_of_many_failed_tests_the_first_and_the_last_are_cited() -> None:
    lines = [f"FAILED tests/models/test_{number}.py::test_models - AssertionError: no rows" for number in range(1, 41)]  # fmt: skip
    found = root("\n".join(lines))
    assert "the first and the last are cited" in found.explanation
    assert [one.line for one in carrying(found)] == [1, 40]


def a_test_that_ended_with(raised: str, line: str) -> str:
    """Return what pytest prints of a failed test, without its summary."""
    return "\n".join(
        [
            "=================================== FAILURES ===================================",
            "    def test_output():",
            f">       {line}",
            f"E       {raised}",
            "",
            f"tests/test_output.py:41: {raised.partition(':')[0]}",
        ]
    )


def test_the_error_of_a_test_is_read_without_a_summary() -> None:
    finding = root(a_test_that_ended_with("ConnectionError: no answer of the server", "client.models.list()"))
    assert finding.id == "unclassified-failure"
    assert "no answer of the server" in finding.evidence[0].text


def test_a_comparison_that_a_test_makes_is_no_failure_of_vllm() -> None:
    text = a_test_that_ended_with("AssertionError: outputs of vllm differ", "assert first == second")
    assert not any(found.kind == "failure" for found in diagnosis(text).findings)


def test_a_second_engine_in_one_process_is_named():
    lines = traceback(
        ("initialize_model_parallel", "assert _TP is None"),
        ends="AssertionError: tensor model parallel group is already initialized",
    )
    text = "\n".join(["INFO 05-01 10:00:00 [__init__.py:239] Automatically detected platform cuda.", *lines])
    assert root(text).title == "Second engine in the same process"


_CMAKE = "running build_ext\nCMake Error at CMakeLists.txt:14 (project):\n{}\n-- Configuring incomplete, errors occurred!\n"


@pytest.mark.parametrize(
    ("said", "cause", "first"),
    [
        ("/opt/tools/bin/ninja", "jit-toolchain-missing", "pip install ninja"),
        ("/home/me/.cache/uv/builds-v0/.tmpQ1w2E3/bin/ninja", "stale-or-partial-build", "uv cache clean"),
        ("/tmp/pip-build-env-q1w2e3/overlay/bin/ninja", "stale-or-partial-build", "`build`"),
    ],
)  # fmt: skip
def test_a_build_tool_that_cmake_cannot_run_is_to_be_installed_or_forgotten(
    said: str, cause: str, first: str
) -> None:
    found = root(
        _CMAKE.format(
            f"  Running\n\n   '{said}' '--version'\n\n  failed with:\n\n   no such file or directory\n"
        )
    )
    assert found.id == cause
    assert first in found.alternatives[0]


@pytest.mark.parametrize(("own", "proven"), [("o9p8", True), ("q1w2e3", False)])
def test_a_tool_of_the_environment_of_another_build_proves_an_old_cache(own: str, proven: bool) -> None:
    here = (
        f"/tmp/pip-build-env-{own}/overlay/lib/python3.10/site-packages/torch/x.py:9: UserWarning: no numpy"
    )
    said = "   '/tmp/pip-build-env-q1w2e3/overlay/bin/ninja' '--version'\n  failed with:\n   no such file or directory"
    found = root(f"{here}\n{_CMAKE.format(said)}")
    assert (found.confidence == "high") is proven
    assert ("Most often" in found.explanation) is not proven
    assert any(one.text == here for one in found.evidence) is proven


@pytest.mark.parametrize(
    "said",
    [
        "  No CMAKE_CUDA_COMPILER could be found.\n",
        "  The CMAKE_CXX_COMPILER:\n\n    /usr/bin/g++-99\n\n  is not a full path to an existing compiler tool.\n",
    ],
)
def test_a_compiler_that_cmake_does_not_find_is_to_be_installed(said: str) -> None:
    found = root(_CMAKE.format(said))
    assert (found.id, found.title) == ("jit-toolchain-missing", "CMake does not find a compiler")
    assert "Kernels are compiled" not in found.explanation


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("/bin/sh: 1: vllm: Permission denied", "User may not execute vllm"),
        ("/srv/run.sh: line 9: /opt/env/bin/vllm: Permission denied", "User may not execute vllm"),
        ("exec /usr/bin/vllm: exec format error", "Image or program is built for another CPU architecture"),
    ],
)
def test_a_command_that_the_system_does_not_execute_is_the_failure(said: str, title: str) -> None:
    found = root(f"{said}\n")
    assert (found.id, found.title) == ("container-not-started", title)
