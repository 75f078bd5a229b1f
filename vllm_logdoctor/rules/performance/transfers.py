"""Rules on KV caches outside the engine: connectors that are waited for, or that never give anything."""

from __future__ import annotations

from typing import Any

from vllm_logdoctor.rules.context import RuleContext, action, plural, rounded, sample_lines, setting_lines
from vllm_logdoctor.rules.rule import Advice, Rule
from vllm_logdoctor.rules.tasks import computes_for_others

LEAST_LINES = 3
LEAST_SHARE = 0.1
# A cache is filled before it can answer: shorter loads prove nothing.
LONG_ENOUGH = 120.0
TRANSFER_TIME = "Avg xfer time (ms)"


def requests_wait_for_remote_cache(case: RuleContext) -> Advice | None:
    """Requests wait although nothing here holds them: their KV cache is still on its way.

    Needs a KV connector in the log, and statistics lines in which requests wait with max_num_seqs and cache free while this
    engine computes no prompt.
    """
    held = [span for span in case.spans("none-clear") if span.waits and span.sample.generation > 0]
    if len(held) < LEAST_LINES or not _has_connector(case):
        return None
    if case.load.share_of(held) < LEAST_SHARE:
        return None
    waiting = max(span.sample.waiting or 0 for span in held)
    text = (
        f"{case.load.extent_of(held).capitalize()} up to"
        f" {plural(waiting, 'request')} waited although max_num_seqs slots and KV cache were free, and this engine computed no prompt:"
        " their KV cache comes from elsewhere through the connector. They wait for the engine that computes it, or for"
        f" the transfer.{_transfer_time(case)}"
    )
    return Advice(
        text,
        (
            *sample_lines(case, held),
            *(line.evidence for line in case.run.transfers[:1]),
            *setting_lines(case, "kv_transfer_config"),
        ),
        confidence="medium",
        changes=(
            action(
                "look at the logs of the engines that compute the prompts: where requests wait there, prefill is short"
                " of engines; where none wait, the transfer is slow (NIXL or NCCL over TCP instead of RDMA)"
            ),
        ),
        alternatives=("another share of prefill and decode engines",),
        avoid="Settings of capacity here (--max-num-seqs, --gpu-memory-utilization): slots and cache are free.",
        verify="`Waiting` near 0 here at the same load, `Avg xfer time` no longer than before.",
    )


def remote_cache_never_hits(case: RuleContext) -> Advice | None:
    """A KV store outside the engine is asked for every prompt and never has any of it.

    Needs printed hit rates of the external cache, all of them 0, over a real load.
    """
    asked = [span for span in case.load.busy if span.sample.external_hit is not None]
    if len(asked) < LEAST_LINES or sum(span.seconds for span in asked) < LONG_ENOUGH:
        return None
    if any(span.sample.external_hit for span in asked) or not any(span.sample.prompt > 0 for span in asked):
        return None
    if computes_for_others(case.run):
        # It computes for others and takes nothing back.
        return None
    text = (
        f"The KV store behind the connector was asked in all {len(asked)} statistics lines that print its hit rate, and"
        " gave nothing (0 %). Each prompt is stored there all the same. Either prompts do not share prefixes, or what is"
        " stored is not found again: another model name or cache key, a chunk size longer than what prompts share, a store"
        " that is too small, or prompts that the prefix cache on the card answers already."
    )
    return Advice(
        text,
        (*sample_lines(case, asked[-1:]), *setting_lines(case, "kv_transfer_config")),
        confidence="medium",
        changes=(
            action("send one long prompt twice and look for a hit; without one, run without the connector"),
        ),
        verify="`External prefix cache hit rate` above 0 %, or no such figure.",
    )


def _has_connector(case: RuleContext) -> bool:
    configured: Any = case.run.setting("kv_transfer_config")
    asked = any(span.sample.external_hit is not None for span in case.load.spans)
    return configured not in (None, "None", {}) or bool(case.run.transfers) or asked


def _transfer_time(case: RuleContext) -> str:
    times = [line.figures[TRANSFER_TIME] for line in case.run.transfers if TRANSFER_TIME in line.figures]
    if not times:
        return ""
    return f" Transfers that ended took {rounded(sum(times) / len(times))} ms in the mean."


RULES = (
    Rule("requests-wait-for-remote-cache", requests_wait_for_remote_cache),
    Rule("remote-cache-never-hits", remote_cache_never_hits),
)
