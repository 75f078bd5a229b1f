"""Secrets and prompts are masked here, before anything is kept.

A credential is recognised by its shape (`secret_shapes`), by its place (a URL, an Authorization header, a cookie) or by the
name before it (`api_key=`, `--hf-token`). Every step takes time linear in the text.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from functools import lru_cache

from msgspec import Struct

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse.secret_names import mask_named, may_hold_name
from vllm_logdoctor.parse.secret_shapes import (
    MASK,
    changes_class,
    line_of_key,
    looks_random,
    mask_shaped,
    may_be_shaped,
)
from vllm_logdoctor.texts import asked_once, shared_start

_LONGEST_REMEMBERED = 16_000
_Replace = Callable[[re.Match[str]], str]

_COMMANDS = (
    "curl",
    "login",
    "sshpass",
    "mysql",
    "redis-cli",
    "alias set",
    "vault ",
    "mongo",
    "htpasswd",
    "chpasswd",
    "add_user",
    "echo ",
    "ldap",
    "from-literal",
)
# In small letters: one of these precedes a secret that its place gives away, or before a prompt.
_PLACES = (
    "bearer",
    "basic ",
    "authorization",
    "://",
    "cookie",
    "headers",
    "eceived request",
    "enerated response",
    "auth(",
    "enter",
    "paste",
    "assword for ",
    "@",
    *_COMMANDS,
)
# Authorization: Bearer abc     'authorization': 'Basic dXNlcjpw'     (b'authorization', b'Bearer abc')     X-Authorization: abc
_AUTHORIZATION = lazy_pattern(
    r"(?P<name>(?<![A-Za-z])(?:(?:Bearer|Basic)(?: |%20)|(?<=\.)BEARER:|(?:Proxy-|X-)?Authorization[\"']?\s?[=:,]\s?b?[\"']?(?:[A-Za-z]{2,12} )?))"
    r"(?P<value>(?:\*{3}(?=:))?[^\s\"',;*=][^\s\"',;]{5,})",
    re.IGNORECASE,
)
# Authorization: Digest username="a", response=abc     Authorization: AWS4-HMAC-SHA256 Credential=..., Signature=abc
_PARAMETERS = lazy_pattern(
    r"(?P<name>\bAuthorization[\"']?\s?[=:,]\s?b?[\"']?)"
    r"(?P<value>(?:Digest|AWS4-[\w-]{1,20}|OAuth|Hawk|SharedKey|[A-Za-z]{3,20}(?=\s[A-Za-z_]{2,20}=))\s[^\n]{8,})",
    re.IGNORECASE,
)
# postgresql://app:p@ss@db/x     https://hf_abc@huggingface.co/x     s3://AK:secret@bucket     and cut: https://user:secret
_URL = lazy_pattern(
    r"\b(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{1,20})://(?:(?P<user>[^\s/?\"'<>]{1,4000})@(?=[\w\[.\s\"'-]|\Z)|(?P<cut>[^\s/?#\"'<>@]{1,4000})\Z)"
)
# redis://:pa/ss@cache:6379     databases' passwords are not always encoded
_DATABASE = lazy_pattern(
    r"\b(?P<scheme>(?:postgres|mysql|mariadb|redis|mongodb|amqp|mssql)[a-z+0-9]{0,20})://(?P<user>[^\s\"'<>:@]{0,80}:[^\s\"'<>@]{1,400})@(?=[\w\[.-])"
)
# 'otlp_traces_headers': 'x-team=abc,x-tenant=def'
_HEADERS = lazy_pattern(
    r"(?P<name>headers[\"']?\s?[=:]\s?[\"'])(?P<value>[\w-]{1,80}=[^\"'\n]{1,4000})", re.IGNORECASE
)
# Cookie: session=abc; theme=dark
_COOKIE = lazy_pattern(
    r"(?P<name>\b(?:Set-)?Cookie[\"']?\s?[=:,]\s?b?[\"']?)(?P<value>[\w.%-]{1,80}=[^\"'\n]{4,})",
    re.IGNORECASE,
)
# curl -u user:password     sshpass -p abc     docker login -p abc     wandb login abc     mysql -u root -pabc     redis-cli -a abc
# mc alias set s3 URL user abc     vault kv put secret/hf value=abc
_COMMAND = lazy_pattern(
    r"(?P<name>\bcurl\b[^|;\n]{0,200}?\s(?:-u|--user)[ =]?[\"']?[^\s:'\"]{1,80}:|\bsshpass\s{1,3}-p\s?[\"']?"
    r"|\blogin\b[^|;\n]{0,120}?\s-(?:[pk]|-token|-key)[ =]?[\"']?|\bvault login (?:-\S{1,40} ){0,4}|--from-literal[= ][\w.-]{1,80}="
    r"|\bwandb login (?:--[\w-]{1,40} ){0,4}(?!-)|\bmysql(?:dump|admin)?\b[^|;\n]{0,120}?\s-p[\"']?(?=\S)"
    r"|\bredis-cli\b[^|;\n]{0,120}?\s(?:-a|--pass)[ =][\"']?|\balias set \S{1,40} \S{1,200} \S{1,80} "
    r"|\bmongo(?:sh|dump|restore)?\b[^|;\n]{0,120}?\s-p[ =]?[\"']?"
    r"|\bhtpasswd -\w{1,6} (?:\S{1,200} )?\S{1,80} |\badd_user \S{1,80} "
    r"|\bldap\w{1,10}\b[^|;\n]{0,120}?\s-w[ =]?[\"']?"
    r"|\becho [\"']?(?:\w{1,40}:)?(?=[^\s:]{1,200} \| \S{0,20}\b(?:chpasswd|sudo -S|kinit|passwd|\w{1,20} login)\b)"
    r"|\bvault (?:kv put|write)\b[^|;\n]{0,120}?\s[\w-]{1,40}=)(?P<value>[^\s\"'|;*][^\s\"']{3,})"
)
# auth=HTTPBasicAuth('bob', 'abc')     huggingface_hub.login('abc')     Enter your token (input will not be visible): abc
_CALL = lazy_pattern(
    r"(?P<name>\b\w{0,20}Auth\([\"'][^\"']{1,80}[\"'],\s?[\"']|\blogin\([\"']"
    r"|\b[Pp]ass(?:word|phrase) for '[^'\n]{1,200}': "
    r"|\b(?:[Ee]nter|[Pp]aste) [^:]{0,120}\b(?:token|key|password)\b[^:]{0,120}: )"
    r"(?P<value>[^\s\"'*]{8,})"
)
# .pgpass: db.example.com:5432:prod:app:abc
_PGPASS = lazy_pattern(
    r"(?P<name>(?<![\w.*:-])[\w.*-]{1,80}:(?:[0-9]{2,5}|\*):(?:(?=[\w-]{0,39}[A-Za-z*])[\w*-]{1,40}:){2})"
    r"(?P<value>[^\s:]{6,})"
)
# bob:Abc123@node     but not image:tag@sha256:abc
_USER = lazy_pattern(
    r"(?P<name>(?<![\w./@:-])[A-Za-z][\w.-]{0,40}:)"
    r"(?P<value>(?=[^\s@]{0,79}[a-z])(?=[^\s@]{0,79}[A-Z])(?=[^\s@]{0,79}[0-9])[^\s:@/\"',;()<>]{8,80})(?=@(?!sha256)[\w-])"
)
# https://k3v7q2...@pkgs.example/simple: letters of one case and digits
_TOKEN_AS_USER = lazy_pattern(r"(?=[a-z]*[0-9])(?=[0-9]*[a-z])[a-z0-9]{32,}", re.IGNORECASE)
_HEX_AND_DASHES = lazy_pattern(r"[0-9a-f-]+")
# GET /cb?code=abc     code=abc&state=x
_QUERY = lazy_pattern(
    r"(?P<name>[?&][\w.-]{1,40}=|(?<![\w.-])[\w.-]{1,40}=(?=[\w-]{16,200}&))(?P<value>[A-Za-z0-9_-]{16,})(?=[&\s\"'#]|\Z)"
)
# https://host/hook/abc     https://host/t/abc/channel
_URL_PATH = lazy_pattern(
    r"(?P<name>://[^\s?\"']{1,200}?/(?:hooks?|webhooks?|t|tokens?|api_?keys?|secrets?)/)"
    r"(?P<value>(?=[\w-]{0,40}[0-9])[\w-]{16,})"
)
# Received request cmpl-1: prompt: 'text', params:      Generated response cmpl-1: output: 'text', output_token_ids:
_PROMPT = lazy_pattern(r"(?:Received request|Generated response) [^:]{1,200}: (?:prompt|output): ", re.DOTALL)
_PROMPT_ENDS = (
    ", params: ",
    ", sampling_params: ",
    ", output_token_ids: ",
    ", finish_reason: ",
    ", prompt_token_ids: ",
)


_KEY_LETTERS = string.ascii_letters + string.digits + "+/"
_SHORT_KEY_LINE = 16
_LONG_KEY_LINE = 40
_LONGEST_HEAD = 400
_DIGITS = bytes.maketrans(b"123456789", b"0" * 9)
_KEY_HEADERS = ("Proc-Type:", "DEK-Info:", "Comment:", "Version:")
# args: api_key=     - name: DB_PASSWORD     - --api-key     "--api-key",     api_key
_NAME_AT_END = lazy_pattern(
    r"(?:^|[\s\"'{,])(?P<name>-{0,2}[A-Za-z][\w.-]{2,80})[\"']?\s?(?P<assign>[:=]?)\s?(?:,|[|>][-+]?|\{|\\)?\Z"
)
# Zq7hTk2L     - Zq7hTk2L     value: Zq7hTk2L     "value": "Zq7hTk2L",
# Input should be None [type=none_required, input_value='Zq7hTk2L', input_type=str]
_VALUE_LINE = lazy_pattern(
    r"\s*(?P<item>-\s{1,8})?(?P<named>[\"']?value[\"']?\s?[:=]\s?|.{0,200}\binput_value=)?[\"']?(?P<value>[^\s\"',]{3,})[\"']?(?(named)[,\s\]].*|,?\s*(?:\s(?:\\|-{1,2}[a-z].{0,400}))?)?\Z"
)
# host1: Zq7hTk2L     (EngineCore pid=7) - Zq7hTk2L     [core.py:7] value: Zq7hTk2L     host1: ----
_VALUE_OR_HEAD = lazy_pattern(
    r"(?:\A|[:)\]|] )(?:[\s=_-]*\Z|\s*(?:-\s{1,8})?[\"']?(?:value[\"']?\s?[:=]|[^\s\"',]{3,}[\"']?,?\s*(?:\s(?:\\|-{1,2}[a-z].{0,400}))?\Z))"
    r"|\binput_value="
)
_WRAPPED_FROM = 60
"""Characters of a line from which a terminal may have broken it."""
_WRAPPED_REST = lazy_pattern(r"\s{0,8}[A-Za-z0-9+/=_-]{3,}")
_FEW_WORDS = 7
_RULE = string.whitespace + "-=_"
_BARE_NAME = lazy_pattern(
    r"(?:key|token|secret|pass[a-z]{0,6}|pwd|cred|auth)s?[\"']?\s{0,3}[=:,|]?-?\s{0,3}\Z"
)


class Masked(Struct, frozen=True, gc=False):
    """Masked text and the kinds of secrets that were in it: never a part of one."""

    text: str
    names: tuple[str, ...]


def mask(text: str) -> Masked:
    """Mask secrets and prompts.

    Example:
        >>> mask("args: Namespace(api_key='s3cr3t-value', port=8000)")
        Masked(text="args: Namespace(api_key='***', port=8000)", names=('API key',))
        >>> mask("api_key=None").names
        ()
    """
    if not may_hold_secret(text):
        return Masked(text, ())
    return _remembered(text) if len(text) <= _LONGEST_REMEMBERED else _masked(text)


def _masked(text: str) -> Masked:
    if "eceived request" in text or "enerated response" in text:
        text = _without_prompts(text)
    kinds: dict[str, None] = {}
    text = mask_shaped(text, kinds)
    text = _mask_places(text, kinds)
    if may_hold_name(text):
        text = mask_named(text, kinds)
    return Masked(text, tuple(kinds))


# A line that is printed again and again, by every rank.
_remembered = lru_cache(maxsize=1024)(_masked)


@asked_once
def may_hold_secret(text: str) -> bool:
    """Return, at little cost, whether a text may hold what is masked."""
    lowered = text.lower()
    if any(map(lowered.__contains__, _PLACES)):
        return True
    return may_hold_name(text) or may_be_shaped(text, lowered) or _BARE_NAME.search(lowered[-40:]) is not None


class OpenSecret(Struct, frozen=True):
    """What the next line may go on with: lines of a private key, or the value of a name.

    Attributes:
        name: of the value; "" for a private key.
        assigned: an equals sign or a colon is behind the name: any value belongs to it, not only one that looks generated.
        before: the beginning of the line, up to where a private key begins, all its digits made the same.
        wrapped: the value fills the line to its end: a terminal may have broken it.
    """

    name: str
    assigned: bool = False
    before: str = ""
    wrapped: bool = False

    def without_rest(self, text: str) -> tuple[str, OpenSecret | None]:
        """Return a line with what continues the secret masked, and what the line after it may continue.

        Example:
            >>> OpenSecret("api_key", True).without_rest("Zq7hTk2Lw9XbV3nR")
            ('***', None)
        """
        may_hold_value = _may_hold_value(text)
        end = self._end_of_head(text) if may_hold_value else 0
        if may_hold_value and not text[end:].strip(_RULE):
            return text, self
        if self.wrapped:
            rest = _WRAPPED_REST.match(text)
            return (f"{MASK}{text[rest.end() :]}" if rest and changes_class(rest[0]) else text), None
        if not self.name:
            return self._without_key_line(text)
        found = (_VALUE_LINE.match(text) or _VALUE_LINE.match(text, end)) if may_hold_value else None
        if found is None:
            return text, None
        assigned = self.assigned or found["item"] or found["named"]
        between = "=" if assigned else " " if self.name.startswith("--") else " is "
        if not mask(f"{self.name}{between}{found['value']}").names:
            return text, None
        return f"{text[: found.start('value')]}{MASK}{text[found.end('value') :].rstrip()}", (
            self if found["item"] else None
        )

    def _end_of_head(self, text: str) -> int:
        """Return where the host, the process or the header ends that precedes both lines."""
        shared = shared_start(self.before, _without_digits(text))
        return max(text.rfind(end, 0, shared) + 2 for end in (": ", ") ", "] ", "| "))

    def _without_key_line(self, text: str) -> tuple[str, OpenSecret | None]:
        if text.strip().startswith(_KEY_HEADERS):
            return text, self
        # MIIEpAIBAAKCAQEA...: a line of a private key; the last one is shorter.
        line = text.rstrip()
        lead = line.rstrip("=").rstrip(_KEY_LETTERS)
        value = line[len(lead) :]
        if "-----END" in text or (len(value) < _SHORT_KEY_LINE and not value.strip(_KEY_LETTERS)):
            return text, None
        if len(value) < _LONG_KEY_LINE and _without_digits(lead) != self.before:
            return text, None
        return f"{lead}{MASK}", self


def open_secret(text: str, message: str) -> OpenSecret | None:
    """Return the secret that a line of a log begins and the next one may continue, or None.

    Example:
        >>> open_secret("  - name: DB_PASSWORD", "  - name: DB_PASSWORD").name
        'DB_PASSWORD'
    """
    begin = text.find("-----BEGIN")
    if begin >= 0 and "PRIVATE KEY" in text and "-----END" not in text:
        return OpenSecret("", before=_without_digits(text[:begin]))
    if key := line_of_key(message):
        return OpenSecret("", before=_without_digits(text[: text.rfind(key)]))
    found = _name_at_end(message[-200:])
    return None if found is None else OpenSecret(*found, _without_digits(text))


@asked_once
def _may_hold_value(text: str) -> bool:
    """Return whether a line may be the value of a name before it, or a head with nothing or a rule behind it."""
    return _VALUE_OR_HEAD.search(text) is not None


def wrapped_secret(text: str, masked: str) -> OpenSecret | None:
    """Return the secret at the end of a line that is as wide as a terminal, whose rest the next line may hold, or None."""
    wide = len(text) >= _WRAPPED_FROM and masked.rstrip().endswith(MASK) and not text.rstrip().endswith("*")
    return OpenSecret("", wrapped=True) if wide else None


@asked_once
def _name_at_end(text: str) -> tuple[str, bool] | None:
    """Return the name of a credential that a text ends in, on its own, in few words or assigned, and whether it is; its digits may be 1."""
    end = text.rstrip()
    if not end.endswith(("=", ":")) and len(end.split(None, _FEW_WORDS)) > _FEW_WORDS:
        return None
    found = _NAME_AT_END.search(end)
    if found is None or not may_hold_name(f"{found['name']}=aaaaaaaaaaaa"):
        return None
    return found["name"], bool(found["assign"])


def _without_digits(text: str) -> str:
    """Return the beginning of a text with all digits made the same; in bytes, whose table is a hundred times faster than that of text."""
    known = text[:_LONGEST_HEAD].encode("utf-8", "surrogatepass")
    return known.translate(_DIGITS).decode("utf-8", "surrogatepass")


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


class _Place(Struct, frozen=True):
    """What precedes a secret: one of these texts in small letters is in the line, and whether the value must look generated."""

    marks: tuple[str, ...]
    pattern: re.Pattern[str]
    kind: str
    generated: bool = False


# containerID: cri-o://8f0c...      Container ID:  docker://8f0c...
_RUNTIMES = frozenset({"cri-o", "containerd", "docker", "podman"})
_PRECEDED = (
    _Place(("authorization",), _PARAMETERS, "Authorization header"),
    _Place(("bearer", "basic", "authorization"), _AUTHORIZATION, "Authorization header"),
    _Place(("://",), _URL_PATH, "token in a URL"),
    _Place(("?", "&"), _QUERY, "request parameter", generated=True),
    _Place(("cookie",), _COOKIE, "cookie"),
    _Place((":",), _PGPASS, "password"),
    _Place(_COMMANDS, _COMMAND, "password"),
    _Place(("auth(", "login(", "enter", "paste", "assword for "), _CALL, "password"),
    _Place(("@",), _USER, "password"),
)


def _mask_places(text: str, kinds: dict[str, None]) -> str:
    def url(match: re.Match[str]) -> str:
        user, colon, password = (match["user"] or match["cut"]).partition(":")
        # git@host and user@host name nobody's password; a port before a path is none either.
        if colon and (not password or password.strip("*") == "" or re.match(r"\d{1,5}(?:/|\Z)", password)):
            return match[0]
        if match["scheme"].lower() in _RUNTIMES and re.fullmatch(
            r"[0-9a-f]{12,64}", match[0].partition("://")[2]
        ):
            return match[0]
        # Without a password, or without the end of one, only what looks generated, or is longer than the name of a user, is a secret.
        whole = match[0].endswith("@")
        if (
            not (colon and whole)
            and not looks_random(password or user)
            and not (whole and _TOKEN_AS_USER.fullmatch(user))
        ):
            return match[0]
        kinds["password in a URL"] = None
        return f"{match['scheme']}://{user + ':' if colon else ''}{MASK}{'@' if whole else ''}"

    def headers(match: re.Match[str]) -> str:
        kinds["request header"] = None
        return match["name"] + re.sub(r"=[^,]+", f"={MASK}", match["value"])

    lowered = text.lower()
    if "://" in text:
        text = _DATABASE.sub(url, _URL.sub(url, text))
    if "headers" in lowered:
        text = _HEADERS.sub(headers, text)
    for place in _PRECEDED:
        if any(map(lowered.__contains__, place.marks)):
            text = place.pattern.sub(_replacing(place, kinds), text)
    return text


def _replacing(place: _Place, kinds: dict[str, None]) -> _Replace:
    """Return what replaces a value behind its name, unless it is a word, a variable, an id of a user or masked."""

    def replace(match: re.Match[str]) -> str:
        value = match["value"]
        # Authorization: required     docker run -u 1000:1000     curl -u user:$PASSWORD
        if (
            value.strip("*") == ""
            or value.isdigit()
            or value[0] in "$<{"
            or (value.rstrip(":.!?").isalpha() and value[1:].islower())
            or (place.generated and (_HEX_AND_DASHES.fullmatch(value) or not looks_random(value)))
        ):
            return match[0]
        kinds[place.kind] = None
        return f"{match['name']}{MASK}"

    return replace
