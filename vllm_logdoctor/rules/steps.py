"""Steps and answers: the time of a decode step, tokens of an answer, steps per second at equal load.

Under speculative decoding tokens/s follow how many drafts are accepted; steps do not.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from msgspec.structs import replace

from vllm_logdoctor.rules.equal_load import LoadLevel, load_levels
from vllm_logdoctor.rules.load import Load, decode_spans, weighted_median
from vllm_logdoctor.run.model import Run, Sample

LEAST_LINES = 3
LEAST_ANSWERS = 10
"""Answers below which their mean length says little: those that still run are counted in tokens only."""
MOST_CUT = 0.01
"""Share of the answers that may have begun or ended outside of the statistics lines."""
MOST_BEHIND = 0.02
"""Share of the generated tokens that may come between the last statistics line and the next, which the log lacks."""
_GENERATING = ("/completions", "/responses", "/messages", "/generate")


def step_seconds(run: Run, load: Load) -> float | None:
    """Return the seconds of a decode step: requests over tokens/s, times the tokens that a step makes of each.

    None with less than three statistics lines without prompts, and with pipeline stages, which work on different requests.
    """
    spans = decode_spans(load.busy)
    if len(spans) < LEAST_LINES or run.setting("pipeline_parallel_size") not in (None, 1):
        return None
    seconds = weighted_median(spans, lambda sample: (sample.running or 0) / sample.generation)
    return seconds * (acceptance_length(run) or 1.0)


def tokens_per_answer(run: Run, load: Load) -> float | None:
    """Return the generated tokens per answered request, or None where the log does not hold both, or few answers.

    None as well where too many requests began before the statistics lines or ended after them: they count in one of both.
    """
    mean = tokens_per_request(run, load, lambda sample: sample.generation)
    cut = _across_the_ends(run, load) > MOST_CUT * _answers(run)
    return None if mean is None or cut or _goes_on_behind(load) else mean


def tokens_per_request(run: Run, load: Load, rate: Callable[[Sample], float]) -> float | None:
    """Return the tokens of a rate per answered request, or None where the log does not hold both, or few answers."""
    answers = _answers(run)
    tokens = sum(rate(span.sample) * span.seconds for span in load.busy)
    return tokens / answers if answers >= LEAST_ANSWERS and tokens and run.other_server is None else None


def _goes_on_behind(load: Load) -> bool:
    """Return whether requests run in the last line at a rate that adds more than a few tokens until the next one."""
    last = load.spans[-1] if load.spans else None
    if last is None or not last.sample.running:
        return False
    tokens = sum(span.sample.generation * span.seconds for span in load.busy)
    return last.sample.generation * last.seconds > MOST_BEHIND * tokens


def _answers(run: Run) -> int:
    return sum(
        count
        for (method, path, status), count in run.accesses.items()
        if method == "POST" and status == 200 and path.split("?")[0].endswith(_GENERATING)
    )


def _across_the_ends(run: Run, load: Load) -> int:
    if not load.spans:
        return 0
    first, last = load.spans[0].sample, load.spans[-1].sample
    return (last.running or 0) + (0 if run.startup_complete else first.running or 0)


def step_levels(run: Run) -> tuple[LoadLevel, ...]:
    """Return the levels of a run in steps/s: each rate divided by the tokens per step of the same interval."""
    lengths = _lengths(run)
    samples = []
    for sample in run.samples:
        length = lengths.get((sample.file, sample.line))
        if length:
            samples.append(replace(sample, generation=sample.generation / length))
    return load_levels(samples)


def acceptance_length(run: Run) -> float | None:
    """Return the median tokens per step of the intervals with drafts, or None where the log prints none."""
    if run.engine_log is not None:
        lengths = [rate.acceptance for rate in run.engine_log.rates if rate.acceptance]
    else:
        lengths = [one.mean_length for one in run.speculation if one.mean_length]
    if not lengths:
        return None
    # Most runs draft nothing: a start does not pay for the module.
    from statistics import median

    return round(median(lengths), 3)


def _lengths(run: Run) -> dict[tuple[int, int], float]:
    """Return tokens per step by place of the sample that they belong to."""
    if run.engine_log is not None:
        return {(0, rate.line): rate.acceptance for rate in run.engine_log.rates if rate.acceptance}
    return _printed_behind(run)


def _printed_behind(run: Run) -> dict[tuple[int, int], float]:
    """Pair each line on drafts with the statistics line before it: vLLM prints it right behind."""
    samples: list[Sample] = sorted(run.samples, key=lambda one: one.line)
    lines = [one.line for one in samples]
    found: dict[tuple[int, int], float] = {}
    for one in run.speculation:
        at = bisect_right(lines, one.evidence.line) - 1
        if at >= 0 and one.mean_length and (samples[at].file, lines[at]) not in found:
            found[samples[at].file, lines[at]] = one.mean_length
    return found
