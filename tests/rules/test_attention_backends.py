"""Steps name attention backends that the run can change to: not the one in use, and none that release, engine or card lack."""

from __future__ import annotations

import vllm_logdoctor
from tests.rules.making import a_run
from tests.tables import for_each
from vllm_logdoctor.rules.attention_backends import with_backends_of_run
from vllm_logdoctor.run.model import Run, Value

STEP = "Choose one, such as FLASH_ATTN, FLASHINFER or TRITON_ATTN: `--attention-backend NAME`."


def of(version: str | None, backend: str | None, **given: object) -> Run:
    asked = {"attention_backend": Value(backend, "explicit")} if backend else {}
    release = Value(version, "reported") if version else None
    return Run(version=release, config=asked, **given)  # type: ignore[arg-type]


@for_each(
    ("run", "named"),
    [
        (of("0.22.0", None), "FLASH_ATTN, FLASHINFER or TRITON_ATTN"),
        (of("0.22.0", "AttentionBackendEnum.FLASH_ATTN"), "FLASHINFER or TRITON_ATTN"),
        (of("0.22.0", "TRITON_ATTN", platform="cuda"), "FLASH_ATTN or FLASHINFER"),
        (of("0.9.2", "FLASH_ATTN_VLLM_V1", engine="V1"), "FLASHINFER or TRITON_ATTN_VLLM_V1"),
        (of("0.9.2", "FLASHINFER", engine="V0"), "FLASH_ATTN or XFORMERS"),
        (of("0.6.3", "XFORMERS"), "FLASH_ATTN or FLASHINFER"),
        (of("0.22.0", None, platform="rocm"), "TRITON_ATTN or ROCM_ATTN"),
        (of("0.22.0", "ROCM_ATTN", platform="rocm"), "TRITON_ATTN"),
        (of("0.22.0", "FLASHMLA"), "TRITON_MLA"),
        # Nothing that is known to work there: no step.
        (of("0.22.0", "FLASHMLA_SPARSE"), ""),
        (of("0.9.2", None, platform="rocm"), ""),
        (of("0.22.0", None, platform="cpu"), ""),
    ],
)  # fmt: skip
def test_a_step_names_backends_that_the_run_has_and_does_not_use(run: Run, named: str) -> None:
    wanted = f"Choose one, such as {named}: `--attention-backend NAME`." if named else ""
    assert with_backends_of_run(STEP, run) == wanted


@for_each(
    ("version", "line", "named"),
    [
        # What vLLM took by itself in place of FLASH_ATTN says that the card is too old for it.
        ("0.6.3", "Using XFormers backend.", "FLASHINFER"),
        ("0.22.0", "Using Flash Attention backend.", "FLASHINFER or TRITON_ATTN"),
        ("0.22.0", "Using Triton backend.", "FLASHINFER"),
    ],
)
def test_the_backend_in_use_is_known_by_its_line(version: str, line: str, named: str) -> None:
    run = a_run(messages=(line,), version=version)
    assert with_backends_of_run(STEP, run) == f"Choose one, such as {named}: `--attention-backend NAME`."


def test_the_backend_in_use_is_known_by_its_file_in_the_traceback() -> None:
    log = (
        "Traceback (most recent call last):",
        '  File "/opt/vllm/worker/worker.py", line 83, in execute_model',
        "    return self.model_runner.execute_model(batch)",
        '  File "/opt/vllm/attention/layer.py", line 97, in forward',
        "    return self.impl.forward(query,",
        '  File "/opt/vllm/attention/backends/flash_attn.py", line 543, in forward',
        "    output[prefills:] = flash_attn_with_kvcache(",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
    )
    text = vllm_logdoctor.analyze("\n".join(log).encode()).to_markdown()
    assert "such as FLASHINFER or XFORMERS: `VLLM_ATTENTION_BACKEND=NAME`" in text
