"""Environment variables that a log shows: traced by a launch script's shell, printed, or set by vLLM itself."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct, field

from vllm_logdoctor.knowledge.store import read_table
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.run.launches import WRAPPERS
from vllm_logdoctor.run.model import Evidence, Provenance, Value

# ++ export VLLM_ATTENTION_BACKEND=FLASHINFER
# declare -x NCCL_P2P_DISABLE="1"
# VLLM_USE_DEEP_GEMM=1
_ASSIGNED = lazy_pattern(
    r"(?:\++ )?(?P<exported>export |declare -x )?(?P<name>[A-Z][A-Z0-9_]{3,80})="
    r"(?P<quote>[\"']?)(?P<value>[^\s\"'$`]{0,200})(?P=quote)\s*"
)
# $ CUDA_LAUNCH_BLOCKING=1 VLLM_USE_V1=0 vllm serve org/m      user@host:~# NCCL_DEBUG=INFO python -m vllm.entrypoints.openai.api_server
# VLLM_CPU_KVCACHE_SPACE=16 time python benchmarks/benchmark_throughput.py --model org/m
# user@host:/src$ VLLM_ATTENTION_BACKEND=FLASHINFER /usr/bin/python3 /src/generate.py
_LAUNCHED = lazy_pattern(
    r"(?:\S{0,80}[$#>]|\++)? ?(?P<all>(?:[A-Z][A-Z0-9_]{3,80}=[^\s\"'$`]{1,200} +)+)"
    rf"{WRAPPERS}(?:\S{{1,160}}/)?"
    r"(?:vllm serve |python[\d.]* +(?:-m +vllm\.|\S{1,160}\.py\b))"
)
# + unset VLLM_USE_V1
_UNSET = lazy_pattern(r"(?:\++ )?unset (?P<name>[A-Z][A-Z0-9_]{3,80})\s*")
# We must use the `spawn` multiprocessing start method. Overriding VLLM_WORKER_MULTIPROC_METHOD to 'spawn'. See https://docs.example/
# Auto-enabling VLLM_USE_BREAKABLE_CUDAGRAPH=1. Set VLLM_USE_BREAKABLE_CUDAGRAPH=0 to opt out.
_ADJUSTED = lazy_pattern(
    r"\b(?:(?:Setting|Overriding) (?P<set>VLLM_\w{3,80}) to '|Auto-enabling (?P<enabled>VLLM_\w{3,80})=)(?P<value>\w{1,80})"
)
_MARKS = (
    "VLLM_",
    "NCCL_",
    "CUDA_",
    "TORCH_CUDA_",
    "OMP_NUM_THREADS",
    "PYTORCH_",
    "HIP_",
    "ROCR_",
    "UCX_",
    "HF_HUB_",
)
_MOST = 200


class Environment(Struct):
    """Variables of one run as its log shows them.

    Attributes:
        values: what holds for this run, by name.
        exported: what the shell that started it has exported so far: the next run of the same file has it too.
    """

    values: dict[str, Value] = field(default_factory=dict)
    exported: dict[str, Value] = field(default_factory=dict)

    @staticmethod
    def after(exported: Mapping[str, Value]) -> Environment:
        """Return the environment with which the next run of the same shell begins."""
        return Environment(dict(exported), dict(exported))

    def read(self, record: Record, evidence: Evidence, begun: bool) -> None:
        """Take in a record.

        Args:
            record: any record.
            evidence: the same as evidence.
            begun: whether the run has begun; what a shell sets later is for the run after it.
        """
        text = record.message
        if record.level:
            if (found := _ADJUSTED.search(text)) is not None:
                name = found["set"] or found["enabled"]
                self._keep(self.values, name, found["value"], "adjusted", evidence)
        elif (unset := _UNSET.fullmatch(text)) is not None:
            self.exported.pop(unset["name"], None)
            if not begun:
                self.values.pop(unset["name"], None)
        elif (assigned := _ASSIGNED.fullmatch(text)) is not None and _concerns_vllm(assigned["name"]):
            if assigned["exported"]:
                self._keep(self.exported, assigned["name"], assigned["value"], "explicit", evidence)
            if not begun:
                self._keep(self.values, assigned["name"], assigned["value"], "explicit", evidence)
        elif not begun and (launched := _LAUNCHED.match(text)) is not None:
            for name, _, value in (word.partition("=") for word in launched["all"].split()):
                if _concerns_vllm(name):
                    self._keep(self.values, name, value, "explicit", evidence)

    def _keep(
        self, into: dict[str, Value], name: str, value: str, provenance: Provenance, evidence: Evidence
    ) -> None:
        if name in into or len(into) < _MOST:
            into[name] = Value(value, provenance, (evidence,))


def may_tell(record: Record) -> bool:
    """Return, at little cost, whether a record can show a variable."""
    message = record.message
    if record.level:
        return "VLLM_" in message
    for mark in _MARKS:  # noqa: SIM110 (runs on every record: a generator costs three times as much)
        if mark in message:
            return True
    return False


def _concerns_vllm(name: str) -> bool:
    """A launch script has variables of its own: those of vLLM are the declared ones."""
    return name in _declared() if name.startswith("VLLM_") else name.startswith(_MARKS)


@lru_cache(maxsize=1)
def _declared() -> frozenset[str]:
    return frozenset(read_table("variables"))
