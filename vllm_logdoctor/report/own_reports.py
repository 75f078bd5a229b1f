"""Files that are no log: reports of logdoctor itself, recognised by how they begin."""

from __future__ import annotations

import re

from vllm_logdoctor.report.writers import FORMATS

HEAD_BYTES = 1 << 16

_CITED = re.compile(rb"\[L\d+|\bL\d+:? `|:\d+\]")
# vLLM 0.11.2 · models/tiny-qwen3 · 1 CPU rank · 2 min 55 s · clean shutdown
# # 2 runs of vLLM in a.log, b.log
_TITLE = re.compile(rb" \xc2\xb7 [^\n]* \xc2\xb7 |^(?:# )?\d+ runs of vLLM in ")
_TITLE_LINES = 6
# # FAILED at start-up: Address already in use     and the same in text, underlined
_STATE = re.compile(rb"\s*(?:# (?:[A-Z]{3}|\d+ runs of vLLM in )|[^\n]{4,200}\n(?:[^\n]{1,100}\n){0,2}=+\n)")
_LAST_SECTION = re.compile(rb"^(?:## )?What was read$", re.MULTILINE)
# # No log of vLLM     and a comparison: # before.log → after.log     both underlined in text
# and a transcript: run 1: vLLM 0.11.2, models/tiny-qwen3
_ALONE = rb"(?:No log of vLLM|\S+ \xe2\x86\x92 \S+)\n"
_FIRST_LINE = re.compile(
    rb"\s*(?:# " + _ALONE + rb"|" + _ALONE + rb"=+\n|run 1: vLLM \S+, \S+\nrun 1: [^\n]*\n)"
)


def is_own_report(kind: str) -> bool:
    """Return whether a kind is one of `kind_of_file`."""
    return kind.endswith(" of logdoctor")


def kind_of_file(head: bytes) -> str | None:
    """Return the kind of a report of logdoctor by its beginning (at most 64 KiB), or None for all else.

    Example:
        >>> kind_of_file(b'{"schema": "logdoctor/1", "runs": []}')
        'JSON report of logdoctor'
        >>> kind_of_file(b"INFO 07-16 12:29:43 [api_server.py:1289] vLLM API server version 0.8.5") is None
        True
    """
    for own in FORMATS.values():
        if own.begins and re.match(own.begins, head):
            return f"{own.title} of logdoctor"
    lines = [line for line in head[:HEAD_BYTES].split(b"\n", 3 * _TITLE_LINES) if line.strip()][:_TITLE_LINES]
    cites = _CITED.search(head) is not None and any(_TITLE.search(line) for line in lines)
    if cites or (_STATE.match(head) and _LAST_SECTION.search(head)) or _FIRST_LINE.match(head):
        own = FORMATS["markdown" if lines[0].startswith(b"# ") else "text"]
        return f"{own.title} of logdoctor"
    return None
