"""Rule on answers that run on: one or two requests that generate for long and hold much of the cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from vllm_logdoctor.rules.capacity.memory import memory_of
from vllm_logdoctor.rules.context import RuleContext, action, plural, rounded, sample_lines, whole
from vllm_logdoctor.rules.load import Span, generated_tokens
from vllm_logdoctor.rules.performance.order import ABOVE_THE_CLIENT
from vllm_logdoctor.rules.performance.refused import Refused, refused_requests
from vllm_logdoctor.rules.rule import Advice, Rule
from vllm_logdoctor.run.clock import duration
from vllm_logdoctor.run.model import Sample

MOST_REQUESTS = 2
LEAST_SECONDS = 30.0
LEAST_HELD = 20.0
"""Percent of the cache that each of the requests holds, unless answers end at the context again and again."""
LEAST_ENDS = 3
"""Answers that the context ended from which nothing else limits them: each long one is then counted."""
LEAST_TOKENS = 8192
NEAR_THE_END = 0.95
"""Share of max_model_len from which an answer was ended by the context: statistics come every ten seconds."""
ROUNDING = 0.1
"""Percent by which a growth may be larger than printed: without the size of the cache its tokens are the least that fit."""
LEAST_GENERATED = 0.02
"""Share of the tokens held that the lines show being generated; else they may be those of a prompt."""
SHORTLY = 90.0
"""Seconds after the end of such an answer in which a client may send it back, with a request in between."""
PROMPT_WINDOW = 60.0
"""Seconds before in which a prompt may have filled the cache instead."""


class Stretch(Struct, frozen=True):
    """Neighbouring statistics lines in which the same requests only generate; tokens that each of them holds at the end."""

    spans: tuple[Span, ...]
    tokens: float

    @property
    def held(self) -> float:
        """Return the percent of the cache that each of its requests holds at the end."""
        last = self.spans[-1].sample
        return (last.kv_usage or 0.0) / (last.running or 1)

    @property
    def generated(self) -> float:
        """Return the tokens that all of its requests generated behind its first line."""
        return generated_tokens(self.spans[1:])

    @property
    def seconds(self) -> float:
        """Return the seconds of the stretch."""
        return sum(span.seconds for span in self.spans)


def long_answers_hold_the_server(case: RuleContext) -> Advice | None:
    """One or two requests generate on and on.

    Needs statistics lines in a row with the same one or two requests, no prompt, and a KV usage that climbs.
    """
    long = [one for one in stretches(case) if one.seconds >= LEAST_SECONDS and one.tokens >= LEAST_TOKENS]
    ended = sum(_reaches_the_end(case, one) for one in long)
    found = [one for one in long if ended >= LEAST_ENDS or one.held >= LEAST_HELD]
    if not found:
        return None
    longest = max(found, key=lambda one: (_reaches_the_end(case, one), one.seconds))
    last = longest.spans[-1].sample
    behind = sum(span.seconds for span in longest.spans[1:])
    generated = f"{rounded(longest.generated)} tokens in {duration(behind)}"
    # Without the size of the cache only a rounded share that grows would tell the tokens.
    each = " each" if last.running != 1 else ""
    held = f", about {float(f'{longest.tokens:.2g}'):,.0f} tokens{each}" if memory_of(case.run) else ""
    behind_it = refused_behind(case)
    whether = (
        f" {plural(len(behind_it), 'refused prompt')} came within {SHORTLY:.0f} s after such an answer and exceeded the context:"
        " the client probably sent the answer back."
        if behind_it
        else " If such answers are intended (reasoning, long documents), nothing is wrong."
    )
    text = (
        f"{plural(last.running or 0, 'request')} generated {generated} without a pause and held"
        f" {last.kv_usage or 0.0:g} % of the KV cache{held}: probably answers without a length limit."
        + _to_the_end(case, ended if len(found) > 1 else _reaches_the_end(case, longest), len(found))
        + whether
    )
    known = "" if case.version else ", where the release has it"
    return Advice(
        text,
        (
            *sample_lines(case, longest.spans, lambda sample: (sample.kv_usage or 0.0,)),
            *(one.line for one in behind_it),
        ),
        confidence="medium",
        changes=(
            action("set max_tokens in the clients' requests to the length of the answers that you want"),
        ),
        alternatives=(
            f"--override-generation-config with max_new_tokens{known}: it caps every request, also those that ask for more",
        ),
        verify="`GPU KV cache usage` no longer climbs for minutes while one request runs.",
    )


def _reaches_the_end(case: RuleContext, stretch: Stretch) -> bool:
    length = whole(case.run.setting("max_model_len"))
    return length is not None and NEAR_THE_END * length <= stretch.tokens


def refused_behind(case: RuleContext) -> list[Refused]:
    """Return the prompts that vLLM refused for their length shortly after an answer that had run to the end of the context.

    Their clients probably sent that answer back as a part of the prompt. None where such answers are no finding.
    """
    ends = [one.spans[-1].sample for one in stretches(case) if _reaches_the_end(case, one)]
    found = []
    for one in refused_requests(case.run) if len(ends) >= LEAST_ENDS else ():
        before = [span.sample for span in case.load.spans if span.sample.line < one.line.line][-1:]
        if one.is_prompt_alone and any(_is_shortly_after(end, last) for end in ends for last in before):
            found.append(one)
    return found


def _is_shortly_after(end: Sample, sample: Sample) -> bool:
    return end.time is not None and sample.time is not None and 0 <= sample.time - end.time <= SHORTLY


def _to_the_end(case: RuleContext, ended: int, times: int) -> str:
    """Return how often it happened, and how often to the end of the context."""
    to = f"up to the context limit of {case.run.setting('max_model_len'):,} tokens" if ended else ""
    if times == 1:
        return f" It ran {to}." if ended else ""
    of_them = f", {'all' if ended == times else f'{ended:,}'} of them {to}" if ended else ""
    return f" It happened {times:,} times{of_them}."


def stretches(case: RuleContext) -> Iterator[Stretch]:
    """Yield the stretches of each engine in which one or two requests only generate."""
    for engine in sorted({span.sample.engine for span in case.load.spans}):
        series = [span for span in case.load.spans if span.sample.engine == engine]
        start = 0
        for place in range(1, len(series) + 1):
            if place < len(series) and _continues(series[place - 1], series[place]):
                continue
            if tokens := _tokens(case, series, start, place):
                yield Stretch(tuple(series[start:place]), tokens)
            start = place


def _continues(before: Span, span: Span) -> bool:
    """Return whether the requests of one line are those of the next, and only generate."""
    first, then = before.sample, span.sample
    return bool(
        then.running == first.running
        and 0 < (then.running or 0) <= MOST_REQUESTS
        and not first.prompt
        and not then.prompt
        and then.generation > 0
        # A slow stream may fill less than the last printed digit in ten seconds.
        and (then.kv_usage or 0.0) >= (first.kv_usage or 0.0)
    )


def _tokens(case: RuleContext, series: Sequence[Span], start: int, end: int) -> float | None:
    """Return the tokens that each request holds at the end, or None where a prompt can have filled the cache or nothing grew."""
    first, last = series[start].sample, series[end - 1].sample
    growth = (last.kv_usage or 0.0) - (first.kv_usage or 0.0)
    if growth <= 0:
        return None
    each = (last.kv_usage or 0.0) / (last.running or 1)
    generated = generated_tokens(series[start + 1 : end]) / (last.running or 1)
    memory = memory_of(case.run)
    if memory is None and each < LEAST_HELD:
        return None
    # Of layers of several kinds the printed tokens are not those that a request fills.
    cache = memory.held if memory else 100 * generated * (last.running or 1) / (growth + ROUNDING)
    held = cache * each / 100
    prompts, seconds = 0.0, 0.0
    for span in reversed(series[:start]):
        if not span.sample.running:
            break
        prompts += span.sample.prompt * span.seconds
        seconds += span.seconds
        if seconds >= PROMPT_WINDOW:
            break
    return held if prompts < held / 2 and generated >= LEAST_GENERATED * held else None


RULES = (
    Rule(
        "long-answers-hold-the-server",
        long_answers_hold_the_server,
        worth=lambda case, worth: max(worth, ABOVE_THE_CLIENT),
    ),
)
