"""What is known of a name by release: a rule, a message, a flag, a variable."""

from __future__ import annotations

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.knowledge.flags import Flag, flag_at, flag_history
from vllm_logdoctor.knowledge.variables import variable_default, variable_known, variable_spans
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.rules.explaining import explain

_LONGEST_NAME = 200
_VARIABLE = lazy_pattern(r"[A-Z][A-Z0-9_]+\Z")


def run_facts(name: str, release: str = "") -> str:
    """Return what a name means, as Markdown.

    Args:
        name: id of a finding, rule or message, a flag ("--max-num-seqs"), or a variable ("VLLM_USE_V1").
        release: of vLLM; for flags and variables.

    Example:
        >>> run_facts("--swap-space", "0.18.0").splitlines()[2]
        'Not in vLLM 0.18.0.'

    Raises:
        LogdoctorError: nobody knows it; names the nearest.
    """
    if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        raise LogdoctorError(
            "name: give the id of a finding, a flag such as --max-num-seqs, or a variable", 2
        )
    if name.startswith("-"):
        eras = [(one.since, one.until, _flag_words(one.flag)) for one in flag_history(name)]
        known = flag_at(name, release) is not None
    elif _VARIABLE.match(name):
        defaults = [(one, variable_default(name, one.until)) for one in variable_spans(name)]
        eras = [
            (one.since, one.until or "now", f"default {'none' if x is None else repr(x)}")
            for one, x in defaults
        ]
        known = bool(variable_known(name, release))
    else:
        return explain(name)
    if not eras:
        raise LogdoctorError(f"no known release of vLLM has {name}", 2)
    lines = [f"# {name}", ""]
    if release:
        lines += [f"{'In' if known else 'Not in'} vLLM {release}.", ""]
    return "\n".join([*lines, *(f"- {since} to {until}: {words}" for since, until, words in eras)])


def _flag_words(flag: Flag) -> str:
    default = "computed" if flag.default is None or flag.default_is_source else repr(flag.default)
    choices = f"; one of {', '.join(map(str, flag.choices[:20]))}" if flag.choices else ""
    return f"{flag.form}, default {default}{choices}{'; deprecated' if flag.deprecated else ''}"
