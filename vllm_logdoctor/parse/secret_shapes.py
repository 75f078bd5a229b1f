"""Credentials that are recognised by their shape: prefixes and formats that providers document."""

from __future__ import annotations

import base64
import json
import re

from vllm_logdoctor.lazy import lazy_pattern

MASK = "***"
_PREFIXED = "token"

# Kind and expression behind the beginning of a word. Each is a literal with one run of characters behind it, nothing nested: linear time.
_WORDS: tuple[tuple[str, str], ...] = (
    ("AWS access key", r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    ("Hugging Face token", r"hf_(?:[a-z]{2,8}_)?(?:[A-Za-z0-9]{20,}[\w.-]*|[A-Za-z0-9]{8,19}(?<=[A-Z0-9])\Z)"),
    ("Google key", r"(?:AIza[\w-]{30,}|ya29\.[\w.-]{20,}|GOCSPX-[\w-]{20,})"),
    ("GitHub token", r"(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,})"),
    ("GitLab token", r"(?:gl[a-z]{2,6}-[\w.-]{20,}|GR1348941[\w-]{20,})"),
    ("Slack token", r"(?:(?:xox[a-z]|xapp)-[\w.-]{10,}|hooks\.slack\.com/(?:services|workflows|triggers)/[\w/+-]{20,})"),
    ("Discord token", r"(?:[MNO][A-Za-z0-9]{23,25}\.[\w-]{6,7}\.[\w-]{27,}|discord(?:app)?\.com/api/webhooks/[0-9]{10,}/[\w-]{30,})"),
    ("Telegram token", r"(?:bot)?[0-9]{8,10}:AA[\w-]{30,}"),
    ("SendGrid key", r"SG\.[\w-]{16,}\.[\w-]{16,}"),
    ("Terraform token", r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{40,}"),
    ("Azure secret", r"[A-Za-z0-9][\w~.-]{2}\dQ~[\w~.-]{30,}"),
    ("JSON web token", r"eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*){0,3}"),
    ("encoded credentials", r"(?:eyJ|ZXlK)[\w+/-]{40,}={0,2}"),
    ("PASETO token", r"v[1-4]\.(?:public|local)\.[\w-]{30,}"),
    ("API key", r"(?:dapi[a-f0-9]{32}|LTAI[A-Za-z0-9]{12,}|AKID[A-Za-z0-9]{13,}|ALTAK-[\w/-]{20,}|AQVN[\w-]{35,}|SK[a-f0-9]{32}\b"
        r"|EAAA[\w-]{50,}|AGE-SECRET-KEY-[A-Z0-9]{30,}|ATATT[\w=-]{30,}|dp\.(?:pt|st|ct|sa|scim|audit)\.[\w-]{30,}|hv[sbr]\.[\w-]{20,}"
        r"|api_org_[A-Za-z]{34}\b|S[ACNOUX][A-Z2-7]{56}\b|ops_eyJ[\w+/=-]{40,}|[a-f0-9]{32}-us[0-9]{1,2}\b|[a-f0-9]{32}\.[A-Za-z0-9]{16,}\b|AKLT[A-Za-z0-9]{30,}"
        r"|bce-v3/[\w/-]{40,}|AKCp[A-Za-z0-9]{60,}|API-[A-Z0-9]{26}\b|p8e-[A-Za-z0-9]{32}\b|sm_[aps]at_[A-Za-z0-9]{16,}"
        r"|EAA[MC][A-Za-z0-9]{60,}|FLWSECK_TEST-[a-z0-9]{12}\b|lin_(?:api|oauth)_[A-Za-z0-9]{32,}|tfp_[\w.=-]{40,})"),
    ("API key", r"(?:ATBB[A-Za-z0-9]{28,}|SCW[A-Z0-9]{17}\b|A3-[A-Z0-9]{6}(?:-[A-Z0-9]{5,11}){3,5}|oy2[a-z0-9]{43}\b"
        r"|[A-Za-z0-9]{50,90}AZDO[A-Za-z0-9]{4}\b"
        r"|SSWS [\w-]{40,}|1//0[\w-]{30,}|s\.[A-Za-z0-9]{24}\b|st\.[a-f0-9]{24}\.[\w.-]{30,}|y0_[\w-]{40,}|CCIPAT_[\w-]{40,}"
        r"|AVNS_[\w-]{16,}|pat[A-Za-z0-9]{14}\.[a-f0-9]{64}|[A-Za-z0-9]{32,80}AAAAAC?[A-Z0-9]{0,3}COG[A-Za-z0-9]{4}\b|ABSK[A-Za-z0-9+/]{40,}={0,2})"),
    ("API key", r"(?:dt0c01\.[A-Z0-9]{24}\.[A-Z0-9]{60,}|EZ[AT]K[A-Za-z0-9]{50,}|sha256~[\w-]{43}\b|v1\.0-[a-f0-9]{24}-[a-f0-9]{100,}"
        r"|[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk\b|[0-9]{15,16}(?:\||%(?:7C)?)[A-Za-z0-9_-]{27,40}\b"
        r"|(?:sc|ext|scauth|authress)_[A-Za-z0-9]{5,30}\.[A-Za-z0-9]{4,6}\.acc[_-][\w-]{10,32}\.[\w+/=-]{30,}"
        r"|key-[a-f0-9]{32}\b|ico-[A-Za-z0-9]{32}\b|webhook\.office\.com/webhookb2/[\w@/-]{30,}|[ps]at\.[\w-]{22}\.[A-Za-z0-9]{20,}\.[A-Za-z0-9]{20,})"),
    ("API key", r"(?:sk|rk|pk|gsk|csk|xai|pplx|nvapi|tvly|pcsk|jina|whsec|pypi|npm|dckr|dop|doo|dor|glc|glsa|lsv2|ntn|figd|esecret|sntrys|sntryu"
        r"|PMAK|NRAK|NRII|shpat|shpss|shpca|shppa|sbp|pscale|tskey|rubygems|duffel|fio-u|pul|pnu|rdme|xkeysib|xsmtpsib|shippo|sgp|sq0[a-z]{3}|api_org"
        r"|cfk|cfut|cfat|FLWSECK|HRKU|KGAT|NRJS|tk-us|s-s4t2[a-z]{2}|rpa|snyk|bkua|CLOJARS|napi|CFPAT|csa|mdb_sa|phx|phc|polar|vcp|cflt|comp|sb)[_-]"
        r"(?:[a-z0-9]{1,10}[_-]){0,3}(?=[A-Za-z_-]{0,40}[0-9])"
        r"[A-Za-z0-9][\w.+/=-]{19,}"),
    (_PREFIXED, r"(?:key|fc|fw|r8|e2b|lin|nfp|rnd|wandb|fo1|flb|tfp|tgp|pat|secret|api|sess|live|prod|token|auth|ak|as|ms|v1)[_-]"
        r"(?:[a-z0-9]{1,10}[_-]){0,3}[A-Za-z0-9]{20,}(?:[._-]+[A-Za-z0-9]{6,}){0,2}"),
)  # fmt: skip
# The same for what begins with something else than a word.
_BLOCKS: tuple[tuple[str, str], ...] = (
    ("private key", r"-----BEGIN[A-Z0-9 ]{0,30} PRIVATE KEY(?: BLOCK)?-----(?:[^-]|-(?!----END))*(?:-----END[A-Z0-9 ]{0,30}-----)?"),
    ("private key", r"PuTTY-User-Key-File-[0-9]:[\s\S]*"),
    ("password hash", r"\$(?:2[aby]|5|6|y|argon2id?)\$[\w=,$]{2,40}\$[\w./+$]{20,}"),
)  # fmt: skip

_KINDS = tuple(kind for kind, _ in (*_WORDS, *_BLOCKS))
# Each of them takes 14 characters or more: most words are too short to be tried.
_SHAPED_WORD = lazy_pattern(r"\b(?=\w\S{13})(?:" + "|".join(f"({regex})" for _, regex in _WORDS) + ")")
# What no known shape is of: any prefix but that of a request's id, and a long run.
_GENERATED = lazy_pattern(
    r"\b(?<!cmpl-)(?!(?:chat)?cmpl-)(?:[A-Za-z0-9]{1,12}[_-]){0,3}[A-Za-z0-9+/]{18,}[\w+/=-]*"
)
_LONG_RUN = lazy_pattern(r"[A-Za-z0-9+/]{18}")
_SHAPED_BLOCK = lazy_pattern("|".join(f"({regex})" for _, regex in _BLOCKS))

# In small letters: one of these, or a long run of letters and digits, is in every credential of these shapes.
_MARKS = (
    "hf_",
    "sk-",
    "akia",
    "asia",
    "eyj",
    "private key",
    "putty-user-key",
    "$argon",
    "xox",
    "xapp-",
    "github_pat",
    "hooks.slack",
    "_v1_",
    "lsv",
    "zxlk",
    "webhook.office",
    "altak",
    "scw",
    "1//0",
    "oy1",
    "acca",
    "abia",
    "akcp",
    "ltai",
    "dapi",
    "gr1111111",
    "api_org",
    "eaam",
    "eaac",
    "flwseck",
    "a1-",
)
_OF_CREDENTIALS = lazy_pattern(r"(?i)auth|pass|secret|token|key|cred|user|login|\balg\b|\btyp\b")
_RUN_OF_TEXT = lazy_pattern(r"[\w+/=-]{12,}")
# q7F2kd93mPzX0a: what no word is. All digits but zero may have been made 1 before this is asked.
_RUN = lazy_pattern(r"[A-Za-z0-9]{14,}")
_HEX = lazy_pattern(r"[0-9a-f]+\Z")
_LONG = 28
_LONGER_THAN_NAMES = 50
_NUMBER = lazy_pattern(r"[0-9]+")
_ONE_KIND = lazy_pattern(r"[0-9]+|[a-z]+|[^0-9a-z]+")
_SMALL_LETTERS = lazy_pattern(r"[a-z]{4,}")
_KEY_WIDTHS = (64, 70, 76)
"""Characters that OpenSSL and OpenSSH write on a line."""
_WIDEST_KEY_LINE = 80
_KEY_LINE = lazy_pattern(r"[A-Za-z0-9+/]+")
# glptt-0300d26fcede782d7e9d: behind a prefix no run needs to look random. cmpl-0300d26fcede782d7e9d is a request.
_DIGIT_AND_RUN = lazy_pattern(r"\d[A-Za-z0-9]{10}")
_PREFIX = lazy_pattern(r"(?:\b(?:EZ[AT]K|SK)|(?<!cmpl)[-_.~|%])[A-Za-z0-9]{0,40}\d[A-Za-z0-9]{10}")


def may_be_shaped(text: str, lowered: str) -> bool:
    """Return, at little cost, whether a text may hold a credential that its shape gives away."""
    if any(map(lowered.__contains__, _MARKS)):
        return True
    if _DIGIT_AND_RUN.search(text) and _PREFIX.search(text):
        return True
    return any(
        not _HEX.match(run) and _class_changes(run) >= _least_changes(run) * len(run)
        for run in _RUN.findall(text)
    )


def _least_changes(run: str) -> float:
    """Return what part of a run changes its class at least where it may be generated: a base of 32 letters has few digits."""
    return 0.2 if len(run) >= _LONGER_THAN_NAMES else 0.35 if run.isalpha() else 0.3


def mask_shaped(text: str, kinds: dict[str, None]) -> str:
    """Mask the credentials that their shapes give away."""

    def masked(match: re.Match[str], first: int = 0) -> str:
        kind = _KINDS[first + (match.lastindex or 1) - 1]
        # key_cache_of_layer_0: a prefix that is a word needs something random behind it.
        if kind is _PREFIXED and not any(map(looks_random, re.split("[._-]", match[0])[1:])):
            return match[0]
        kinds[kind] = None
        return MASK

    if "-----" in text or "$" in text or "PuTTY" in text:
        text = _SHAPED_BLOCK.sub(lambda match: masked(match, len(_WORDS)), text)
    if line := line_of_key(text):
        kinds["private key"] = None
        return text[: text.rfind(line)] + MASK
    text = _SHAPED_WORD.sub(masked, text)

    def generated(match: re.Match[str]) -> str:
        if not _is_generated(match[0]) or _is_encoded_list(match[0]):
            return match[0]
        kinds["generated token"] = None
        return MASK

    return _GENERATED.sub(generated, text) if _LONG_RUN.search(text) else text


def line_of_key(text: str) -> str:
    """Return the end of a text where it looks like a line of a private key, whose first line may be lost; or "".

    Example:
        >>> line_of_key("x: " + "Zq7hTk2Lw9XbV3nR" * 4)[:16], line_of_key("sha256 " + "0e9e39f249a16976" * 4)
        ('Zq7hTk2Lw9XbV3nR', '')
    """
    if " " in text[-_KEY_WIDTHS[0] :].rstrip():
        return ""
    last = text[-_WIDEST_KEY_LINE:].split()[-1:]
    if not last or len(last[0]) not in _KEY_WIDTHS or _KEY_LINE.fullmatch(last[0]) is None:
        return ""
    return last[0] if looks_random(last[0]) and not _HEX.match(last[0].lower()) else ""


def looks_random(value: str) -> bool:
    """Return whether a value looks like a generated credential rather than a word, a name, a path or a number.

    Example:
        >>> looks_random("Zq7hTk2Lw9XbV3nR"), looks_random("Qwen2.5-32B-Instruct"), looks_random("gpu_memory_utilization")
        (True, False, False)
    """
    plain = re.sub(r"[^A-Za-z0-9]", "", value)
    if len(plain) < 12 or len(plain) < 0.8 * len(value) or plain.isalpha() or plain.isdigit():
        return False
    return _class_changes(plain) >= 0.3 * len(plain) and len(set(plain)) >= 8


def _is_generated(text: str) -> bool:
    """Return whether a long text of letters and digits can be nothing but a credential that nothing announces.

    Example:
        >>> _is_generated("Zq7hTk2Lw9XbV3nRk3Vq9ZbQ8r"), _is_generated("CompressedTensorsW8A8Fp8MoEMethod")
        (True, False)
    """
    plain = re.sub(r"[^A-Za-z0-9]", "", text)
    runs = [run for run in _RUN.findall(text) if not (run.islower() or run.isupper()) and looks_random(run)]
    words = sum(map(len, _SMALL_LETTERS.findall(plain)))
    # Glm4MoeLiteForCausalLM is the name of a model: of several words, and with few numbers.
    changes, most = (0.33, 0.27) if len(_NUMBER.findall(plain)) > 1 else (0.42, 0.2)
    most = 0.3 if len(plain) >= _LONG else most
    return bool(runs) and _class_changes(plain) >= changes * len(plain) and words < most * len(plain)


def _is_encoded_list(text: str) -> bool:
    """Return whether a text is Base64 of JSON that holds only words and numbers: a launcher's hosts, but no credential.

    Example:
        >>> _is_encoded_list("eyJub2RlMSI6IFswLCAxXX0="), _is_encoded_list("Zq7hTk2Lw9XbV3nRk3Vq9ZbQ8r")
        (True, False)
    """
    if not text.startswith(("eyJ", "W")):
        return False
    try:
        plain = base64.b64decode(text + "=" * (-len(text) % 4), validate=True).decode("ascii")
        json.loads(plain)
    except ValueError:
        return False
    return not _OF_CREDENTIALS.search(plain) and not any(map(looks_random, _RUN_OF_TEXT.findall(plain)))


def mixes_letters(value: str) -> bool:
    """Return whether letters alone look generated: capitals all over them.

    Example:
        >>> mixes_letters("KpzXWmqvTrLSnbGh"), mixes_letters("AuthenticationRequired")
        (True, False)
    """
    return (
        value.isascii() and value.isalpha() and len(value) >= 10 and _class_changes(value) >= 0.3 * len(value)
    )


def changes_class(text: str) -> bool:
    """Return whether a part of a value may be of a generated one: three times another kind of character follows.

    Example:
        >>> changes_class("nnfZpKdITen6KG"), changes_class("WARNING"), changes_class("2026-03-04")
        (True, False, False)
    """
    return _class_changes(re.sub(r"[^A-Za-z0-9]", "", text)) >= 3


def _class_changes(run: str) -> int:
    """Count how often a small letter, a capital or a digit is followed by one of the other two."""
    return len(_ONE_KIND.findall(run)) - 1
