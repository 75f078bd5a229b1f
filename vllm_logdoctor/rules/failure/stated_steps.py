"""What the text of an exception itself says to do."""

from __future__ import annotations

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.rules.failure.context import Observation

# Asking to pad but the tokenizer has no padding token. Please select a token to use as `pad_token`.
# free memory is below the reserve: 13 bytes available, 15 required. Replan more layers into host memory.
_OWN_REMEDY = lazy_pattern(
    r"(?:^|[.!:;,] )(?P<way>(?:[Pp]lease (?!check the stack|see |refer|report|file |open |contact)"
    r"|(?:Try|Consider|Use|Set|Make sure|Ensure|Install|Upgrade|Increase|Decrease|Lower|Raise|Choose|Select"
    r"|Re(?:plan|duce|install|build|start)) )"
    r"[^\n]{8,240}?)(?:[.!](?=\s|$)|\n|$)"
)
_LONGEST_WAY = 200


def stated_remedy(observation: Observation) -> str:
    """Return what the text of an exception itself says to do, or ""."""
    found = _OWN_REMEDY.search(observation.text[:1200])
    way = found["way"].strip() if found else ""
    return way if len(way) <= _LONGEST_WAY else way.partition(" or ")[0]
