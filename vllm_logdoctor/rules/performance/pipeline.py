"""Rule on pipeline stages that wait for each other because there are fewer requests than stages."""

from __future__ import annotations

from vllm_logdoctor.rules.context import (
    RuleContext,
    action,
    flag,
    plural,
    sample_lines,
    setting_lines,
    whole,
)
from vllm_logdoctor.rules.limits import CARDS_OF_A_MACHINE, ranks_of, runs_on_cpu
from vllm_logdoctor.rules.model import Change
from vllm_logdoctor.rules.performance.parallelism import slow_links
from vllm_logdoctor.rules.rule import Advice, Rule

LONG_ENOUGH = 60.0


def pipeline_stages_idle(case: RuleContext) -> Advice | None:
    """Fewer requests run than there are pipeline stages.

    Needs the number of stages, and statistics lines of a minute or more.
    """
    stages, load = whole(case.run.setting("pipeline_parallel_size")) or 1, case.load
    if (
        stages < 2
        or runs_on_cpu(case.run)
        or load.busy_seconds < LONG_ENOUGH
        or not 1 <= load.running < stages
    ):
        return None
    running = round(load.running)
    text = (
        f"{plural(running, 'request')} running in the median, and the layers are split over"
        f" {stages} stages: a token passes them in turn, so that at most {running} of {stages} work at any moment and"
        " the others wait. Pipeline parallelism gives memory for a large model; it gives speed only with more requests than"
        " stages."
    )
    return Advice(
        text,
        (*setting_lines(case, "pipeline_parallel_size"), *sample_lines(case, load.busy)),
        confidence="medium",
        changes=_ranks_instead(case, stages),
        alternatives=(f"{stages} or more requests at once, where the load has them",),
        avoid="Settings of capacity (--max-num-seqs, --gpu-memory-utilization): nothing waits.",
        verify="more generated tokens/s for the same number of requests.",
    )


def _ranks_instead(case: RuleContext, stages: int) -> tuple[Change, ...]:
    ranks = whole(case.run.setting("tensor_parallel_size")) or 1
    joined = ranks * stages
    if slow_links(case) or ranks_of(case.run) > CARDS_OF_A_MACHINE:
        # Ranks that exchange in every layer are worse on such links than stages that exchange once.
        return (action("fewer cards with quantized weights, where the model then fits them"),)
    note = "where the cards are linked by NVLink; the model's heads must divide by the ranks"
    return (
        *flag(case, "--tensor-parallel-size", ranks, joined, "needs-test", note),
        *flag(case, "--pipeline-parallel-size", stages, 1, "needs-test"),
    )


RULES = (Rule("pipeline-stages-idle", pipeline_stages_idle),)
