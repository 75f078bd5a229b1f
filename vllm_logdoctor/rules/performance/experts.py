"""Rules on experts that are spread over cards: how tokens travel to them, and how evenly they are loaded."""

from __future__ import annotations

from vllm_logdoctor.events import Event
from vllm_logdoctor.knowledge.variables import variable_known
from vllm_logdoctor.rules.context import (
    RuleContext,
    action,
    flag,
    last_line,
    message_lines,
    plural,
    sample_lines,
    setting_lines,
)
from vllm_logdoctor.rules.model import Change, Effect
from vllm_logdoctor.rules.rule import Advice, Rule

GRAPHS_OFF = (
    "deepep-disabling-cuda-graphs-since-deepep-high",
    "wideep-disabling-cuda-graphs-since-deepep-high",
    "data-parallel-disabling-cudagraphs-since-dp-deepep",
    "data-parallel-forcing-enforce-eager-true-since",
    "data-parallel-deepep-high-throughput-using-piecewise",
)
PREFILL_KERNELS, DECODE_KERNELS = "deepep_high_throughput", "deepep_low_latency"

BALANCE = "eplb-step-model-avg-tokens-max-tokens"
# The fullest card sets the pace of a step; below this share the others wait for most of it.
LEAST_BALANCED = 0.5
# With few tokens in a step the experts can't be loaded evenly, wherever they are.
LEAST_TOKENS = 64.0

REARRANGED = ("rearranged-experts-s", "rearranged-expertsin-seconds")
# Below this share of the time with requests, moving experts is not worth a change.
LEAST_SHARE = 0.01


def graphs_off_for_expert_exchange(case: RuleContext) -> Advice | None:
    """DeepEP's high-throughput kernels switch CUDA graphs off.

    Needs the engine's line that says so, on an engine that decodes: silent for one that only computes prompts for others,
    and where prompts are most of the work.
    """
    event = case.event(*GRAPHS_OFF)
    if event is None or _computes_prompts(case):
        return None
    text = (
        "Tokens travel to their experts by DeepEP's high-throughput kernels, which are made for prompts and can't be captured:"
        " decode steps launch every kernel by itself. DeepEP's low-latency kernels can be captured and are made for decoding."
    )
    return Advice(
        text,
        (*message_lines(case, *GRAPHS_OFF), *setting_lines(case, "all2all_backend")),
        confidence="high",
        changes=_exchange_change(case)
        or (action(f"{DECODE_KERNELS} as the all-to-all backend, in the words of your release"),),
        alternatives=("prompts and answers on engines of their own, each with its kernels",),
        verify="`Using DeepEPLLAll2AllManager all2all manager` and `Graph capturing finished in N secs` at the start.",
    )


def experts_unbalanced(case: RuleContext) -> Advice | None:
    """The fullest card gets more than twice the tokens of the average one.

    Needs the balance lines of EPLB (log_balancedness), all that are kept below a half, in steps of many tokens.
    """
    seen = case.run.seen(BALANCE)
    if seen is None or seen.last is None or not all(_unbalanced(event) for event in (*seen.first, seen.last)):
        return None
    balance = seen.last.number("balancedness") or 0.0
    text = (
        f"Experts are loaded unevenly: the fullest card has {1 / balance if balance else 0:.2g} times the tokens of the"
        f" average one (balancedness {balance:.2g}), and the others wait for it in every layer."
    )
    return Advice(
        text,
        (*last_line(case, BALANCE), *message_lines(case, BALANCE)),
        confidence="low",
        changes=(
            action(
                "more copies of the busiest experts: num_redundant_experts of EPLB; they take memory on every card"
            ),
        ),
        alternatives=("a smaller step_interval of EPLB, where the traffic changes faster than experts move",),
        verify="`balancedness=` nearer to 1 at the same load.",
    )


def expert_rebalancing_stalls(case: RuleContext) -> Advice | None:
    """Experts are moved so often or so slowly that it takes a part of the time. Needs EPLB's lines and a load."""
    times = [
        seconds
        for name in REARRANGED
        if (seen := case.run.seen(name)) is not None
        for event in seen.first
        if (seconds := _moving_seconds(event)) is not None
    ]
    moves = _moves(case)
    if not times or not moves or not case.load.busy_seconds:
        return None
    spent = moves * sum(times) / len(times)
    share = spent / case.load.busy_seconds
    if not LEAST_SHARE <= share < 1:
        return None
    text = (
        f"EPLB moved experts {plural(moves, 'time')}, about {sum(times) / len(times):.3g} s each: requests wait meanwhile,"
        f" about {100 * share:.2g} % of the time with requests."
    )
    return Advice(
        text,
        (*message_lines(case, *REARRANGED), *sample_lines(case, case.load.busy[:1])),
        confidence="medium",
        changes=(action("a larger step_interval of EPLB, or use_async where the release has it"),),
        effect=Effect(
            "generation_throughput",
            1.0,
            round(1 / (1 - share), 3),
            "computed",
            f"{moves} x {sum(times) / len(times):.3g} s of {case.load.busy_seconds:.0f} s, if all of it is saved",
        ),
        verify="fewer `Rearranged experts` lines in the same time.",
    )


def _computes_prompts(case: RuleContext) -> bool:
    transfer = case.run.setting("kv_transfer_config")
    if isinstance(transfer, dict) and transfer.get("kv_role") == "kv_producer":
        return True
    return case.load.is_mostly_prompts


def _exchange_change(case: RuleContext) -> tuple[Change, ...]:
    change = flag(case, "--all2all-backend", PREFILL_KERNELS, DECODE_KERNELS, "needs-test")
    if change:
        return change
    if variable_known("VLLM_ALL2ALL_BACKEND", case.version):
        return (Change("VLLM_ALL2ALL_BACKEND", "env", PREFILL_KERNELS, DECODE_KERNELS, "needs-test"),)
    return ()


def _unbalanced(event: Event) -> bool:
    balance, tokens = event.number("balancedness"), event.number("avg_tokens")
    return balance is not None and 0 < balance < LEAST_BALANCED and (tokens or 0.0) >= LEAST_TOKENS


def _moving_seconds(event: Event) -> float | None:
    """Return how long experts were moved while serving; the trial run at the start says "(profile)"."""
    if "profile" in event.record.message:
        return None
    return event.number("gpu_elapsed") or event.number("time_end")


def _moves(case: RuleContext) -> int:
    """Return how often experts were moved while serving, as the first rank logs it."""
    seen = [found for name in REARRANGED if (found := case.run.seen(name)) is not None]
    trials = sum("profile" in event.record.message for found in seen for event in found.first)
    return max(sum(found.count for found in seen) - trials, 0)


RULES = (
    Rule("graphs-off-for-expert-exchange", graphs_off_for_expert_exchange, objectives=("latency",)),
    Rule("experts-unbalanced", experts_unbalanced),
    Rule("expert-rebalancing-stalls", expert_rebalancing_stalls, objectives=("latency",)),
)
