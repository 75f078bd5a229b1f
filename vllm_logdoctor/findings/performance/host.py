"""Rules on what the processor of the host does for a card: processes, text, images, asynchronous steps."""

from __future__ import annotations

from vllm_logdoctor.findings.bottleneck import ranks_of, runs_on_cpu
from vllm_logdoctor.findings.model import Change, Finding
from vllm_logdoctor.findings.performance.case import (
    Case,
    action,
    finding,
    flag,
    message_lines,
    sample_lines,
    setting_lines,
)
from vllm_logdoctor.knowledge.flags import flag_for_field

# The API server and the engine core are busy beside one worker for each card (vLLM's own documentation).
PROCESSES_BESIDE_WORKERS = 2
SLOW_TOKENIZER = "using-slow-tokenizer-cause-significant-slowdown-consider"
# Images are the load when prompts come in at this many times the rate of answers, with few requests at once.
PROMPTS_DOMINATE = 5.0
FEW = 4
LONG_ENOUGH = 60.0


def few_processor_cores(case: Case) -> Finding | None:
    """The host has fewer cores than vLLM has busy processes.

    Needs the line with PyTorch's number of threads, of a run on cards.
    """
    event, run = case.event("torch-threads-reduced"), case.run
    cores = event.number("before") if event else None
    ranks = ranks_of(run)
    wanted = ranks + PROCESSES_BESIDE_WORKERS
    if cores is None or runs_on_cpu(run) or run.platform not in ("cuda", "rocm") or cores >= wanted:
        return None
    slow = case.bottleneck.name == "host-limited"
    text = (
        f"PyTorch found {cores:g} cores in this job. API server, engine core and {ranks} worker"
        f"{'s' if ranks > 1 else ''} each keep one busy: {wanted} are the least. With fewer they take turns, and the"
        " cards wait meanwhile; steps with few requests suffer most."
    )
    return finding(
        case,
        "few-processor-cores",
        "high" if slow else "low",
        "medium",
        text,
        message_lines(case, "torch-threads-reduced"),
        changes=(
            action(
                f"ask for at least {wanted} cores for the job or container (ncpus, --cpus-per-task, --cpus, limits.cpu)",
                before=int(cores),
                after=wanted,
            ),
        ),
        verify=f"`Reducing Torch parallelism from N threads` with N of {wanted} or more.",
    )


def slow_tokenizer(case: Case) -> Finding | None:
    """Text is split by Python code. Needs the warning that says so."""
    if case.event(SLOW_TOKENIZER) is None:
        return None
    asked = case.run.arguments.get("tokenizer_mode") == "slow"
    text = (
        "The tokenizer runs in Python: long prompts keep the API server's process busy before the engine sees them, and"
        " each token of an answer is turned into text the same way."
        + (" An argument asked for it." if asked else " The checkpoint has no fast tokenizer.")
    )
    changes = (
        flag(case, "--tokenizer-mode", "slow", None, "needs-test", "compare some answers") if asked else ()
    )
    return finding(
        case,
        "slow-tokenizer",
        "low",
        "medium",
        text,
        message_lines(case, SLOW_TOKENIZER),
        changes=changes
        or (action("a checkpoint with tokenizer.json, or convert the tokenizer with Transformers"),),
        verify="no such warning at the start.",
    )


def multimodal_preprocessing(case: Case) -> Finding | None:
    """Images or sound are most of a load that does not fill the engine.

    Needs the hit rate of the multimodal cache in statistics lines, prompts as most of the work, and no queue.
    """
    load = case.load
    shown = [span for span in load.busy if span.sample.mm_hit is not None]
    if case.bottleneck.name != "client-limited" or load.busy_seconds < LONG_ENOUGH or not shown:
        return None
    if load.running > FEW or load.prompt <= PROMPTS_DOMINATE * max(load.generation, 1.0):
        return None
    text = (
        f"Requests carry images, video or sound (multimodal cache hit rate {shown[-1].sample.mm_hit:g} %), prompts are"
        f" most of the work ({load.prompt:,.0f} prompt tokens/s, {load.generation:,.3g} generated), and only"
        f" {load.running:.0f} at a time reached the engine. Decoding and resizing happen in the API server's process"
        " before the engine counts a request: if the client sends more than that, its processor is the limit. The log"
        " does not tell the two apart."
    )
    return finding(
        case,
        "multimodal-preprocessing-bound",
        "low",
        "low",
        text,
        sample_lines(case, shown),
        changes=(
            action("look at the API server's process under load (top -H): one core at 100 % is this limit"),
        ),
        alternatives=(
            *(("more API server processes: --api-server-count",) if _has(case, "api_server_count") else ()),
            "smaller images before they are sent, or fewer pixels by --mm-processor-kwargs",
        ),
        verify="`Running` and `Avg prompt throughput` rise at the same number of clients.",
    )


def async_scheduling_off(case: Case) -> Finding | None:
    """Asynchronous scheduling was switched off by hand. Needs the argument."""
    if case.run.engine != "V1" or case.run.arguments.get("async_scheduling") is not False:
        return None
    if _default(case, "async_scheduling") is False:
        return None
    change: tuple[Change, ...] = flag(case, "--async-scheduling", False, None, "needs-test")
    text = (
        "Asynchronous scheduling is off by an argument: between two steps the card waits until the next one is"
        " prepared. One measured pair had 0.89 times the 95th percentile of latency with it."
    )
    return finding(
        case,
        "async-scheduling-off",
        "low",
        "low",
        text,
        (*setting_lines(case, "async_scheduling"), *message_lines(case, "async-scheduling")),
        changes=change,
        verify="`Asynchronous scheduling is enabled.` at the start.",
    )


def _has(case: Case, field: str) -> bool:
    return flag_for_field(field, case.version) is not None


def _default(case: Case, field: str) -> object:
    known = flag_for_field(field, case.version)
    return known.default if known else False
