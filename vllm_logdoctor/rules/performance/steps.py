"""Rules on single steps: an engine that makes no progress, and steps far slower than their memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from vllm_logdoctor.rules.capacity.memory import GIB
from vllm_logdoctor.rules.context import (
    RuleContext,
    action,
    message_lines,
    plural,
    sample_lines,
    setting_lines,
)
from vllm_logdoctor.rules.limits import KV_FULL, SLOW_CARD
from vllm_logdoctor.rules.load import Span, rate_each
from vllm_logdoctor.rules.performance.order import CLIENTS_OWN
from vllm_logdoctor.rules.placement import SLOWEST_READING, host_of, ranks_of, reading_rate, runs_on_cpu
from vllm_logdoctor.rules.rule import Advice, Rule
from vllm_logdoctor.rules.stalls import Silence, silence_behind, stalled
from vllm_logdoctor.rules.tasks import pools
from vllm_logdoctor.run.clock import duration
from vllm_logdoctor.run.metrics import offline_batches
from vllm_logdoctor.run.model import Evidence

# What makes steps slow by itself, and has a rule that says so.
_SAID_ELSEWHERE = ("quantization-emulated", "quantization-not-optimized")
LEAST_LINES = 2
LONG_CALL = 60.0
"""Seconds of an offline engine's call from which its first steps, in which kernels are compiled, are not most of it."""
BEHIND_THE_CLIENT = CLIENTS_OWN - 0.01
"""Worth of slow steps where the client sets the pace of the run as a whole."""
VERY_SLOW = "Very slow decode steps"
"""Title where the log does not show the device, so that its memory bandwidth is not known."""


def engine_makes_no_progress(case: RuleContext) -> Advice | None:
    """Requests run or wait and nothing moves.

    Needs statistics lines of half a minute without a token, without a prompt, with one KV usage, of a run on cards:
    on a processor one step of a long prompt can take so long. A last line without a token is as good where the engine says behind
    it that it waits for its workers, where running requests fail long after it, or where none of the waiting requests runs at
    either end of its interval.
    """
    if runs_on_cpu(case.run):
        return None
    places = stalled(case.run, case.load.spans)
    still = [span for span in case.load.spans if (span.sample.file, span.sample.line) in places]
    if not still:
        return None
    last = still[-1].sample
    ends = case.load.busy[-1].sample is last
    silence = silence_behind(case.run, case.load.spans)
    seconds = sum(span.seconds for span in still) + (silence.seconds if silence else 0.0)
    present = plural(last.running or last.waiting or 0, "request")
    state = f"{present} ran" if last.running else f"up to {present} waited, none ran"
    text = (
        f"For {duration(seconds)}, {state} and nothing moved: no prompt, no token, KV usage at {last.kv_usage or 0.0:g} %."
        f"{_behind(silence, ends)} {_NO_STEP if last.running else _NOT_SCHEDULED}"
    )
    lines = (case.run.evidence(silence.record),) if silence else ()
    return Advice(
        text,
        (*sample_lines(case, still), *lines),
        confidence="high" if ends and last.running and not (silence and silence.failed) else "medium",
        title="" if last.running else "Engine stalled: requests wait and none runs",
        changes=(
            action(
                "take the stack of the engine core and of each worker while it hangs: `py-spy dump --pid PID`",
                "shows what the step waits for",
            ),
        ),
        alternatives=(
            "the output of the workers, `dmesg -T` and the driver's log of the time at which the tokens stop",
            "VLLM_LOGGING_LEVEL=DEBUG and NCCL_DEBUG=INFO before the next start",
        ),
        verify="`Avg generation throughput` above 0 in every line with `Running` above 0.",
    )


_NO_STEP = (
    "KV cache usage did not change either, which it does while a long prompt is computed: no step ended. Usual causes: a collective"
    " that waits for a rank, a kernel that"
    " hangs or is being compiled, a grammar that is being built."
)
_NOT_SCHEDULED = "Why the engine ran none of them is not in the log."


def _behind(silence: Silence | None, ends: bool) -> str:
    """Return what the log shows behind the lines without progress."""
    if silence is not None and silence.failed:
        took = duration(silence.seconds)
        return f" No statistics line follows for {took}; then a running request fails with an error that the engine gave it."
    return " No later statistics line shows a token." if ends else " Later lines show tokens again."


def steps_slower_than_memory(case: RuleContext) -> Advice | None:
    """Requests get fewer tokens per second each than any card reads its memory, at any load.

    Needs such statistics lines, with no prompts in between and none under way, of a run that is not on the
    CPU backend: below 1.5 tokens/s, or below 2.5 with up to 256 requests in at most half of the cache, or where
    weights and cache that a step reads make less than 100 GB/s. Below a fifth of the busy time they are no finding.
    Without statistics lines the longest call of an offline engine shows the same by its output tokens.
    """
    if _has_a_reason(case):
        return None
    held = slow_steps(case)
    if not held:
        return _slow_call(case)
    rate = max(rate_each(span.sample) for span in held)
    most = plural(max(span.sample.running or 0 for span in held), "request")
    extent = case.load.extent_of(held).capitalize()
    text = (
        f"{extent} at most {most} ran and each got at most"
        f" {rate:.3g} tokens/s: a step took {1 / rate:.2g} s or more."
    )
    lines = (
        *sample_lines(case, held),
        *setting_lines(case, "enforce_eager", "tensor_parallel_size"),
        *message_lines(case, "custom-allreduce-disabled"),
    )
    return _of_slow_steps(case, text + _read(case, held), lines)


def _of_slow_steps(case: RuleContext, text: str, lines: tuple[Evidence, ...]) -> Advice:
    """Return the finding on slow steps with what is to be said of all of them: causes that the log does not tell, and how to find them."""
    limits = case.bottleneck.name == "host-limited"
    engine = "server" if case.run.engine == "V0" else "engine core"
    text += (
        " No GPU needs that long to read the weights and the KV cache of one step; what takes the time is not in the log. Usual causes:"
        f"{' the CPU backend,' if case.run.platform is None else ''} kernels"
        " that are not made for this card or format, too few CPU cores for the engine's processes (a container's CPU limit,"
        " other jobs), weights or cache outside the card's memory, another program on the card, low clocks of the card"
        f"{', slow links between the ranks' if ranks_of(case.run) > 1 else ''}."
    )
    return Advice(
        text,
        lines,
        confidence="medium" if limits else "low",
        severity=None if limits else "medium",
        title=VERY_SLOW if case.run.platform is None else "",
        changes=(
            action(
                f"profile the {engine} and the workers while a request runs: top -H (one core at 100 %, or waiting?)"
                f"{_CARD_TOOLS.get(case.run.platform, '')}"
            ),
            action(
                "give each engine process and each worker its own CPU core (check the container's CPU limit)"
            ),
        ),
        avoid=""
        if case.load.peak_kv >= KV_FULL or not case.load.busy
        else "Raising capacity (--max-num-seqs, --gpu-memory-utilization): no request waits.",
        verify="more tokens/s with the same number of requests running.",
    )


_CARD_TOOLS = {
    "cuda": " and nvidia-smi dmon -s pucvt (power, clocks, PCIe traffic)",
    None: " and, on NVIDIA cards, nvidia-smi dmon -s pucvt (power, clocks, PCIe traffic)",
}


def _slow_call(case: RuleContext) -> Advice | None:
    """Return the finding on a call of an offline engine whose prompts together got fewer tokens/s than any card reads the weights.

    Each step makes a token at least, however many prompts run at once. Needs a complete bar of a minute that counts no more tokens of
    prompts than of answers, so that steps which compute prompts are not what takes the time.
    """
    run = case.run
    calls = [one for one in offline_batches(run) if one.seconds and one.done == one.total]
    longest = max(calls, key=lambda one: one.seconds or 0.0, default=None)
    if longest is None or case.load.busy or runs_on_cpu(run) or pools(run):
        return None
    seconds, rate = longest.seconds or 0.0, longest.output or 0.0
    read = rate * (run.measure("model_weights_gib") or inf) * GIB / 1e9
    slow = rate < SLOW_CARD or read < SLOWEST_READING
    if seconds < LONG_CALL or not rate or (longest.input or 0.0) > rate or not slow:
        return None
    text = (
        f"{plural(longest.done, 'prompt')} took {duration(seconds)} at {rate:.3g} output tokens/s in all. Each step makes at least one"
        f" token: a step took {1 / rate:.2g} s or more in the mean."
    )
    text += f" Weights are read at {read:.3g} GB/s at most." if read < SLOWEST_READING else ""
    lines = (longest.evidence, *setting_lines(case, "model_weights_gib", "enforce_eager"))
    return _of_slow_steps(case, text, lines)


def slow_steps(case: RuleContext) -> tuple[Span, ...]:
    """Return the lines whose requests get tokens more slowly than any card reads what a step needs; empty below a fifth of the time."""
    held = case.spans("host-limited")
    if runs_on_cpu(case.run) or case.bottleneck.name not in ("host-limited", "client-limited"):
        return ()
    brief = len(held) < LEAST_LINES or case.is_brief("host-limited")
    return () if brief and case.bottleneck.name == "client-limited" else held


def _read(case: RuleContext, held: Sequence[Span]) -> str:
    """Return at which rate the steps read memory, in words; an empty text where the log does not tell it."""
    host = host_of(case.run)
    fastest = max(reading_rate(span.sample, host) for span in held)
    return f" Weights and cache are read at {fastest:.3g} GB/s at most." if fastest < SLOWEST_READING else ""


def _has_a_reason(case: RuleContext) -> bool:
    offloaded = case.run.setting("cpu_offload_gb")
    return (
        bool(offloaded)
        or str(case.run.setting("quantization") or "").lower() == "gguf"
        or case.event(*_SAID_ELSEWHERE) is not None
    )


RULES = (
    Rule("engine-makes-no-progress", engine_makes_no_progress, removes="none-clear"),
    Rule(
        "steps-slower-than-memory",
        steps_slower_than_memory,
        removes="host-limited",
        worth=lambda case, worth: (
            worth if case.bottleneck.name == "host-limited" else min(worth, BEHIND_THE_CLIENT)
        ),
    ),
)
