"""Requests that vLLM refused as prompt and answer are longer than --max-model-len, as its errors count their tokens."""

from __future__ import annotations

from msgspec import Struct

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.run.model import Evidence, Run

# ValueError: This model's maximum context length is 8192 tokens. However, you requested 8205 tokens (149 in the messages,
# 8056 in the completion).     ... However, your request has 6290 input tokens.     ... However, you requested 3000 output
# tokens and your prompt contains at least 29769 input tokens, for a total of at least 32769 tokens.
_REFUSED = lazy_pattern(r"maximum context length is (\d{1,12}) tokens\. However, you([^\n]{0,160})")
_PROMPT = lazy_pattern(r"(\d{1,12}) (?:tokens )?(?:in the (?:messages|prompt)|input tokens)")
_ANSWER = lazy_pattern(r"(\d{1,12}) (?:in the completion|output tokens)")


class Refused(Struct, frozen=True):
    """A request that was refused: the limit, its tokens, whether the prompt was counted to its end, and the line."""

    limit: int
    prompt: int
    answer: int
    counted: bool
    line: Evidence

    @property
    def is_prompt_alone(self) -> bool:
        """Return whether the prompt exceeds the limit without an answer."""
        return self.prompt >= self.limit


def refused_requests(run: Run) -> list[Refused]:
    """Return the requests that a run refused for their length, in order of their lines."""
    found = []
    for record in run.records:
        match = _REFUSED.search(record.message) if "maximum context length" in record.message else None
        prompt = _PROMPT.search(match[2]) if match else None
        if match and prompt:
            answer = _ANSWER.search(match[2])
            tokens = int(match[1]), int(prompt[1]), int(answer[1]) if answer else 0
            found.append(Refused(*tokens, "at least" not in match[2], run.evidence(record)))
    return found
