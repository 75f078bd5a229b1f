"""What a table may hold: numbers, and text that names something; never free text of a log."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Any

from vllm_logdoctor.knowledge.versions import parse_version

_MOST = 200
# org/model-8B   /models/x   auto   fp8_e4m3   8192   http://head:8000   [1, 2, 4]   {"level": 3}
_NAMES = re.compile(r"[\w./:+@%,=~#*\[\]{}()'\" -]*", re.ASCII)
_MOST_WORDS = 6
# Settings whose value is text of its own, or a credential.
_FREE_TEXT = re.compile(r"prompt|template|token$|key|secret|passw|credential|header|auth", re.IGNORECASE)
_NOT_FREE = re.compile(r"num_|max_|_tokens$|tokenizer|enable_", re.IGNORECASE)
_TEXT = "text:"
"""Precedes the hash of a text."""


def plain(text: str, most: int = 4096) -> str:
    """Return text that every reader of UTF-8 can hold, cut to a length."""
    return text.encode("utf-8", "replace").decode()[:most]


def setting_value(name: str, value: Any) -> str | None:
    """Return the value of a setting as text; a hash in place of free text, prompts and credentials.

    Example:
        >>> setting_value("max_num_seqs", 256), setting_value("dtype", "bfloat16"), setting_value("x", None)
        ('256', 'bfloat16', None)
        >>> setting_value("chat_template", "You are a helpful assistant")
        'text:217005ca'
    """
    if value is None:
        return None
    text = str(value)
    if isinstance(value, bool | int | float):
        return text
    secret = _FREE_TEXT.search(name) and not _NOT_FREE.search(name)
    if secret or len(text) > _MOST or not _NAMES.fullmatch(text) or len(text.split(" ")) > _MOST_WORDS:
        return hashed(text)
    return text


def hashed(text: str) -> str:
    """Return what a table holds in place of a text."""
    return f"{_TEXT}{digest(text)}"


def shown(value: str | None) -> str | None:
    """Return what a page shows of a value of a table: of a hash where its text is.

    Example:
        >>> shown("bfloat16"), shown("text:217005ca")
        ('bfloat16', 'in the full report')
    """
    return "in the full report" if value is not None and value.startswith(_TEXT) else value


def digest(text: str) -> str:
    """Return a short hash that distinguishes two texts."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=4).hexdigest()


def release_of(version: str | None) -> str | None:
    """Return the release of a version as printed; None for source builds and what is no version.

    Example:
        >>> release_of("0.11.0+torch271"), release_of("0.8.5.post1"), release_of("0.9.2.dev364+gb432b7a28")
        ('0.11.0', '0.8.5.post1', None)
        >>> release_of("0.1.dev15917+g0a6396b45") is None
        True
    """
    parsed = parse_version(version) if version else None
    if parsed is None or parsed.dev is not None or not parsed.names_a_release:
        return None
    numbers = ".".join(map(str, parsed.release))
    pre = "".join(map(str, parsed.pre)) if parsed.pre else ""
    return f"{numbers}{pre}" + (f".post{parsed.post}" if parsed.post is not None else "")
