"""Measured effects of settings, as ranges with their number and conditions.

Each range is the spread over pairs of runs that differ in one setting, collected from public benchmark
repositories and threads (as of November 2026). Ratios are after / before; for start-up they are ratios of
seconds. A range is used only under its conditions: where a log does not meet them, no number is given.
"""

from __future__ import annotations

from msgspec import Struct

from vllm_logdoctor.rules.model import Effect


class Range(Struct, frozen=True):
    """Spread of a measured ratio.

    Attributes:
        low, high: the least and the most that was measured (quartiles where `quartiles` is set).
        middle: the median.
        pairs: number of pairs.
        campaigns: number of repositories that they come from.
        conditions: under what it was measured.
        quartiles: whether low and high are quartiles: outliers lie outside.
    """

    low: float
    high: float
    middle: float
    pairs: int
    campaigns: int
    conditions: str
    quartiles: bool = False

    def words(self) -> str:
        """Return the range with its number of pairs and sources."""
        return f"{self.low:g} to {self.high:g} x ({self._pairs()})"

    def effect(self, metric: str, note: str = "") -> Effect:
        """Return the range as an expected effect on a metric."""
        spread = "middle half of " if self.quartiles else ""
        # Of seconds a smaller ratio is the better one; reports say how many times faster.
        middle = 1 / self.middle if metric.endswith("seconds") else self.middle
        basis = f"{spread}{self._pairs()}, median {middle:.3g} x; {self.conditions}"
        basis += f"; {note}" if note else ""
        return Effect(metric, self.low, self.high, "published", basis, median=self.middle)

    def _pairs(self) -> str:
        sources = "one source" if self.campaigns == 1 else f"{self.campaigns} sources"
        return f"{self.pairs} measured pairs from {sources}"


EAGER_OFF_LOADED = Range(1.0, 1.10, 1.07, 6, 2, "8B on H100 with 96 to 128 clients, batch of 4 on L4")
EAGER_OFF_SINGLE = Range(1.01, 4.10, 1.08, 4, 3, "one stream on GB10, RDNA4 and an A6000 with a slow host")
EAGER_OFF_BETWEEN = Range(1.0, 4.10, 1.07, 10, 4, "single streams and 96 to 128 clients, no pair in between")
EAGER_OFF_EXPERTS = Range(2.27, 8.46, 4.27, 3, 1, "mixture of experts at batch 1 on GH200")
MAX_NUM_SEQS_FROM_ONE = Range(5.21, 14.21, 12.84, 4, 1, "max_num_seqs 1 to 256 with 16 clients")
MAX_NUM_SEQS_RAISED = Range(1.07, 1.59, 1.20, 8, 2, "max_num_seqs raised from below the load's concurrency")
CACHE_RAISED = Range(1.07, 2.66, 1.60, 4, 1, "14B on a 64 GB device, load bound by the cache")
CACHE_FP8 = Range(
    0.97, 1.09, 1.03, 18, 4, "16-bit to fp8 cache, vLLM 0.10 and later on H100, L40S, L4 and 3090"
)
WEIGHTS_FP8 = Range(1.12, 1.54, 1.36, 21, 3, "16-bit to fp8 weights on H100 and L40S")
QUANTIZED_SINGLE = Range(1.29, 1.98, 1.57, 3, 1, "16-bit to fp8, int8 or int4 weights, one stream on Ampere")
MTP_SINGLE = Range(1.0, 1.47, 1.15, 9, 4, "MTP drafting with one request")
CLIENT_DOUBLED = Range(1.10, 1.94, 1.78, 6, 1, "twice the requests in flight, 7B on A40")
REPLICAS_FOR_TP4 = Range(
    2.35, 3.40, 3.28, 3, 1, "four replicas instead of tensor parallel 4, 3090 over PCIe, aggregate load"
)
TP_HALVED_LOADED = Range(
    0.54, 1.72, 0.84, 25, 3, "half the ranks without NVLink under load: the inverse of doubling them"
)
MOE_TUNED = Range(1.02, 1.17, 1.08, 6, 1, "tuned block sizes instead of defaults")
NGRAM_OFF_BUSY = Range(
    0.65, 1.75, 0.98, 29, 2, "n-gram drafting removed with more than 16 requests at once or in a batch"
)
DRAFT_OFF_MIDDLE = Range(
    0.70, 1.41, 1.05, 12, 1, "a draft model removed at 2 to 16 requests at once", quartiles=True
)
MTP_OFF_MIDDLE = Range(
    0.90, 1.20, 1.0, 19, 3, "MTP drafting removed at 2 to 16 requests at once", quartiles=True
)
MARLIN_FOR_AWQ = Range(1.08, 2.38, 1.44, 2, 1, "Marlin instead of the old AWQ kernel on 3090 Ti and A100")
COMPILE_CACHE_WARM = Range(0.18, 0.57, 0.43, 34, 4, "warm instead of cold compile cache")
PAGE_CACHE_WARM = Range(0.06, 0.79, 0.21, 10, 3, "weights read from the page cache instead of storage")
NODES_JOINED = Range(3.0, 4.0, 3.5, 1, 1, "tensor parallel within a node instead of across two")
