"""A line that is one entry of JSON: vLLM's own formatter, docker's json-file, an export of a platform."""

from __future__ import annotations

import json
from typing import Any

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse.clock import seconds_of
from vllm_logdoctor.parse.quoted_lines import MESSAGE_KEYS, TRACEBACK_KEYS

# {"message": "...", "levelname": "INFO"}
JSON_START = lazy_pattern(r"\s*(?:data:\s*)?\{")
# "textPayload": "WARNING 06-06 03:40:07 [argparse_utils.py:257] With ...",
_MEMBER = lazy_pattern(
    r'\s*"(?:message|msg|log|MESSAGE|textPayload)"\s*:\s*(?P<value>"(?:[^"\\]|\\.)*")\s*,?\s*$'
)
# {"content": {"message": "..."}}    {"_source": {"message": "..."}}    {"jsonPayload": {"message": "..."}}
_NESTING_KEYS = ("content", "_source", "jsonPayload", "result", "fields", "attributes")
_MEMBER_ALONE = "member"
# A platform's "severity" is that of the stream, not of the record.
_LEVEL_KEYS = ("levelname", "level", "log_level")
_COMMAND_KEYS = ("cmd", "command")
_TIME_KEYS = ("asctime", "timestamp", "time", "ts", "@timestamp")

Entry = dict[str, Any]


def read_entry(text: str) -> tuple[Entry, str] | None:
    """Return the object that holds the message, and the message with its traceback; None where a text is no entry.

    Example:
        >>> read_entry('{"log": "Killed\\\\n", "time": "2026-05-01T10:00:00Z"}')[1]
        'Killed'
        >>> read_entry('{"message": "Starting", "cmd": "vllm serve org/m"}')[1]
        'Starting: vllm serve org/m'
    """
    member = _MEMBER.match(text)
    try:
        found: Any = json.loads(member["value"] if member else text[text.find("{") :].rstrip().rstrip(","))
    except (ValueError, RecursionError):
        return None
    if member:
        found = {"message": found, _MEMBER_ALONE: True}
    if not isinstance(found, dict):
        return None
    found = _innermost(found)
    message = next((found[key] for key in MESSAGE_KEYS if isinstance(found.get(key), str)), None)
    if message is None:
        return None
    message = message.rstrip("\r\n")
    raised = next((found[key] for key in TRACEBACK_KEYS if isinstance(found.get(key), str)), "")
    if raised and raised not in message:
        message = f"{message}\n{raised.rstrip()}"
    # {"level": "INFO", "message": "Exec command", "cmd": "vllm serve org/m --port 8000"}
    command = next((found[key] for key in _COMMAND_KEYS if isinstance(found.get(key), str)), "")
    if command and command not in message:
        message = f"{message}: {command}"
    # TGI's text has it before the message.
    if str(found.get("target", "")).startswith("text_generation_"):
        message = f"{found['target']}: {message}"
    return found, message


def time_of(entry: Entry) -> tuple[float, bool] | None:
    """Return the time that an entry has beside its message, and whether its year is known."""
    printed = (entry[key] for key in _TIME_KEYS if entry.get(key))
    return next((seconds_of(str(one).replace("T", " ")[:26].rstrip("Z")) for one in printed), None)


def level_of(entry: Entry) -> str:
    """Return the level of an entry; one that holds nothing but a message is a record of vLLM's formatter, an INFO."""
    level = str(next((entry[key] for key in _LEVEL_KEYS if entry.get(key)), "")).upper()
    if level in {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"}:
        return level
    return "INFO" if set(entry) <= {"message", "vllm_process_name"} else ""


def _innermost(found: Entry) -> Entry:
    """Return the object that holds the message: exports wrap it in objects of their own."""
    for _ in range(3):
        if any(isinstance(found.get(key), str) for key in MESSAGE_KEYS):
            return found
        inner = next((found[key] for key in _NESTING_KEYS if isinstance(found.get(key), dict)), None)
        if inner is None:
            return found
        found = {**{key: found[key] for key in (*_TIME_KEYS, "target") if key in found}, **inner}
    return found
