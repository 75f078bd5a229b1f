"""Secrets and prompts are masked here, before anything is kept."""

from __future__ import annotations

import re
from typing import NamedTuple

MASK = "***"

# 'api_key': 'abc'   api_key=['abc']   "hf_token": "..."   --api-key abc   HF_TOKEN=abc
_NAMED = re.compile(
    r"(?P<name>(?:\b|--|_)(?:api[_-]?keys?|hf[_-]?token|hf_access_token|auth[_-]?token|access[_-]?token|secret(?:[_-]?(?:access[_-]?)?key)?"
    r"|password|passwd|HUGGING_?FACE_HUB_TOKEN|WANDB_API_KEY|ssl_keyfile_password)[\"']?\s{0,3}[=: ]\s{0,3}\[?)"
    r"(?P<quote>[\"']?)(?P<value>[^\s\"',\])}]{4,400})(?P=quote)",
    re.IGNORECASE,
)
_BEARER = re.compile(
    r"\b(?P<name>Bearer |Authorization[\"']?: ?[\"']?(?:Basic )?)(?P<value>[\w.~+/=-]{8,400})", re.IGNORECASE
)
_URL = re.compile(
    r"(?P<name>\b[a-z][a-z0-9+.-]{1,12}://[^\s/:@\"']{0,100}:)(?P<value>[^\s/@\"']{1,200})@", re.IGNORECASE
)
# Keys that tell themselves by their shape.
_SHAPED = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{30,60}|sk-[A-Za-z0-9_-]{20,200}|nvapi-[A-Za-z0-9_-]{30,100}|AKIA[A-Z0-9]{16}|ghp_[A-Za-z0-9]{30,60}"
    r"|glpat-[A-Za-z0-9_-]{20,60}|xox[bp]-[A-Za-z0-9-]{20,100}|eyJ[\w-]{10,400}\.eyJ[\w-]{10,2000}\.[\w-]{10,400})"
)
_NOT_SECRET = frozenset(
    {
        "none",
        "null",
        "true",
        "false",
        "empty",
        "token-abc123",
        MASK,
        "***",
        "********",
        "[redacted]",
        "<redacted>",
    }
)
# In small letters: one of these stands in every text with a secret, or of the prompts that are masked.
_MARKS = (
    "hf_", "secret", "passw", "bearer ", "authorization", "://", "sk-", "akia", "ghp_", "glpat-", "xox", "eyj", "eceived request",
    "enerated response",
)  # fmt: skip
# The same for names with "api" or "token" in them.
_NAMES = (
    "api_key", "api-key", "apikey", "nvapi-", "hf-token", "hftoken", "auth_token", "auth-token", "authtoken", "access_token",
    "access-token", "accesstoken", "hub_token",
)  # fmt: skip
# Received request cmpl-1: prompt: 'text', params:      Generated response cmpl-1: output: 'text', output_token_ids:
_PROMPT = re.compile(r"(?:Received request|Generated response) [^:]{1,200}: (?:prompt|output): ", re.DOTALL)
_PROMPT_ENDS = (
    ", params: ",
    ", sampling_params: ",
    ", output_token_ids: ",
    ", finish_reason: ",
    ", prompt_token_ids: ",
)


class Masked(NamedTuple):
    """Masked text and the names under which secrets stood in it."""

    text: str
    names: tuple[str, ...]


def mask(text: str) -> Masked:
    """Mask secrets and prompts.

    Example:
        >>> mask("args: Namespace(api_key='s3cr3t-value', port=8000)").text
        "args: Namespace(api_key='***', port=8000)"
        >>> mask("api_key=None").names
        ()
    """
    if not may_hold_secret(text):
        return Masked(text, ())
    if "eceived request" in text or "enerated response" in text:
        text = _without_prompts(text)
    return _masked(text)


def may_hold_secret(text: str) -> bool:
    """Say, at little cost, whether a text may hold what is masked."""
    lowered = text.lower()
    for mark in _MARKS:
        if mark in lowered:
            return True
    if "api" in lowered or "token" in lowered:
        return any(mark in lowered for mark in _NAMES)
    return False


def _without_prompts(text: str) -> str:
    """Replace prompts and answers by their lengths."""
    pieces: list[str] = []
    position = 0
    while head := _PROMPT.search(text, position):
        found = [at for at in (text.find(end, head.end()) for end in _PROMPT_ENDS) if at >= 0]
        until = min(found) if found else len(text)
        pieces += [text[position : head.end()], f"<{until - head.end()} characters>"]
        position = until
    return "".join(pieces) + text[position:] if pieces else text


def _masked(text: str) -> Masked:
    names: list[str] = []

    def named(match: re.Match[str]) -> str:
        if match["value"].lower() in _NOT_SECRET or "token_id" in match["name"].lower():
            return match[0]
        names.append(match["name"].strip(" =:'\"[-_").lower())
        return f"{match['name']}{match['quote']}{MASK}{match['quote']}"

    def bearer(match: re.Match[str]) -> str:
        if match["value"].lower() in _NOT_SECRET:
            return match[0]
        names.append("authorization")
        return f"{match['name']}{MASK}"

    def url(match: re.Match[str]) -> str:
        names.append("password in a URL")
        return f"{match['name']}{MASK}@"

    def shaped(match: re.Match[str]) -> str:
        names.append(match[0].split("_")[0].split("-")[0] + " token")
        return MASK

    for pattern, replace in ((_SHAPED, shaped), (_NAMED, named), (_BEARER, bearer), (_URL, url)):
        text = pattern.sub(replace, text)
    return Masked(text, tuple(dict.fromkeys(names)))
