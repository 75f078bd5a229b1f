"""Rules on single steps: an engine that makes no progress, and steps far slower than their memory."""

from __future__ import annotations

from vllm_logdoctor.rules.context import (
    RuleContext,
    action,
    message_lines,
    plural,
    sample_lines,
    setting_lines,
)
from vllm_logdoctor.rules.limits import runs_on_cpu
from vllm_logdoctor.rules.load import Span, minutes
from vllm_logdoctor.rules.rule import Advice, Rule
from vllm_logdoctor.rules.stalls import stalled

# What makes steps slow by itself, and has a rule that says so.
_SAID_ELSEWHERE = ("quantization-emulated", "quantization-not-optimized")


def engine_makes_no_progress(case: RuleContext) -> Advice | None:
    """Requests run and nothing moves.

    Needs statistics lines of half a minute without a token, without a prompt, with one KV usage, of a run on cards:
    on a processor one step of a long prompt can take so long.
    """
    if runs_on_cpu(case.run):
        return None
    places = stalled(case.load.spans)
    still = [span for span in case.load.spans if (span.sample.file, span.sample.line) in places]
    if not still:
        return None
    last = still[-1].sample
    ends = case.load.busy[-1].sample is last
    text = (
        f"For {minutes(sum(span.seconds for span in still))} {plural(last.running or 0, 'request')} ran without"
        f" progress: no prompt, no token, KV usage at {last.kv_usage or 0.0:g} % throughout. A long prompt would"
        " take cache with every chunk; here a step does not end: a collective waits for a rank, a kernel hangs or"
        " is being compiled, or a grammar is being built."
        + (" The log ends in this state." if ends else " Later lines show tokens again.")
    )
    return Advice(
        text,
        sample_lines(case, still),
        confidence="high" if ends else "medium",
        changes=(
            action(
                "py-spy dump --pid of the engine core and of each worker while it hangs",
                "shows what the step waits for",
            ),
        ),
        alternatives=("VLLM_LOGGING_LEVEL=DEBUG and NCCL_DEBUG=INFO before the next start",),
        avoid="Raising --max-num-seqs or memory settings: the queue grows because no request completes.",
        verify="`Avg generation throughput` above 0 in every line with `Running` above 0.",
    )


def steps_slower_than_memory(case: RuleContext) -> Advice | None:
    """Requests get fewer tokens per second each than any card reads its memory.

    Needs such statistics lines in a row, with no prompts in between and none under way, of a run that is not on the
    CPU backend: below 1.5 tokens/s, or below 2.5 with up to 256 requests in at most half of the cache.
    """
    held = case.spans("host-limited")
    if case.bottleneck.name != "host-limited" or not held or runs_on_cpu(case.run) or _has_a_reason(case):
        return None
    rate = max(_rate(span) for span in held)
    most = plural(max(span.sample.running or 0 for span in held), "request")
    text = (
        f"For {minutes(case.seconds('host-limited'))} at most {most} ran and each got no more than"
        f" {rate:.2g} tokens/s: a step took {1 / rate:.2g} s or more."
        if rate
        else f"For {minutes(case.seconds('host-limited'))} at most {most} ran and got no tokens."
    )
    text += (
        " No GPU needs that long to read its memory, so the step waits"
        " for something that is not in the log. Usual causes: too few CPU cores for the engine's processes (a"
        " container's CPU limit, other jobs), weights or cache outside the card's memory, another program on the card,"
        " low GPU clocks, or with several ranks slow links between them."
    )
    return Advice(
        text,
        (
            *sample_lines(case, held),
            *setting_lines(case, "enforce_eager", "tensor_parallel_size"),
            *message_lines(case, "custom-allreduce-disabled"),
        ),
        confidence="medium",
        changes=(
            action(
                "profile the engine core and the workers while a request runs: top -H (one core at 100 %, or waiting?)"
                " and nvidia-smi dmon -s pucvt (clocks, power, use by others)"
            ),
            action(
                "give each engine process and each worker its own CPU core (check the container's CPU limit)"
            ),
        ),
        avoid="Raising capacity (--max-num-seqs, --gpu-memory-utilization): no request waits.",
        verify="more tokens/s for a single request.",
    )


def _has_a_reason(case: RuleContext) -> bool:
    offloaded = case.run.setting("cpu_offload_gb")
    return (
        bool(offloaded)
        or str(case.run.setting("quantization") or "").lower() == "gguf"
        or case.event(*_SAID_ELSEWHERE) is not None
    )


def _rate(span: Span) -> float:
    return span.sample.generation / (span.sample.running or 1)


RULES = (
    Rule("engine-makes-no-progress", engine_makes_no_progress, removes="none-clear"),
    Rule("steps-slower-than-memory", steps_slower_than_memory, removes="host-limited"),
)
