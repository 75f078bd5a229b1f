"""Each fact that the sentence on a failure gives stands in a line that the report cites for it."""

from __future__ import annotations

import re

import pytest

from tests.failure.judging import examples, failures, raised, root
from tests.failure.records import framed, traceback
from vllm_logdoctor.report.proof import carrying
from vllm_logdoctor.rules.model import Finding

VLLM = "/opt/env/lib/python3.11/site-packages/vllm"
BACKTICKS = re.compile(r"`([^`]+)`")


def _cited(found: Finding) -> str:
    return "\n".join(one.text for one in carrying(found))


@pytest.mark.parametrize("slug", sorted(examples()))
def test_a_value_of_the_log_in_backticks_stands_in_a_cited_line(slug: str) -> None:
    for found in failures(examples()[slug]):
        values = (
            [one.rstrip("….") for one in BACKTICKS.findall(found.explanation)] if found.role == "root" else []
        )
        assert [one for one in values if one in examples()[slug] and one not in _cited(found)] == []


def test_the_file_at_which_a_compiler_stopped_is_shown_by_the_line_that_names_it() -> None:
    place = ("/usr/lib/python3/dist-packages/setuptools/build_ext.py", 9, "run", "check_call(args)")
    failed = "subprocess.CalledProcessError: Command '['ninja']' returned non-zero exit status 1."
    lines = (
        "FAILED: CMakeFiles/_C.dir/csrc/rope.cu.o",
        "ptxas terminated (signal: 11)",
        raised(place, error=failed),
    )
    found = root("\n".join(lines))
    assert "stopped at rope.cu" in found.explanation
    assert "FAILED: CMakeFiles" in _cited(found)


@pytest.mark.parametrize(
    ("shows", "lines"),
    [
        (
            "cpu_executor.py",
            raised(
                (f"{VLLM}/executor/cpu_executor.py", 226, "execute_model", "self.driver_method_invoker()"),
                (f"{VLLM}/executor/multiproc_worker_utils.py", 58, "get", "raise self.result.exception"),
                error="AttributeError: '_OpNamespace' '_C' object has no attribute 'ggml_mul_mat'",
            ),
        ),
        (
            "Using address ray://",
            "INFO worker.py:1313 -- Using address ray://head.example:10001 set in the environment variable RAY_ADDRESS\n"
            "INFO client_builder.py:237 -- Passing the following kwargs to ray.init() on the server: x\n"
            + raised(
                (f"{VLLM}/engine/ray_utils.py", 20, "__getattr__", "return getattr(self.worker, name)"),
                error="RecursionError: maximum recursion depth exceeded",
            ),
        ),
        (
            "No CUDA runtime is found",
            "No CUDA runtime is found, using CUDA_HOME='/usr/local/cuda'\n"
            + raised(
                ("<string>", 401, "get_requirements", "if nvcc_cuda_version"),
                error="NameError: name 'nvcc_cuda_version' is not defined",
            ),
        ),
        (
            "GGUFModelLoader",
            raised(
                (f"{VLLM}/spec_decode/spec_decode_worker.py", 300, "init_device", "self.proposer_worker.load_model()"),
                (f"{VLLM}/model_executor/model_loader/loader.py", 1200, "load_model", "GGUFModelLoader.load_weights(self)"),
                error="ValueError: There is no module or parameter named 'head.qweight_type' in LlamaForCausalLM",
            ),
        ),
    ],
    ids=("platform", "address of Ray", "torch without CUDA", "loader of the draft model"),
)  # fmt: skip
def test_what_a_page_says_beside_the_error_is_shown_by_the_line_that_shows_it(shows: str, lines: str) -> None:
    found = root(lines)
    assert shows not in found.evidence[0].text
    assert shows in _cited(found)


def test_code_of_a_notebook_that_a_sentence_quotes_is_shown_by_its_own_line() -> None:
    code = "logits = self.score(states)"
    lines = (
        "AttributeError                            Traceback (most recent call last)",
        f"{VLLM}/model_executor/models/adapters.py in forward(self, states)",
        "    210                                             states)",
        f"--> 211             {code}",
        "    212             return logits",
        "",
        f"{VLLM}/model_executor/layers/quantization/bitsandbytes.py in _apply_8bit(self, layer, x)",
        "    280         weight = layer.weight",
        "--> 281         offsets = weight.shard_offsets",
        "    282 ",
        "",
        "AttributeError: 'Int8Params' object has no attribute 'shard_offsets'",
    )
    found = root("\n".join(lines))
    assert code in found.explanation
    assert code in _cited(found)


def test_a_check_on_the_draft_model_cites_its_configuration_and_both_settings() -> None:
    given = "{'model_tag': 'm', 'kv_cache_dtype': 'fp8', 'speculative_config': {'method': 'eagle', 'kv_cache_dtype': 'auto'}}"
    lines = (
        "(APIServer pid=1) INFO 05-01 10:00:00 [api_server.py:1300] vLLM API server version 0.23.0",
        f"(APIServer pid=1) INFO 05-01 10:00:00 [utils.py:233] non-default args: {given}",
        raised(
            (f"{VLLM}/v1/worker/gpu_worker.py", 431, "load_model", "self.model_runner.load_model()"),
            (f"{VLLM}/v1/spec_decode/eagle.py", 23, "load_model", "draft_vllm_config = replace("),
            (f"{VLLM}/config/vllm.py", 127, "__post_init__", "raise ValueError(text)"),
            error="ValueError: Rope cache requires kv_cache_dtype=fp8",
        ),
    )
    found = root("\n".join(lines))
    assert "configuration that is made for the draft model" in found.explanation
    assert "`kv_cache_dtype` `auto`" in found.explanation
    assert "draft_vllm_config" in _cited(found)
    assert "'kv_cache_dtype': 'auto'" in _cited(found)


def test_that_a_request_failed_is_shown_by_a_frame_of_vllm_not_by_a_function_of_that_name_in_another_package() -> (
    None
):
    packages = VLLM.removesuffix("/vllm")
    error = raised(
        (f"{packages}/langchain/llms/base.py", 279, "generate", "return self.helper(prompts)"),
        (f"{VLLM}/worker/worker.py", 130, "execute_model", "return self.run(step)"),
        (f"{VLLM}/model_executor/models/mpt.py", 399, "rotate", "out = xops.rotate(query)"),
        (f"{packages}/xformers/ops/rope.py", 175, "apply", "out = cls.OPERATOR(query)"),
        error="RuntimeError: bias is not aligned",
    )
    found = root(error)
    assert "after start-up" in found.explanation
    assert "worker/worker.py" in _cited(found)
    assert "langchain" not in _cited(found)


def _followed(*lines: str) -> str:
    found = failures("\n".join(lines))
    return "\n".join(one.text for finding in found if finding.role == "cascade" for one in finding.evidence)


def test_an_error_that_is_said_to_follow_from_a_stopped_worker_is_cited_as_one_that_followed() -> None:
    executor = "(EngineCore pid=9) {} 05-01 10:00:0{} [multiproc_executor.py:441] [shutdown] Executor: {}"
    worker = [
        "WorkerProc failed to start.",
        *traceback(("load_model", "f.get_tensor(name)"), ends="ValueError: no shape"),
    ]
    waited = "Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause."
    lines = (
        executor.format("INFO", 1, "waiting for worker exit count=2"),
        executor.format("WARNING", 6, "workers still running after grace period; sending SIGTERM count=1"),
        *framed("Worker_TP1 pid=91", worker, "multiproc_executor.py:571", "10:00:06"),
        *framed("EngineCore pid=9", ["EngineCore failed to start.", *traceback(("init", "wait()"), ends=waited)], "core.py:708"),
    )  # fmt: skip
    assert "ValueError: no shape" in _followed(*lines)
    assert "waiting for worker exit" in _cited(root("\n".join(lines)))


def test_errors_that_followed_begin_with_one_that_is_no_copy_of_the_cause() -> None:
    def rank(number: int, more: str) -> list[str]:
        lines = [
            "WorkerProc hit an exception.",
            *traceback(("execute_model", "run()"), ends=f"RuntimeError: no buffer of {number} bytes{more}"),
        ]
        return framed(f"Worker_TP{number} pid=9{number}", lines, "multiproc_executor.py:571")

    core = framed(
        "EngineCore pid=9",
        [
            "EngineCore encountered a fatal error.",
            *traceback(("step", "requests[name]"), ends="KeyError: 'cmpl-7'"),
        ],
        "core.py:708",
    )
    found = _followed(*rank(0, ""), *rank(1, "\nWorkerProc hit an exception."), *core)
    assert "KeyError: 'cmpl-7'" in found
    assert "no buffer" not in found
