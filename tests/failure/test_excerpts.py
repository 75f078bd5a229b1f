"""Texts that are no whole log: cut-off tracebacks, cells of notebooks, builds, prefixes of log viewers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.failure.judging import root
from vllm_logdoctor import analyze
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.parse.prefixes import read_prefix

CUT = """\
ERROR 05-08 00:47:57 [core.py:396] EngineCore failed to start.
ERROR 05-08 00:47:57 [core.py:396] Traceback (most recent call last):
ERROR 05-08 00:47:57 [core.py:396]   File "/opt/env/lib/python3.12/site-packages/vllm/v1/engine/core.py", line 64, in __init__
ERROR 05-08 00:47:57 [core.py:396]     self.model_executor = executor_class(vllm_config)
ERROR 05-08 00:47:57 [core.py:396]                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^
"""
BUILD = """\
File "/tmp/pip-build-env-x1/overlay/lib/python3.10/site-packages/torch/utils/cpp_extension.py", line 387, in _check_cuda_version
          raise RuntimeError(CUDA_MISMATCH_MESSAGE.format(cuda_str_version, torch.version.cuda))
      RuntimeError:
      The detected CUDA version (12.4) mismatches the version that was used to compile
      PyTorch (11.8). Please make sure to use the same CUDA versions.
"""
QUEUE = """\
Traceback (most recent call last):
  File "/opt/env/lib/python3.12/site-packages/queue_client/manager.py", line 417, in request
    raise ServiceUnavailableError
queue_client.errors.ServiceUnavailableError: no answer
"""
CLIENT = """\
TypeError                                 Traceback (most recent call last)
File ~/env/lib/python3.10/site-packages/openai/_utils/_utils.py:275, in wrapper(*args, **kwargs)
--> 275 return func(*args, **kwargs)

TypeError: Completions.create() got an unexpected keyword argument 'top_k'
"""
ASSERTION = """\
ERROR 05-08 00:47:57 [core.py:396] EngineCore failed to start.
ERROR 05-08 00:47:57 [core.py:396] Traceback (most recent call last):
ERROR 05-08 00:47:57 [core.py:396]   File "/opt/env/lib/python3.12/site-packages/vllm/model_executor/models/x.py", line 64, in load_weights
ERROR 05-08 00:47:57 [core.py:396]     weight_loader(param, loaded_weight)
ERROR 05-08 00:47:57 [core.py:396]   File "/opt/env/lib/python3.12/site-packages/vllm/model_executor/layers/linear.py", line 99, in weight_loader
ERROR 05-08 00:47:57 [core.py:396]     assert param_data.shape == loaded_weight.shape
ERROR 05-08 00:47:57 [core.py:396] AssertionError
"""
EXTENSION = """\
INFO 05-08 00:47:50 [__init__.py:239] Automatically detected platform cuda.
Traceback (most recent call last):
  File "/opt/env/lib/python3.10/site-packages/vllm/attention/backends/flash_attn.py", line 20, in <module>
    from flash_attn import flash_attn_func
ImportError: /opt/env/lib/python3.10/site-packages/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN3c104cuda9SetDeviceEi
"""
ASKED = """\
INFO 05-08 00:47:50 [__init__.py:239] Automatically detected platform cuda.
Traceback (most recent call last):
  File "/opt/env/lib/python3.10/site-packages/vllm/config/vllm.py", line 20, in __post_init__
    raise ValueError("Sparse attention requires kv_cache_dtype=fp8_e4m3")
ValueError: Sparse attention requires kv_cache_dtype=fp8_e4m3
"""
BOX = """\
\u2502 /opt/env/lib/python3.11/site-packages/vllm/worker/worke \u2502
\u2502 r.py:440 in execute_model                               \u2502
\u2502                                                         \u2502
\u2502 \u2771 440 \u2502   slot = self.slots[name]                          \u2502
\u2570\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u256f
KeyError: 'slot-3'
"""
OLD_NOTEBOOK = """\
/usr/lib/python3/dist-packages/vllm/worker/worker.py in execute_model(self, request)
    118         # one step
--> 119         return self.runner.step(request.slots)

AttributeError: 'Request' object has no attribute 'slots'
"""


def test_a_traceback_without_its_exception_is_said_to_be_cut_off() -> None:
    finding = root(CUT)
    assert (finding.id, finding.title) == (
        "cause-not-in-log",
        "EngineCore failed to start, its traceback is cut off",
    )
    assert "File " in finding.evidence[0].text  # Never a line of carets.


def test_an_error_of_a_build_is_read_where_its_head_is_cut_off_and_vllm_is_not_named(tmp_path: Path) -> None:
    log = tmp_path / "pip.txt"
    log.write_text(BUILD)
    (finding,) = [one for one in analyze(log).runs[0].findings if one.role == "root"]
    assert finding.id == "cuda-library-mismatch"
    assert "12.4" in finding.evidence[0].text


def test_an_error_of_a_client_alone_is_no_log_of_a_server(tmp_path: Path) -> None:
    log = tmp_path / "cell.txt"
    log.write_text(CLIENT)
    with pytest.raises(LogdoctorError, match="nothing that vLLM writes"):
        analyze(log)


def test_of_several_files_that_vllm_did_not_write_none_is_a_run(tmp_path: Path) -> None:
    logs = [tmp_path / name for name in ("a.log", "b.log")]
    for log in logs:
        log.write_text(QUEUE)
    assert analyze(logs[0]).runs[0].findings[0].id == "unclassified-failure"
    with pytest.raises(LogdoctorError, match="nothing that vLLM writes"):
        analyze(logs)


def test_an_assertion_without_words_is_known_by_what_it_asserts() -> None:
    finding = root(ASSERTION)
    assert finding.id == "checkpoint-format-mismatch"
    assert "assert param_data.shape == loaded_weight.shape" in finding.explanation


def test_a_foreign_extension_is_reinstalled_by_its_name() -> None:
    finding = root(EXTENSION)
    assert finding.id == "torch-abi-mismatch"
    assert "`flash_attn`" in finding.alternatives[0]
    assert not finding.changes  # vLLM itself is not reinstalled.


def test_a_check_that_asks_for_a_setting_gives_it() -> None:
    assert "`--kv-cache-dtype fp8_e4m3`" in root(ASKED).alternatives[0]


def test_paths_that_a_narrow_box_breaks_are_joined() -> None:
    assert root(BOX).title == "KeyError in worker.py, execute_model"


def test_frames_of_an_old_notebook_have_owners() -> None:
    assert root(OLD_NOTEBOOK).id == "engine-code-bug"


@pytest.mark.parametrize(
    ("line", "rest"),
    [
        ("vllm-decode-6c8f9c4df6-vh88z vllm (APIServer pid=1) INFO 01-02 03:04:05 [a.py:1] x", "INFO 01-02 03:04:05 [a.py:1] x"),
        ("kserve-container   File \"/opt/a.py\", line 3, in f", "  File \"/opt/a.py\", line 3, in f"),
        ("kserve-container RuntimeError: no GPU", "RuntimeError: no GPU"),
        ("well-known words of a sentence", "well-known words of a sentence"),
    ],
)  # fmt: skip
def test_the_names_of_pod_and_container_are_taken_away(line: str, rest: str) -> None:
    assert line[read_prefix(line).end :] == rest


def test_the_prompt_of_root_is_read_on_the_first_line_only(tmp_path: Path) -> None:
    text = "# vllm serve org/m --max-model-len 4096\nINFO 01-02 03:04:05 [__init__.py:207] Automatically detected platform cuda.\n"
    assert arguments_in(text, tmp_path)["max_model_len"] == 4096
    assert "max_model_len" not in arguments_in("hello\n" + text, tmp_path)


def arguments_in(text: str, folder: Path) -> dict[str, object]:
    log = folder / "server.log"
    log.write_text(text)
    return dict(analyze(log).runs[0].run.arguments)


@pytest.mark.parametrize(
    ("before", "cited"),
    [
        ("ERROR 05-01 10:00:09 [core.py:12] The engine failed.", True),
        ("a warm-up failed", True),
        ("INFO     core.py:12 errors are reported here", False),
        ("    raise error", False),
        ('  File "/opt/x.py", line 3, in failed', False),
        ("UserWarning: it failed", False),
        ("all is well", False),
    ],
)
def test_the_line_above_a_traceback_proves_something_where_it_speaks_of_an_error(
    before: str, cited: bool
) -> None:
    found = root(
        f"INFO 05-01 10:00:00 [api_server.py:1300] vLLM API server version 0.11.0\n{before}\n"
        "Traceback (most recent call last):\n"
        '  File "/usr/lib/python3/dist-packages/vllm/v1/engine/core.py", line 12, in step\n'
        "    self.run(batch)\n"
        "ValueError: the batch is odd\n"
    )
    assert [line.line for line in found.evidence if line.line != 4] == [6, 5, *([2] if cited else [])]
