"""Loads of one batch: all requests are sent together and none after them, until they are done or the server is stopped."""

from __future__ import annotations

from itertools import pairwise

from vllm_logdoctor.rules.bottleneck import posted
from vllm_logdoctor.rules.load import USUAL_INTERVAL
from vllm_logdoctor.run.model import Run

_LEAST_OF_BATCH = 8
"""Requests below which a batch may be chance."""
_FEWEST_LINES = 5


def is_one_batch(run: Run) -> bool:
    """Return whether all requests that were answered ran at the same time: they were sent together, and none after them."""
    busy = [one.running for one in run.samples if one.running]
    asked = sum(posted(run).values())
    return len(busy) >= _FEWEST_LINES and _LEAST_OF_BATCH <= asked <= max(busy)


def cut_off_at_end(run: Run) -> int:
    """Return how many requests of one batch ran in the last line before a stop, far more than ended between any two lines; else 0."""
    last = run.samples[-1] if run.samples else None
    if last is None or last.time is None or run.ended is None or not is_one_batch(run):
        return 0
    stopped = run.outcome in ("clean_shutdown", "killed") and run.ended - last.time < USUAL_INTERVAL
    ended = max((one.running or 0) - (after.running or 0) for one, after in pairwise(run.samples))
    left = last.running or 0
    return left if stopped and left > 2 * max(ended, 1) else 0
