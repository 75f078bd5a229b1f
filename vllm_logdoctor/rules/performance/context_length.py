"""Rule on requests that are refused because prompt and answer are longer than --max-model-len."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.rules.capacity.memory import memory_of
from vllm_logdoctor.rules.context import RuleContext, action, flag, plural, setting_lines
from vllm_logdoctor.rules.model import Change
from vllm_logdoctor.rules.rule import Advice, Rule
from vllm_logdoctor.run.model import Evidence

LEAST_REFUSED = 2
FREE = 0.98
"""Share of the cache that a longest request may take: a start plans a little less at times."""
# ValueError: This model's maximum context length is 8192 tokens. However, you requested 8205 tokens (149 in the messages,
# 8056 in the completion).     ... However, your request has 6290 input tokens.     ... However, you requested 3000 output
# tokens and your prompt contains at least 29769 input tokens, for a total of at least 32769 tokens.
_REFUSED = lazy_pattern(r"maximum context length is (\d{1,12}) tokens\. However, you([^\n]{0,160})")
_PROMPT = lazy_pattern(r"(\d{1,12}) (?:tokens )?(?:in the (?:messages|prompt)|input tokens)")
_FITS = "the prompt fits, but not with the answer that the client asked for"
_TOGETHER = "prompt and requested answer together exceed it; vLLM counted the prompt no further"
_ANSWER = lazy_pattern(r"(\d{1,12}) (?:in the completion|output tokens)")


class Refused(Struct, frozen=True):
    """A request that was refused: the limit, its tokens, whether the prompt was counted to its end, and the line."""

    limit: int
    prompt: int
    answer: int
    counted: bool
    line: Evidence


def requests_beyond_context(case: RuleContext) -> Advice | None:
    """Requests are refused for their length.

    Needs several errors of that kind with the tokens that were asked for.
    """
    refused = _refused(case)
    if len(refused) < LEAST_REFUSED:
        return None
    limit = refused[-1].limit
    long_answers = [one for one in refused if one.prompt < limit]
    prompts = [one for one in refused if one.prompt >= limit]
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
        changes += raised or (action("shorten or split the prompts in the client before they are sent"),)
    return Advice(
        text,
        (refused[0].line, refused[-1].line, *setting_lines(case, "max_model_len")),
        confidence="high",
        changes=changes,
        avoid="Setting VLLM_ALLOW_LONG_MAX_MODEL_LEN: positions that the model was not trained for give wrong answers or a crash.",
        verify="no further `maximum context length` errors, and no answers with 400.",
    )


def _refused(case: RuleContext) -> list[Refused]:
    found = []
    for record in case.run.records:
        match = _REFUSED.search(record.message) if "maximum context length" in record.message else None
        prompt = _PROMPT.search(match[2]) if match else None
        if match and prompt:
            answer = _ANSWER.search(match[2])
            tokens = int(match[1]), int(prompt[1]), int(answer[1]) if answer else 0
            found.append(Refused(*tokens, "at least" not in match[2], case.run.evidence(record)))
    return found


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
