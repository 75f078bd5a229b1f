"""Rule on requests that are refused because prompt and answer are longer than --max-model-len."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_logdoctor.rules.capacity.memory import memory_of
from vllm_logdoctor.rules.context import RuleContext, action, flag, plural, setting_lines
from vllm_logdoctor.rules.model import Change
from vllm_logdoctor.rules.performance.long_answers import refused_behind
from vllm_logdoctor.rules.performance.refused import Refused, refused_requests
from vllm_logdoctor.rules.rule import Advice, Rule

LEAST_REFUSED = 2
FREE = 0.98
"""Share of the cache that a longest request may take: a start plans a little less at times."""
_SENT_BACK = "an answer that ran to the end of the context: a limit on the answers (max_tokens) probably prevents this too."
_FITS = "the prompt fits, but not with the answer that the client asked for"
_TOGETHER = "prompt and requested answer together exceed it; vLLM counted the prompt no further"


def requests_beyond_context(case: RuleContext) -> Advice | None:
    """Requests are refused for their length.

    Needs several errors of that kind with the tokens that were asked for.
    """
    refused = refused_requests(case.run)
    if len(refused) < LEAST_REFUSED:
        return None
    limit = refused[-1].limit
    long_answers = [one for one in refused if not one.is_prompt_alone]
    prompts = [one for one in refused if one.is_prompt_alone]
    changes: list[Change] = []
    text = f"{plural(len(refused), 'request')} asked for more than the {limit:,} tokens of --max-model-len and got an error."
    if long_answers:
        text += (
            f" In {_of(long_answers, refused)} {_FITS if all(one.counted for one in long_answers) else _TOGETHER}:"
            f" {_tokens(long_answers[0])}."
        )
        changes.append(action("set max_tokens to at most the context less the prompt, or leave it out"))
    if prompts:
        raised, words = _raised(case, limit, [one for one in prompts if one.counted])
        text += f" In {_of(prompts, refused)} the prompt alone is too long.{words}"
        grown = refused_behind(case)
        if grown:
            text += f" {_of(grown, refused).capitalize()} came shortly after {_SENT_BACK}"
        if len(grown) < len(prompts):
            changes += raised or (action("shorten or split the prompts in the client before they are sent"),)
    return Advice(
        text,
        (refused[0].line, refused[-1].line, *setting_lines(case, "max_model_len")),
        confidence="high",
        changes=changes,
        avoid="Setting VLLM_ALLOW_LONG_MAX_MODEL_LEN: positions that the model was not trained for give wrong answers or a crash.",
        verify="no further `maximum context length` errors, and no answers with 400.",
    )


def _tokens(one: Refused) -> str:
    at_least = "" if one.counted else "at least "
    return f"{at_least}{one.prompt:,} + {one.answer:,} tokens"


def _of(part: Sequence[Refused], whole: Sequence[Refused]) -> str:
    """Return how many of the refused requests some are, in words.

    Example:
        >>> _of([1, 2], [1, 2]), _of([1], [1, 2])
        ('all 2', '1')
    """
    return f"all {len(part):,}" if len(part) == len(whole) else f"{len(part):,}"


def _raised(case: RuleContext, limit: int, prompts: list[Refused]) -> tuple[tuple[Change, ...], str]:
    """Return --max-model-len for the longest request that the cache holds, where a user had set it lower, and words on it."""
    memory = memory_of(case.run)
    if not prompts or memory is None or not case.asked_for("max_model_len"):
        return (), ""
    room = FREE * memory.held
    lengths = [length for one in prompts if (length := -(-(one.prompt + one.answer) // 1024) * 1024) <= room]
    if not lengths or max(lengths) <= limit:
        return (), f" The cache of {memory.held:,.0f} tokens holds none of them."
    note = (
        f"enough for {plural(len(lengths), 'refused prompt')}, which the KV cache can hold; vLLM rejects it at the start if the model's"
        " maximum is lower"
    )
    return flag(case, "--max-model-len", limit, max(lengths), "needs-test", note), ""


RULES = (Rule("requests-beyond-context", requests_beyond_context),)
