"""Credentials that follow a name: `api_key='...'`, `--hf-token ...`, `"password": "..."`, `?sig=...`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse.secret_shapes import MASK, looks_random, mixes_letters
from vllm_logdoctor.texts import asked_once

# Each alternative begins with a character of its own: the search skips all others.
_WORD = (
    r"(?:key|token|secret|pass(?:wor[dt]|wd|phrase|code)?|pwd|credential|cred|signature|sig|auth|jwt|session|webhook|pat|connection[_-]?string"
    r"|p(?:w|sk)(?:(?<![a-z]pw)|(?<=[td]pw))(?<![a-z]psk)(?![a-z])|tok(?<![a-z]tok)(?![a-z])|sid(?<![a-z]sid)(?![a-z])"
    r"|honeycomb-team|samlresponse|\u5bc6[\u7801\u94a5])"
)
# HF_TOKEN_2     API_KEY_PROD     client-key-data     and with words that say nothing: API_KEY_OPENAI
_CORE = (
    rf"(?P<core>{_WORD}s?(?:[ _-]?id|[_-]?(?:value|data|prod|dev|test|live|staging|base[0-9]{{2}}|[0-9]{{1,3}}))?)"
    rf"(?P<suffix>(?:[_-](?!{_WORD})[a-z0-9]{{1,12}}){{0,6}})"
)
# Digits of an encoded character (%3D) may be 1: `may_hold_name` is called with texts whose digits were made the same.
_CLOSE = (
    # api_key='abc'     "api_key": "abc"     \"api_key\": \"abc\"     config["api_key"] = "abc"     \x22api_key\x22: \x22abc\x22
    r"(?P<close>\\{0,3}[\"'`]\]?|\\{1,3}(?:u00|x)[12][127]"
    # %22api_key%22:     **api_key**:     ('api_key', 'abc')     get_token() = abc     api_key (str): abc
    r"|%(?:[12][15]){0,2}[12][127]|\(?[\])]|\*{1,2}|\s\(\w{2,12}\)(?=:))?"
)
_ASSIGN = (
    # api_key -> abc     | api_key   | abc |     api_key: str = "abc"     api_key = abc     api_key%3Dabc
    r"(?P<assign>\s{0,40}(?:=>|->|[|\u2502\u2503\u21d2\u2190\uff1a]|:\s?[a-z]{2,10}\s=|[=:]=?|%(?:[12][15]){0,2}[13][ad]"
    # <key>api_key</key><string>abc     <Password Type="text">abc     <password>abc     password: &anchor abc     {"api_key": {"value": "abc"}}
    r"|</\w{1,6}>\s{0,3}<\w{1,6}>|(?:\s\w{1,20}=\"[^\"]{0,80}\")?>(?!=))(?:%[12]0|\s{0,40})(?:[&!][a-z]\w{0,20}\s|<!\[cdata\[|\{\"value\":\s?)?"
    # <add key="ApiSecret" value="abc"/>     {"name": "HF_TOKEN", "value": "abc"}     ('api_key', b'abc')
    r"|(?:,\s?|\s)\\{0,3}[\"']?value\\{0,3}[\"']?\s?[=:]\s?|\s?,\s?(?=[bu]?\\{0,3}[\"']))"
)
# Incorrect API key provided: abc     the password is abc     using token abc     HF_TOKEN is set to "abc"     expected a token, got abc
_VERBAL = r"(?P<verbal>,?[\s.]{1,40}(?:(?:provided|is|was|set to|given|got|used|value|mismatch|rejected|received):?\s){0,2}(?=\S{12}))"
_ASSIGNED = re.compile(rf"{_CORE}(?:{_CLOSE}{_ASSIGN}|{_VERBAL})")
# --api-key abc     --api-key a b c
_OPTION = lazy_pattern(
    r"(?<![\w-])--(?=[a-z])[a-z0-9-]{0,40}?" + _CORE + r"(?P<close>)(?P<assign>[\s\0]{1,3})(?P<verbal>)(?=\S)"
)
# A value behind one of these is a credential unless it is a placeholder or code. Behind the others, it is one if it looks generated: most tokens
# and keys of an engine are no secrets.
_STRONG = lazy_pattern(
    r"(?:passwor[dt]|passwd|passphrase|passcode|pwd|pw|psk|secret|jwt|connection|honeycomb)"
)
_STRONG_KEY = lazy_pattern(
    r"(?:api|access|secret|private|account|signing|encryption|master|license|subscription|consumer|storage)[ _-]?(?:access)?[_-]?\Z"
)
_STRONG_TOKEN = lazy_pattern(
    r"(?:hf|hub|auth|access|refresh|bearer|id|session|security|bot|csrf|xsrf|service|job|personal|api|login|oauth2?|jwt|user|admin|push|deploy|write"
    r"|read|secret|registry|vault|github|gitlab|git|ray|mlflow|wandb|influx|slack|notebook|jupyter|sas)[ _-]?\Z"
)
# SSHPASS=abc     but not compile_pass=abc
_STRONG_PASS = lazy_pattern(
    r"(?:ssh|db|sql|user|root|admin|ldap|smtp|mail|redis|ftp|proxy|login|bind|store)[ _-]?\Z"
)
_UUID = lazy_pattern(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_ALL_KINDS = lazy_pattern(r"(?=.*[a-z])(?=.*[A-Z])(?=.*\d)")
# Zebra17$     but not Qwen2ForCausalLM
_ODD_WORD = lazy_pattern(r"(?=.*[a-z])(?=.*[A-Z])(?=.*\d)(?=.*[!#$%&*?^~])[!-~]+\Z")
_NEXT_ARGUMENT = lazy_pattern(r",\s[a-z_]{3,40}=(?:None|True|False|\d|\[)")
# total_num_scheduled_tokens=6, scheduled_spec_decode_tokens={cmpl-1: ...     but not API_KEYS=one=abc,two=def
_ASSIGNMENT = lazy_pattern(r"[A-Za-z_]\w{1,60}=[^=]")
# tokens={'abc', 'def'}     but not {'user': 'abc'}
_SET = lazy_pattern(r"\{[\"'][^\s\"']{3,400}[\"'][,}]")
_BETWEEN = lazy_pattern(r"\\{0,3}[\"'`]?\s{0,3},?\s{0,3}")
_QUOTE = lazy_pattern(r"[bu]?(?P<quote>\\{0,3}[\"'`]|\\{1,3}(?:u00|x)2[27]|%(?:25){0,2}2[27])", re.IGNORECASE)
# PWD={Zq7hTk2L};     but password={password}
_BRACED = lazy_pattern(
    r"(?:\{(?=[^{}]{0,200}\})|<(?=[^<>]{0,200}>))(?P<value>(?=[^{}]{0,80}\d)[^\s\"',:{}<>]{6,200})[}>]"
)
_BARE = lazy_pattern(r"(?:[^\s\0\"'`,;&)\]}<>|\\]|\\(?![nrtux0\"'`\\])(?=\w))+")
# api_key%3Dabc%26port%3D1
_BARE_ENCODED = lazy_pattern(r"[^\s\"'`,;&)\]}<>|\\%]+")
# max_tokens, pad_token, cache_key, k_key: names that end like one of a credential and are none; but not facebook_token
_OTHER_NAMES = lazy_pattern(
    r"(?:pad|eos|bos|unk|mask|sep|cls|image|video|audio|stop|special|start|end|think|prompt|cache|hash|block|sort|primary|foreign|public|prefix|lookup"
    r"|partition|routing|layer|dict|group|param|model|compile|graph|request|query|config|env|feature|metric|label|num|max|min|new"
    r"|(?<![a-z])(?:kv|k|q|v))[ _-]?\Z"
)
# requestor.request(     Optional[str     self.api_key
_CODE = lazy_pattern(r"[A-Za-z_][\w.]*[(\[{]")
_WORDS = lazy_pattern(r"[A-Za-z]+(?:[-_.:/][A-Za-z]+)*[.:!?]*\Z")
_TAG = lazy_pattern(r"<[\w:.-]{0,24}\Z|[-_]\Z")
_LONG_WORD = 16
_IN_QUERY = lazy_pattern(r"[?&#][a-z0-9_.-]{0,20}\Z")
_PATH = lazy_pattern(r"(?:~|\.{0,2}/)[\w.@ /-]*\Z")
_HEX = lazy_pattern(r"[0-9a-f]{16,}\Z")
# qmqafwyrlgokvs2vwd3a3mj5dfvjsyqy: digits in three places, and no digest
_OF_ONE_CASE = lazy_pattern(r"(?=[0-9a-f_-]*[g-z])(?=[0-9a-z_-]{20,}\Z)[0-9_-]*(?:[a-z_-]+[0-9]+){3}")
# curzewun661zqg8: what a token that nothing but its name shows to be one may look like
_LETTERS_AND_DIGITS = lazy_pattern(r"(?=[a-z]*[0-9][a-z]*[0-9])(?=[0-9]*[a-z])[a-z0-9]{12,}\Z")
# $TOKEN     ${TOKEN}
_VARIABLE = lazy_pattern(r"\$\{?[A-Za-z_]\w*\}?\Z")
# EMPTY     APIKEY_REDACTED     sk-xxxxxxxx     your-api-key     and in an expression of sed: \(HF_TOKEN="\)[^"]*
_PLACEHOLDER = lazy_pattern(
    r"\A(?:none|null|nil|true|false|empty|undefined|unset|default|dummy|token-abc123|no-key|not-set|required|optional|missing|invalid|hidden|masked|str"
    r"|int|bool|bytes|string|secretstr|any|yes|no|\.{3}|[\w-]{0,20}(?:api|hf)[_-](?:key|token)"
    r"|(?:[a-z]{2,6}[-_])?x{4,})\Z|redacted|placeholder|change-?me|\\\)|\[\^|\Ayour[-_ ]",
    re.IGNORECASE,
)
_KINDS = (("api", "API key"), ("pass", "password"), ("pwd", "password"), ("token", "token"), ("jwt", "token"), ("secret", "secret"),
    ("sig", "signature"), ("key", "key"))  # fmt: skip


class _ValueSpan(Struct, frozen=True, gc=False):
    """Where a value begins and ends in the text, and whether quotes hold it."""

    start: int
    end: int
    quoted: bool


@asked_once
def may_hold_name(text: str) -> bool:
    """Return, at little cost, whether a text may hold the name of a credential with a value behind it."""
    lowered = _lowered(text)
    return _ASSIGNED.search(lowered) is not None or ("--" in lowered and _OPTION.search(lowered) is not None)


def mask_named(text: str, kinds: dict[str, None]) -> str:
    """Mask the values that follow names of credentials.

    Example:
        >>> mask_named("launched: vllm serve m --api-key first1 second2 --port 8000", {})
        'launched: vllm serve m --api-key *** *** --port 8000'
        >>> mask_named("api_key = requestor.request(", {})
        'api_key = requestor.request('
    """
    for names in (_OPTION, _ASSIGNED) if "--" in text else (_ASSIGNED,):
        text = _masked_behind(names, text, kinds)
    return text


def _masked_behind(names: re.Pattern[str], text: str, kinds: dict[str, None]) -> str:
    lowered = _lowered(text)
    pieces: list[str] = []
    kept = position = 0
    while name := names.search(lowered, position):
        position = name.end()
        for value in _values(text, name, names is _OPTION):
            if not _is_credential(text, name, value):
                continue
            kinds[_kind(lowered[max(0, name.start("core") - 4) : name.end("core")])] = None
            pieces += [text[kept : value.start], MASK]
            kept = position = value.end
    return "".join(pieces) + text[kept:] if pieces else text


def _lowered(text: str) -> str:
    """Return a text with its ASCII letters small: every character stays at its place."""
    if text.isascii():
        return text.lower()
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def _values(text: str, name: re.Match[str], option: bool) -> Iterator[_ValueSpan]:
    """Yield the values behind a name: one, all of a list, or all words behind an option that takes several."""
    at = name.end()
    if text.startswith("SecretStr(", at):
        at += len("SecretStr(")
    if text[at : at + 1] in ("[", "(") or _SET.match(text, at):
        yield from _listed(text, at + 1)
        return
    value = _value_at(text, at)
    if value is None:
        return
    # api_key='sk-abc, lora_modules=None: the closing quote is lost, other arguments follow
    cut = _NEXT_ARGUMENT.search(text, value.start, value.end) if value.quoted else None
    if cut is not None:
        yield _ValueSpan(value.start, cut.start(), True)
        return
    yield value
    # API_KEYS=abc,def     ('api_key', 'abc', 'def')     --api-key abc def; but num_scheduled_tokens={chatcmpl-1f: 1, chatcmpl-2e: 1}
    first = text[value.start : value.end]
    of_ids = first.startswith("{") and first.endswith(":")
    plural = not (value.quoted or of_ids) and name["core"].endswith(
        ("keys", "tokens", "secrets", "passwords")
    )
    several = plural or "," in (name["assign"] or "") or (option and "key" in name[0])
    while several:
        after = _BETWEEN.match(text, value.end)
        following = _value_at(text, after.end()) if after and after.end() > value.end else None
        if following is None or following.quoted != value.quoted or text.startswith("-", following.start):
            return
        if not re.search(r"\d", text[following.start : following.end]):
            return
        if _ASSIGNMENT.match(text, following.start) and not _ASSIGNMENT.match(first):
            return
        yield following
        value = following


def _listed(text: str, at: int) -> Iterator[_ValueSpan]:
    """Yield the values of a list up to its end."""
    while (value := _value_at(text, at)) is not None:
        yield value
        closing = _BETWEEN.match(text, value.end)
        if closing is None or "," not in closing[0]:
            return
        at = closing.end()


def _value_at(text: str, at: int) -> _ValueSpan | None:
    braced = _BRACED.match(text, at)
    if braced is not None:
        return _ValueSpan(braced.start("value"), braced.end("value"), False)
    quote = _QUOTE.match(text, at)
    if quote is None:
        encoded = text.startswith("%", at - 3) or text.startswith("%", at - 5)
        bare = (_BARE_ENCODED if encoded else _BARE).match(text, at)
        return _ValueSpan(bare.start(), bare.end(), False) if bare else None
    end = text.find(quote["quote"], quote.end())
    while end > 0 and text[end - 1] == "\\" and not quote["quote"].startswith("\\"):
        end = text.find(quote["quote"], end + 1)
    # password: 'it''s 17 long'     YAML doubles the quotes that are in a value
    while quote["quote"] == "'" and end > quote.end() and text.startswith("''", end):
        end = text.find("'", end + 2)
    return _ValueSpan(quote.end(), end if end >= 0 else len(text.rstrip()), True)


def _is_credential(text: str, name: re.Match[str], value: _ValueSpan) -> bool:
    found = text[value.start : value.end].strip()
    if (
        len(found) < 3
        or _PLACEHOLDER.search(found)
        or len(set(found)) < 2
        or found[0] in "<{%"
        or (found[0] == "$" and (found[1] in "({" or _VARIABLE.match(found)) and not looks_random(found))
    ):
        return False
    before = _lowered(text[max(0, name.start("core") - 24) : name.start("core")])
    # A part of it may be masked for its shape.
    if name["verbal"] or MASK in found:
        found = found.replace(MASK, "")
        said = name["core"].startswith("passw") and _ALL_KINDS.match(found) is not None
        return said or (looks_random(found) and _OTHER_NAMES.search(before) is None)
    if name["core"].startswith(("session", "sid")) and _UUID.fullmatch(found):
        return False
    # A name that goes on may be one of something else: only what no digest looks like is a credential.
    if name["suffix"]:
        return looks_random(found) and not found.islower() and not found.isupper()
    separator = name["assign"]
    # <password>abc</password>, but not password > abc
    if separator.strip() == ">" and _TAG.search(before) is None:
        return False
    if not _is_strong(name["core"], before):
        in_query = _IN_QUERY.search(before) is not None and len(found) >= 6 and _WORDS.match(found) is None
        of_one_kind = found.isdigit() or found.isalpha()
        is_hex = "key" not in name["core"] and not of_one_kind and _HEX.match(found) is not None
        generated = (
            looks_random(found)
            or is_hex
            or _OF_ONE_CASE.match(found) is not None
            or (name["core"].startswith("token") and _is_unlike_words(found))
            or (len(found) >= _LONG_WORD and mixes_letters(found))
            or (value.quoted and len(found) >= 8 and _ODD_WORD.match(found) is not None)
        )
        return in_query or (generated and _OTHER_NAMES.search(before) is None)
    if _PATH.match(found) is not None and not looks_random(found):
        return False
    if value.quoted:
        return "," not in separator or "value" in separator or _WORDS.match(found) is None
    return _bare_is_credential(text, name, found, value.end)


def _is_unlike_words(found: str) -> bool:
    """Return whether a value is letters and digits without an order, a UUID, or has a part that looks generated: 25983-HAebkMROqtKT2UQnfe."""
    known = _LETTERS_AND_DIGITS.match(found) or _UUID.fullmatch(found)
    return known is not None or any(map(looks_random, found.split("-")))


def _is_strong(core: str, before: str) -> bool:
    if core.startswith("key"):
        return _STRONG_KEY.search(before) is not None
    if core.startswith("token"):
        return _STRONG_TOKEN.search(before) is not None
    return (_STRONG_PASS.search(before) if core == "pass" else _STRONG.match(core)) is not None


def _bare_is_credential(text: str, name: re.Match[str], found: str, end: int) -> bool:
    """Distinguish a credential without quotes from code and prose: api_key=self.key, api_key = f(x), password: required."""
    # Of a variable of the environment any word is the value: HF_TOKEN=abc
    if name["assign"] == "=" and text[name.start("core") : name.end("core")].isupper():
        return True
    code = _CODE.match(found)
    if code is not None:
        return looks_random(code[0])
    if found.isdigit():
        return len(found) >= 4 and (name["assign"].strip() != ":" or name["core"].startswith("passw"))
    if _WORDS.match(found) is None or mixes_letters(found):
        return "_" not in found or not found.isidentifier() or looks_random(found)
    if name["assign"] == "=":
        # An argument of a call is most often a name.
        return "." not in found and "_" not in found and text[end : end + 1] not in (",", ")")
    if name["assign"].isspace():
        return (
            " --" in text[end:]
            or "serve" in text[: name.start()]
            or (len(found) >= 16 and found.isalpha() and not found.islower() and not found[1:].islower())
        )
    return False


def _kind(name: str) -> str:
    return next((kind for mark, kind in _KINDS if mark in name), "credential")
