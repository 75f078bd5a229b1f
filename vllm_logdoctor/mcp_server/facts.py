"""What is known of a name by release: a rule, a message, a flag, a variable."""

from __future__ import annotations

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.knowledge.flags import flag_at, flag_history
from vllm_logdoctor.knowledge.variables import variable_default, variable_known, variable_spans
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.rules.explaining import explain

_LONGEST_NAME = 200
_VARIABLE = lazy_pattern(r"[A-Z][A-Z0-9_]+\Z")


def facts_of(name: str, release: str = "") -> str:
    """Return what a name means, as Markdown.

    Args:
        name: id of a finding, rule or message, a flag ("--max-num-seqs"), or a variable ("VLLM_USE_V1").
        release: of vLLM; for flags and variables.

    Example:
        >>> facts_of("--swap-space", "0.18.0").splitlines()[2]
        'Not in vLLM 0.18.0.'

    Raises:
        LogdoctorError: nobody knows it; names the nearest.
    """
    if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        raise LogdoctorError(
            "name: give the id of a finding, a flag such as --max-num-seqs, or a variable", 2
        )
    if name.startswith("-"):
        return _flag(name, release)
    if _VARIABLE.match(name):
        return _variable(name, release)
    return explain(name)


def _flag(name: str, release: str) -> str:
    eras = flag_history(name)
    if not eras:
        raise LogdoctorError(f"no known release of vLLM has the flag {name}", 2)
    lines = [f"# {eras[-1].flag.name}", ""]
    if release:
        lines += [_in_release(flag_at(name, release) is not None, release), ""]
    for era in eras:
        flag = era.flag
        default = "computed" if flag.default is None or flag.default_is_source else repr(flag.default)
        choices = f"; one of {', '.join(map(str, flag.choices[:20]))}" if flag.choices else ""
        old = "; deprecated" if flag.deprecated else ""
        lines.append(f"- {era.since} to {era.until}: {flag.form}, default {default}{choices}{old}")
    return "\n".join(lines)


def _variable(name: str, release: str) -> str:
    spans = variable_spans(name)
    if not spans:
        raise LogdoctorError(f"no known release of vLLM declares the variable {name}", 2)
    lines = [f"# {name}", ""]
    if release:
        lines += [_in_release(bool(variable_known(name, release)), release), ""]
    for span in spans:
        default = variable_default(name, span.until)
        lines.append(
            f"- {span.since} to {span.until}: default {'none' if default is None else repr(default)}"
        )
    return "\n".join(lines)


def _in_release(known: bool, release: str) -> str:
    return f"{'In' if known else 'Not in'} vLLM {release}."
