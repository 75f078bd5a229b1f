"""Rules on what the processor of the host does for a card: processes, text, asynchronous steps."""

from __future__ import annotations

from vllm_logdoctor.knowledge.flags import flag_for_field
from vllm_logdoctor.rules.context import RuleContext, action, flag, message_lines, plural, setting_lines
from vllm_logdoctor.rules.model import Change
from vllm_logdoctor.rules.placement import ranks_of, runs_on_cpu
from vllm_logdoctor.rules.rule import Advice, Rule

# The API server and the engine core are busy beside one worker for each card; a single worker runs inside the engine core.
PROCESSES_BESIDE_WORKERS = 2
SLOW_TOKENIZER = "using-slow-tokenizer-cause-significant-slowdown-consider"


def few_processor_cores(case: RuleContext) -> Advice | None:
    """The host has fewer cores than vLLM has busy processes.

    Needs the line with PyTorch's number of threads, of a run on cards.
    """
    event, run = case.event("torch-threads-reduced"), case.run
    cores = event.number("before") if event else None
    ranks = ranks_of(run)
    # The executor of several processes has a line of its own.
    apart = event is not None and "Torch parallelism" in event.record.message
    workers = ranks if ranks > 1 or apart else 0
    wanted = workers + PROCESSES_BESIDE_WORKERS
    if cores is None or runs_on_cpu(run) or run.platform not in ("cuda", "rocm") or cores >= wanted:
        return None
    slow = case.bottleneck.name == "host-limited"
    processes = (
        f"API server, engine core and {plural(workers, 'worker')}"
        if workers
        else "API server and engine core"
    )
    line = "Reducing Torch parallelism from N threads" if apart else "Reducing Torch threads from N"
    text = (
        f"PyTorch found {plural(int(cores), 'core')} in this job. {processes} each keep one core busy: at least {wanted} are needed."
        " With fewer they take turns and the cards wait; steps with few requests suffer most."
    )
    return Advice(
        text,
        message_lines(case, "torch-threads-reduced"),
        confidence="medium",
        severity="high" if slow else None,
        changes=(
            action(
                f"ask for at least {wanted} cores for the job or container (ncpus, --cpus-per-task, --cpus, limits.cpu)",
                before=int(cores),
                after=wanted,
            ),
        ),
        verify=f"`{line}` with N of {wanted} or more.",
    )


def slow_tokenizer(case: RuleContext) -> Advice | None:
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
    return Advice(
        text,
        message_lines(case, SLOW_TOKENIZER),
        confidence="medium",
        changes=changes
        or (action("a checkpoint with tokenizer.json, or convert the tokenizer with Transformers"),),
        verify="no such warning at the start.",
    )


def async_scheduling_off(case: RuleContext) -> Advice | None:
    """Asynchronous scheduling was switched off by hand. Needs the argument."""
    if case.run.engine != "V1" or case.run.arguments.get("async_scheduling") is not False:
        return None
    if _default(case, "async_scheduling") is False:
        return None
    change: tuple[Change, ...] = flag(case, "--async-scheduling", False, None, "needs-test")
    text = (
        "Asynchronous scheduling is off by an argument: between two steps the card waits until the next one is"
        " prepared. Switching it on lowered the 95th percentile of latency by 11 % in the one pair that was measured."
    )
    return Advice(
        text,
        (*setting_lines(case, "async_scheduling"), *message_lines(case, "async-scheduling")),
        confidence="low",
        changes=change,
        verify="`Asynchronous scheduling is enabled.` at the start.",
    )


def _default(case: RuleContext, field: str) -> object:
    known = flag_for_field(field, case.version)
    return known.default if known else False


RULES = (
    Rule("few-processor-cores", few_processor_cores),
    Rule("slow-tokenizer", slow_tokenizer),
    Rule("async-scheduling-off", async_scheduling_off),
)
