"""Shapes of lines that are wanted whatever their text: record headers, exception lines, JSON records."""

from __future__ import annotations

import re

# Colour codes may be between the parts of a header; their escape character is sometimes lost.
_COLOUR = r"(?:\x1b?\[[0-9;]{0,8}m){0,3}"

_LEVELS = ("INFO", "WARNING", "ERROR", "CRITICAL")
_LEVEL = "|".join(_LEVELS)
_EXCEPTIONS = ("Error", "Exception", "Interrupt", "SystemExit", "Timeout", "ActorDied", "Failure")
_EXCEPTION = "|".join(_EXCEPTIONS)
_JSON_KEYS = ("message", "msg", "log", "MESSAGE", "textPayload")
_JSON_KEY = "|".join(_JSON_KEYS)

# INFO 02-09 19:43:55 [nixl_connector.py:101] text        INFO 11-18 01:29:33 engine.py:267] text
# INFO 2025-07-16 12:29:43,921 arg_utils.py:129] text     DEBUG is wanted for its literals alone.
# An indented message continues the record above it and is left to the blocks.
HEADER = (
    rf"(?:{_LEVEL}){_COLOUR} {_COLOUR}(?:[0-9]{{4}}-)?[0-9]{{2}}-[0-9]{{2}} [0-9:]{{8}}(?:[.,][0-9]{{1,6}})?"
    rf"{_COLOUR} {_COLOUR}\[?[A-Za-z0-9_./<>-]{{1,120}}:[0-9]{{1,6}}\]{_COLOUR} {_COLOUR}[^ \r\n]"
)

# ValueError: text        torch.OutOfMemoryError: text        KeyboardInterrupt
EXCEPTION = rf"(?:^|[\s\])|:])[A-Za-z_][A-Za-z0-9_.]{{1,80}}(?:{_EXCEPTION})(?::|\r?$)"

# {"message": "...", ...}    "textPayload": "WARNING 06-06 03:40:07 [argparse_utils.py:257] ..."
JSON_RECORD = rf'"(?:{_JSON_KEY})"\s?:\s?"'

# 2025-04-03 17:38:52,710 - vllm.v1.metrics.loggers - INFO - text      2025-04-03 17:38:52,710 vllm.config 849 INFO     text
# INFO:vllm.engine.llm_engine:text
OTHER_HEADER = (
    rf"(?: vllm[A-Za-z0-9_.]* (?:- |[0-9]{{1,8}} )(?:{_LEVEL}) |(?:{_LEVEL}):vllm[A-Za-z0-9_.]*:"
    rf"|(?:{_LEVEL}) {{1,8}}\[[A-Za-z0-9_./-]{{1,120}}\.py(?::[0-9]{{1,6}})?\] )"
)

# DEBUG 01-01 00:00:07 [shm_broadcast.py:467] ...
DEBUG_HEADER = r"DEBUG (?:[0-9]{4}-)?[0-9]{2}-[0-9]{2} [0-9]{2}:"

TRACEBACK = "Traceback (most recent call last)"

EXPRESSIONS: tuple[str, ...] = (HEADER, EXCEPTION, JSON_RECORD, OTHER_HEADER)
EXPRESSION_WORDS: tuple[str, ...] = (*_LEVELS, *_EXCEPTIONS, *(f'"{key}"' for key in _JSON_KEYS))
"""Where one of the expressions is found, one of these words is in the line."""
LITERALS: tuple[str, ...] = (
    TRACEBACK,
    "During handling of the above exception",
    "direct cause of the following exception",
)

# api_key=     - name: DB_PASSWORD     "--api-key",     -----BEGIN RSA PRIVATE KEY-----
_SECRET_NAME = re.compile(
    rb"(?:key|token|secret|pass[a-z]{0,6}|pwd|cred[a-z]{0,8}|sig[a-z]{0,6}|auth|jwt|session|webhook|pat|string)"
    rb"(?:s|_id)?(?:\x1b\[[0-9;]{0,8}m|[\s\"'=:,|>-]){0,16}\Z",
    re.IGNORECASE,
)
# One of these is in the name of every credential.
_NAME_PARTS = (
    b"key", b"tok", b"secret", b"pass", b"pwd", b"pw", b"psk", b"cred", b"sig", b"auth", b"jwt", b"session", b"sid", b"webhook", b"pat",
    b"connection", b"honeycomb", b"saml", b"\xe5\xaf\x86",
)  # fmt: skip
_LONGEST_END = 120
_KEY_WIDTH = 64
"""Characters of a line of a private key at the least."""
_BEHIND_NAME = b" \t\n\r\f\v\"'=:,|>-"
_LONGEST_NAME = 64
MOST_BLANK = 4

_DENSE = 400
"""Bytes of a piece for one DEBUG line that make it full of them."""
_SAMPLE = 1 << 14


def may_name_secret(line: bytes) -> bool:
    """Return, at little cost, whether a line may end with the name of a secret whose value is on the next one.

    Example:
        >>> may_name_secret(b"args: api_key=\\n"), may_name_secret(b"key=value")
        (True, False)
    """
    end = line[-_LONGEST_NAME:]
    # A name, or the colour behind it, ends in a letter: most lines need no expression.
    return end.rstrip(_BEHIND_NAME)[-1:].isalpha() and _SECRET_NAME.search(end) is not None


def may_begin_secret(line: bytes) -> bool:
    """Return, at little cost, whether a line may begin a secret that goes on in the next ones: a private key, or values of a name.

    Example:
        >>> may_begin_secret(b"  - name: DB_PASSWORD"), may_begin_secret(b"INFO: 200 OK")
        (True, False)
    """
    # A name at the end of a message is not at the end of its line where JSON is around it.
    end = (line if b"{" in line else line.rstrip()[-_LONGEST_END:]).lower()
    return (
        b" " not in end[-_KEY_WIDTH:]
        or any(map(end.__contains__, _NAME_PARTS))
        or b"-----begin" in line.lower()
    )


def secret_name_before(data: bytes, end: int) -> tuple[int, int, bytes] | None:
    """Return the last line before a place that is not blank if it may name a secret.

    Args:
        data: lines.
        end: where a line begins; lines before it may be blank.

    Returns:
        Where the line begins, how many lines it is before the place, and the line as it is in the file; or None.
    """
    if not may_name_secret(data[max(0, end - _LONGEST_NAME) : end]):
        return None
    for before in range(1, MOST_BLANK + 2):
        start = data.rfind(b"\n", 0, end - 1) + 1
        line = data[start:end].removesuffix(b"\n")
        if line.strip():
            return start, before, line
        end = start
    return None


def is_full_of_debug(data: bytes) -> bool:
    """Return whether many lines of a piece are DEBUG records, by its beginning and its end.

    Example:
        >>> is_full_of_debug(b"DEBUG 01-01 00:00:07 [shm_broadcast.py:467] text\\n" * 100)
        True
    """
    seen = data[:_SAMPLE].count(b"DEBUG ") + data[-_SAMPLE:].count(b"DEBUG ")
    return seen * _DENSE > min(len(data), 2 * _SAMPLE)


def parses_unchanged(data: bytes) -> bool:
    """Return whether the parser leaves the texts of lines as they are, so that patterns see what is in the bytes.

    Example:
        >>> parses_unchanged(b"INFO text\\n"), parses_unchanged(b"\\x1b[32mINFO\\x1b[0m text\\n")
        (True, False)
    """
    return data.isascii() and b"\x1b" not in data and b"\r" not in data
