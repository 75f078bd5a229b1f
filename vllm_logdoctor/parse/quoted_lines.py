"""Text inside strings of other formats: a field of CSV, and whole logs in one string of JSON, YAML or Python."""

from __future__ import annotations

from vllm_logdoctor.lazy import lazy_pattern

# 2026-03-04T05:06:07Z,"host","vllm","INFO:     10.0.0.1:4000 - ""POST /v1/completions HTTP/1.1"" 200 OK"
_CSV_FIELD = lazy_pattern(r'(?P<before>(?:[^",]{0,80},|"[^"]{0,200}",){0,12})"(?P<text>(?:[^"]|"")*)"\s*$')
# The tail of a log that a deployment, a CI job or a supervisor shows as its reason:
# {"status": "UNHEALTHY", "message": "Last lines:\nINFO 11-03 ..."}     {'replica': 'a', 'stderr': 'INFO 11-03 ...\n'}
#     message: "Deploying failed:\nTraceback (most recent call last):\n  File \"/opt/serve.py\", line 3 ..."
# What a user or a model writes has other names (content, prompt, text, output) and proves nothing about the run.
_MEMBER = lazy_pattern(
    r"""(?:(?P<mark>["'])|^\s{0,80}(?:- )?)"""
    r"(?P<name>\w{0,40}(?i:logs?|message|msg|error|stderr|stdout|reason|traceback|exception|details?|tail|cause)\w{0,20})"
    r"""(?(mark)(?P=mark)) ?: ?[bu]?(?P<quote>["'])(?P<text>(?:\\.|(?!(?P=quote))[^\\]){40,})"""
)
# \n     \\n (a string in a string)
_LINE_END = lazy_pattern(r"\\{1,8}(?:r\\{1,8})?n")
# \"     \t     \u001b[0;36m
_ESCAPED = lazy_pattern(r"""\\{1,8}(?:(?P<sign>["'/tr])|(?:u001[bB]|x1b|033|e)\[[0-9;?]{0,12}[A-Za-z])""")
_RECORD = lazy_pattern(r"(?:INFO|WARNING|ERROR|CRITICAL) (?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d")
_OPENING = "Traceback (most recent call last)"
_FEWEST_RECORDS = 2
MESSAGE_KEYS = (
    "message",
    "msg",
    "log",
    "MESSAGE",
    "textPayload",
    "text",
    "line",
    "@message",
    "body",
    "event",
)
TRACEBACK_KEYS = ("exc_info", "exc_text", "exception", "stack_trace", "traceback")
"""Formatters of JSON keep the traceback of a record in a member of its own."""
KEYS_OF_RECORDS = frozenset((*MESSAGE_KEYS, *TRACEBACK_KEYS))
_MOST_LINES = 4000


def lines_within(text: str) -> list[str]:
    """Return a line without the logs quoted in it, then the lines of those logs; an empty list where it quotes none.

    Example:
        >>> lines_within('{"id": 7, "stderr": "INFO 11-03 10:00:00 [a.py:1] x\\\\nINFO 11-03 10:00:01 [a.py:2] y"}')
        ['{"id": 7, "stderr": ""}', 'INFO 11-03 10:00:00 [a.py:1] x', 'INFO 11-03 10:00:01 [a.py:2] y']
    """
    found: list[str] = []
    outside, end = "", 0
    for member in _MEMBER.finditer(text):
        quoted = member["text"]
        is_record = member["mark"] == '"' and member["name"] in KEYS_OF_RECORDS
        if not _LINE_END.search(quoted) or not _is_log(quoted, is_record):
            continue
        outside, end = outside + text[end : member.start("text")], member.end("text")
        found += (_plain(one) for one in _LINE_END.split(quoted, _MOST_LINES))
    return [outside + text[end:], *found] if found else []


def _is_log(quoted: str, is_record: bool) -> bool:
    """Return whether a string holds records or a traceback; a traceback may also be the message of one JSON record."""
    records = _RECORD.finditer(quoted)
    return (not is_record and _OPENING in quoted) or all(next(records, None) for _ in range(_FEWEST_RECORDS))


def _plain(line: str) -> str:
    """Return a line of a quoted log without its escapes."""
    return _ESCAPED.sub(lambda found: {"t": "\t", "r": "", None: ""}.get(found["sign"], found["sign"]), line)


def last_field(text: str) -> str:
    """Read the last, quoted field of a CSV row: its quotes are doubled."""
    field = _CSV_FIELD.match(text)
    return field["before"] + field["text"].replace('""', '"') if field else text
