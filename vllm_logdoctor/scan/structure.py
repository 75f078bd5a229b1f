"""Shapes of lines that are wanted whatever their text: record headers, exception lines, JSON records."""

from __future__ import annotations

# Colour codes may stand between the parts of a header; their escape character is sometimes lost.
_COLOUR = r"(?:\x1b?\[[0-9;]{0,8}m){0,3}"

# INFO 02-09 19:43:55 [nixl_connector.py:101] text        INFO 11-18 01:29:33 engine.py:267] text
# INFO 2025-07-16 12:29:43,921 arg_utils.py:129] text     DEBUG is wanted by its gates alone.
# An indented message continues the record above it and is left to the blocks.
HEADER = (
    rf"(?:INFO|WARNING|ERROR|CRITICAL){_COLOUR} {_COLOUR}(?:[0-9]{{4}}-)?[0-9]{{2}}-[0-9]{{2}} [0-9:]{{8}}(?:[.,][0-9]{{1,6}})?"
    rf"{_COLOUR} {_COLOUR}\[?[A-Za-z0-9_./<>-]{{1,120}}:[0-9]{{1,6}}\]{_COLOUR} {_COLOUR}[^ \r\n]"
)

# ValueError: text        torch.OutOfMemoryError: text        KeyboardInterrupt
EXCEPTION = r"(?:^|[\s\])|:])[A-Za-z_][A-Za-z0-9_.]{1,80}(?:Error|Exception|Interrupt|SystemExit|Timeout|ActorDied|Failure)(?::|\r?$)"

# {"message": "...", ...}    "textPayload": "WARNING 06-06 03:40:07 [argparse_utils.py:257] ..."
JSON_RECORD = r'"(?:message|msg|log|MESSAGE|textPayload)"\s?:\s?"'

# 2025-04-03 17:38:52,710 - vllm.v1.metrics.loggers - INFO - text      INFO:vllm.engine.llm_engine:text
OTHER_HEADER = (
    r"(?:- vllm[A-Za-z0-9_.]* - (?:INFO|WARNING|ERROR|CRITICAL) - |(?:INFO|WARNING|ERROR|CRITICAL):vllm[A-Za-z0-9_.]*:"
    r"|(?:INFO|WARNING|ERROR|CRITICAL) {1,8}\[[A-Za-z0-9_./-]{1,120}\.py(?::[0-9]{1,6})?\] )"
)

# DEBUG 01-01 00:00:07 [shm_broadcast.py:467] ...
DEBUG_HEADER = r"DEBUG (?:[0-9]{4}-)?[0-9]{2}-[0-9]{2} [0-9]{2}:"

TRACEBACK = "Traceback (most recent call last)"

EXPRESSIONS: tuple[str, ...] = (HEADER, EXCEPTION, JSON_RECORD, OTHER_HEADER)
LITERALS: tuple[str, ...] = (
    TRACEBACK,
    "During handling of the above exception",
    "direct cause of the following exception",
)
