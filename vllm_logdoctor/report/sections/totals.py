"""What a run says of its own work beside the statistics lines: speculative decoding, offline progress."""

from __future__ import annotations

import re

from vllm_logdoctor.events import Event
from vllm_logdoctor.report.escape import prose
from vllm_logdoctor.report.figures import number, percent
from vllm_logdoctor.report.page import Page

# Mean acceptance length: 2.31, Accepted throughput: 12.00 tokens/s, ... Avg Draft acceptance rate: 40.0%
_LENGTH = re.compile(r"Mean acceptance length: ([\d.]+)")
_RATE = re.compile(r"Avg Draft acceptance rate: ([\d.]+)%")


def speculation(page: Page) -> list[str]:
    """Return one line on speculative decoding as it was at its last line; nothing where it was off."""
    event = _last(page, "speculation")
    if event is None:
        return _speculation_v0(page)
    length, rate = _LENGTH.search(event.text("text")), _RATE.search(event.text("text"))
    told = [f"mean acceptance length {number(float(length.group(1)))}"] if length else []
    told += [f"{percent(float(rate.group(1)))} of the drafted tokens accepted"] if rate else []
    if not told:
        return []
    return [f"- speculative decoding, at its last line: {', '.join(told)}{_place(page, event)}"]


def offline(page: Page) -> list[str]:
    """Return what the offline engine's progress bar says at its end; nothing without one."""
    event = _last(page, "offline-progress")
    if event is None or event.number("total") is None:
        return []
    done, total = event.number("done"), event.number("total")
    told = f"{number(done)} of {number(total)} prompts processed in {prose(event.text('elapsed'))}"
    speeds = [
        f"{name} {number(event.number(field))} tokens/s"
        for name, field in (("input", "input"), ("output", "output"))
        if event.number(field) is not None
    ]
    return [f"{told}{': ' + ', '.join(speeds) if speeds else ''}{_place(page, event)}.", ""]


def _speculation_v0(page: Page) -> list[str]:
    event = _last(page, "speculation-v0")
    if event is None or event.number("acceptance") is None:
        return []
    rate = percent(100 * (event.number("acceptance") or 0.0))
    told = f"{rate} of the drafted tokens accepted"
    return [f"- speculative decoding, at its last line: {told}{_place(page, event)}"]


def _last(page: Page, pattern: str) -> Event | None:
    seen = page.run.seen(pattern)
    if seen is None:
        return None
    return seen.last or (seen.first[-1] if seen.first else None)


def _place(page: Page, event: Event) -> str:
    return page.cited([page.run.evidence(event.record)])
