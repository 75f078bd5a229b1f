"""Classes of kernels and operators by name: attention, GEMM, all-reduce ...; the first that matches has it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct, field

from vllm_logdoctor.evidence.model import Reading

OTHER = "other"
# Order matters: a fused MoE GEMM is no dense GEMM, an all-reduce that also normalizes is communication.
CLASSES = {
    "communication": r"nccl|rccl|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|one_shot|two_shot|multimem"
    r"|cross_device_reduce|deep_?ep|nvshmem|(?:intra|inter)node::(?:dispatch|combine)",
    "KV cache write": r"reshape_and_cache|concat_and_cache|kv_cache.*(?:write|store|scatter|update)"
    r"|copy_blocks|swap_blocks",
    "MoE routing": r"topk_?gating|moe_align|moe_sum|count_and_sort|expert.*(?:permute|sort|offset)"
    r"|permute|routing|finalizeMoe|grouped_topk|select_experts",
    "attention": r"flash|fmha|attention|attn|paged|mla_|_mla|merge_state|split_?kv"
    r"|(?:prefill|decode)_?(?:wrapper|kernel)|BatchPrefill|BatchDecode",
    "MoE GEMM": r"moe|grouped_?gemm|group_?gemm|expert|cutlass.*Grouped|bmm_.*(?:mxe|swiGlu)",
    "quantize": r"quant(?!.*gemm)|scaled_fp8|fp8_cast|cvt_fp|to_mx|mxfp8_|dequant",
    "GEMM": r"gemm|gemv|cublas|cutlass|xmma|wgmma|marlin|matmul|nvjet|splitK|sm\d+_.*mma|onednn|mkldnn"
    r"|aten::(?:mm|addmm|bmm|linear|_?int_mm)\b",
    "norm and activation": r"norm|silu|gelu|swiglu|act_and_mul|rotary|rope|softmax"
    r"|aten::(?:relu|sigmoid|rsqrt|pow|mean)\b",
    "sampling": r"sampl|top_?[kp](?!gating)|argmax|multinomial|penalt|logits|exponential|Radix_?Sort|cub::.*Sort"
    r"|aten::(?:argmax|sort|topk|multinomial)\b",
    "copy": r"memcpy|memset|copy|CatArray|fill"
    r"|aten::(?:copy_|to|_to_copy|clone|cat|index_select|contiguous)\b",
}  # fmt: skip
_PATTERNS = tuple((name, re.compile(expression, re.IGNORECASE)) for name, expression in CLASSES.items())
_MOST_NAMES = 20


@lru_cache(maxsize=20_000)
def class_of(name: str) -> str:
    """Return the class of a kernel.

    Example:
        >>> class_of("ncclDevKernel_AllReduce_Sum_bf16_RING_LL"), class_of("void marlin_moe_wna16::Marlin<...>")
        ('communication', 'MoE GEMM')
    """
    text = name[:400]
    return next((kind for kind, pattern in _PATTERNS if pattern.search(text)), OTHER)


class KernelTimes(Struct):
    """Time and number of launches by name of the kernel, in microseconds."""

    times: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, time: float, count: int = 1) -> None:
        """Add launches of a kernel."""
        self.times[name] += time  # type: ignore[assignment]
        self.counts[name] += count

    def readings(self, where: str = "", line: int | None = None) -> Iterator[Reading]:
        """Yield time and launches of each class, the largest first."""
        times: Counter[str] = Counter()
        counts: Counter[str] = Counter()
        for name, time in self.times.items():
            times[class_of(name)] += time
            counts[class_of(name)] += self.counts[name]
        for kind, time in times.most_common():
            how = "sum over the kernels of the class, by name"
            yield Reading("class time", round(time), "us", kind, line, where, how)
            yield Reading("class launches", counts[kind], "count", kind, line, where, how)

    def longest(self, where: str) -> Iterator[Reading]:
        """Yield the kernels that took longest."""
        for name, time in self.times.most_common(_MOST_NAMES):
            yield Reading("time", round(time), "us", name[:120], where=where, how="sum of dur")
