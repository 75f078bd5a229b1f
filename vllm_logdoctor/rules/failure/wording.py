"""From a named failure to its finding: words with the log's figures, changes that this version knows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from vllm_logdoctor.catalogue.pages import Case, ChangeTemplate, placeholders
from vllm_logdoctor.catalogue.topics import RuleKind, Severity
from vllm_logdoctor.knowledge.flags import flag_exists
from vllm_logdoctor.knowledge.variables import variable_known
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.rules.already_set import (
    already_set,
    fixes_cache,
    framework_without_vllm,
    is_pointless,
    without_condition,
    without_least,
    without_switches,
)
from vllm_logdoctor.rules.attention_backends import with_backends_of_run
from vllm_logdoctor.rules.cache_to_give import takes_too_much
from vllm_logdoctor.rules.capacity.fp8 import in_formats_of_card, refuses_fp8
from vllm_logdoctor.rules.failure.device_terms import WITHOUT_NCCL, device_named, in_words_of_device
from vllm_logdoctor.rules.failure.facts import PRINTED
from vllm_logdoctor.rules.failure.matching import RuleMatch
from vllm_logdoctor.rules.failure.shown_lines import lines_shown
from vllm_logdoctor.rules.failure.signatures import FailureRule, expression
from vllm_logdoctor.rules.model import Change, Confidence, Finding, Role
from vllm_logdoctor.rules.printed import as_printed
from vllm_logdoctor.rules.release_terms import (
    action_of_release,
    fits_release,
    in_words_of_build,
    in_words_of_install,
    in_words_of_release,
    release_of,
    renamed,
)
from vllm_logdoctor.run.lifecycle import trail_of
from vllm_logdoctor.run.model import Evidence, Run

MOST_EVIDENCE = 8
_LONGEST_VALUE = 160
_MOST_OF_CASE = 8000
_WORD = lazy_pattern(r"[A-Za-z]{2}")
_FIXED_SIZE = "it fixes the size of the KV cache: `--gpu-memory-utilization` does not change it"
# Lower `--max-model-len` to the estimate ...      Put `HF_MODULES_CACHE` (or `HF_HOME=/data`) on storage ...
# A line of a template that only quotes: Compiler error: {what}.
_QUOTATION = lazy_pattern(r"[A-Z][^{}.:]{2,40}: \{\w+\}\.?")
# This model only supports single tool-calls at once!.      What does it mean?.
_ENDED = lazy_pattern(r"(?<=[!?])\.(?=\s|$)")
# Use a quantized checkpoint of the same model (FP8, AWQ, GPTQ, NVFP4), which halves or quarters the weights.
_QUANTIZED_CHECKPOINT = lazy_pattern(
    r"a quantized checkpoint(?: of the same model)?(?: \([^)]*\), which halves or quarters the weights)?"
)
_OR_QUANTIZED = "a quantized checkpoint, or "
# File "/opt/vllm/model_executor/layers/quantization/moe_wna16.py", line 208, in create_weights
_OF_METHOD = lazy_pattern(
    r'File "[^"]*/layers/quantization/(?!__init__|base_config|kv_cache|schema|input_quant)(?P<method>\w+)\.py"'
)
_NUMBERED = frozenset({"code", "device", "other_port", "port", "port2", "rank", "uid", "xid"})
"""Values that number something: 30000 is a port and no amount, which thousands separators would make it."""
_AS_WRITTEN = _NUMBERED | {"stated"}
_OF_FOUR_BITS = ("awq", "gptq", "fp4", "bitsandbytes", "int4", "w4a16")
_NEWER = "Use a newer release"
_KNOB = lazy_pattern(r"`(--[a-z][a-z0-9-]*|[A-Z][A-Z0-9]*_[A-Z0-9_]+)\b")


def finding_of(
    rule: FailureRule, run: Run, *, role: Role | None, confidence: Confidence, records: Iterable[Record],
    values: Mapping[str, Any], explain: str = "", kind: RuleKind | None = None, severity: Severity | None = None,
) -> Finding:  # fmt: skip
    """Build the finding of a rule; the first record is the decisive one."""
    words = explained(device_named(explain or rule.explain, run), values, device_named(rule.meaning, run))
    changes = changes_of(rule.changes, run, values)
    lines = evidence_of_records(records, run)
    return Finding(
        id=rule.id,
        kind=kind or rule.kind,
        severity=severity or rule.severity,
        confidence=confidence,
        title=device_named(rule.title, run),
        explanation=words,
        role=role,
        evidence=(*lines, *_lines_of_figures(explain or rule.explain, run, values, lines)),
        changes=changes,
        alternatives=tuple(dict.fromkeys(other_ways(rule.alternatives, changes, run))),
        avoid=rule.avoid,
        verify=as_printed(rule.verify, run),
        topic=rule.topic,
        exhausts=rule.exhausts,
    )


def named_finding(named: RuleMatch, run: Run, role: Role | None, records: Sequence[Record] = ()) -> Finding:
    """Build the finding of a named observation; further records follow the decisive one."""
    finding = finding_of(
        rule_of_case(named), run, role=role, confidence=named.confidence,
        records=[named.decisive, *named.supporting, *records], values=named.values, explain=named.signature.explain,
    )  # fmt: skip
    if role == "root" and (framework := framework_without_vllm(run)):
        of_framework = f"The traceback is of {framework}: no line of this log is vLLM's."
        finding = replace(finding, explanation=f"{finding.explanation} {of_framework}".lstrip())
    words = f"{finding.title} {finding.explanation}"
    return with_shown(
        finding, lines_shown(words, named, frames_wanted(named), _lines_wanted(named), run), run
    )


def with_shown(finding: Finding, records: Iterable[Record], run: Run) -> Finding:
    """Return a finding with the lines that show what its words say beside the decisive line."""
    shown_by = tuple(dict.fromkeys(map(run.evidence, records)))
    return replace(finding, evidence=tuple(dict.fromkeys((*finding.evidence, *shown_by))), shown_by=shown_by)


def rule_of_case(named: RuleMatch) -> FailureRule:
    """Return the rule with the title and the remedy of the signature that matched, where it has its own."""
    rule, signature = named.rule, named.signature
    case = None if signature.explain else _case_of(named)
    if case is not None:
        rule = replace(rule, meaning=case.explain, title=filled(case.title, named.values) or rule.title)
    remedy = signature.remedy or (case.remedy if case is not None else ())
    if remedy:
        # The remedy of a case is what its page's actions say in general.
        own = case is not None and not signature.remedy
        asked = tuple(
            change for change in rule.changes if change.needs and not (own and change.kind == "action")
        )
        ways = (filled(way, named.values) for way in remedy)
        rule = replace(rule, changes=asked, alternatives=tuple(way for way in ways if way))
    title = filled(signature.title, named.values) or rule.title
    return replace(rule, title=title, verify=signature.verify or rule.verify)


def frames_wanted(named: RuleMatch) -> str:
    """Return the expression by which the case of the page or the signature knows the frames of a failure, or ""."""
    case = None if named.signature.explain else _case_of(named)
    own = case.frames if case is not None else ""
    return own or named.signature.frames or named.signature.raised_in


def _lines_wanted(named: RuleMatch) -> tuple[str, ...]:
    """Return the expressions of the case of the page, or of the signature, for lines that show what the words say."""
    case = None if named.signature.explain else _case_of(named)
    return (case.shown if case is not None else ()) or named.signature.shown


def _case_of(named: RuleMatch) -> Case | None:
    """Return the case of a page that the failure's own text, or an exception of its traceback, shows."""
    seen = named.observation
    block = seen.block or named.traceback
    chain = block.raised if block is not None else ()
    lines = (named.decisive, *named.supporting)
    stated = (seen.text, *(one.message for one in lines), *(one.statement for one in chain))
    text = "\n".join((*stated, str(named.values.get("phase_words", ""))))[:_MOST_OF_CASE]
    places = "\n".join(frame.file for one in chain for frame in one.frames)
    return next(
        (
            case
            for case in named.rule.cases
            if expression(case.regex).search(text) and expression(case.frames).search(places)
        ),
        None,
    )


def evidence_of_records(records: Iterable[Record], run: Run) -> tuple[Evidence, ...]:
    """Return records as evidence in the given order, each line once; behind the first none without a word, as rows of a printed array."""
    found: dict[tuple[int, int], Evidence] = {}
    for record in records:
        if len(found) < MOST_EVIDENCE and (not found or _WORD.search(record.message)):
            found.setdefault((record.file, record.line), run.evidence(record))
    return tuple(found.values())


def _lines_of_figures(
    template: str, run: Run, values: Mapping[str, Any], given: Collection[Evidence]
) -> Iterator[Evidence]:
    """Yield the lines of the settings and figures of the run that an explanation gives, those left out that are evidence already."""
    cited = {(one.file, one.line) for one in given}
    for line in map(str.strip, template.strip().split("\n")):
        for used in _values_in(line, values) or ():
            name = str(values.get("setting")) if used == "given" else used
            figure, seen = run.measured.get(name) or run.config.get(name), run.seen(PRINTED.get(name, ""))
            proof = (
                [run.evidence(one.record) for one in seen.first[:1]] if seen is not None
                else figure.evidence[:1] if figure is not None and figure.value == values[used]
                else ()
            )  # fmt: skip
            for one in proof:
                if (one.file, one.line) not in cited:
                    cited.add((one.file, one.line))
                    yield one


def filled_lines(template: str, values: Mapping[str, Any]) -> str:
    """Fill in the lines of a template; a line with a name that the log does not give is left out.

    >>> filled_lines("{free} GiB are free.\\n{missing} GiB are missing.", {"free": 3})
    '3 GiB are free.'
    """
    lines = (filled(line.strip(), values) for line in template.strip().split("\n"))
    return " ".join(line for line in lines if line)


def explained(template: str, values: Mapping[str, Any], meaning: str) -> str:
    """Return the explanation of a failure: a template that only quotes the log comes after the rule's meaning.

    >>> explained("Mismatch: {what}.", {"what": "size 3"}, "Shapes differ.")
    'Shapes differ. Mismatch: size 3.'
    """
    lines = [line for line in map(str.strip, template.strip().split("\n")) if filled(line, values)]
    quotes_only = all(_QUOTATION.fullmatch(line) for line in lines)
    return " ".join(filter(None, (meaning if quotes_only else "", filled_lines(template, values))))


def filled(template: str, values: Mapping[str, Any]) -> str | None:
    """Fill in a template, or None where a name in it has no value, or a brace in it is left open."""
    names = _values_in(template, values)
    if names is None:
        return None
    sentence = template.format_map(
        {name: str(values[name]) if name in _AS_WRITTEN else shown(values[name]) for name in names}
    )
    # What a value ends with ends the sentence too, unless it was cut.
    sentence = _ENDED.sub("", sentence)
    if sentence.endswith("...."):
        return sentence[:-1]
    return f"{sentence[:-2]}." if sentence.endswith("..") and not sentence.endswith("...") else sentence


def _values_in(template: str, values: Mapping[str, Any]) -> list[str] | None:
    """Return the names in a template, or None where it can't be filled in."""
    with suppress(ValueError):
        names = placeholders(template)
        return names if all(values.get(name) is not None for name in names) else None
    return None


def shown(value: Any) -> str:
    """Return a value as words show it: whole numbers with thousands separators, texts on one line and cut."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        text = " ".join(str(value).split())
        if len(text) <= _LONGEST_VALUE:
            return text
        kept = text[: _LONGEST_VALUE - 3]
        # A part of a folder's name is no folder, a part of a word no word.
        if text[0] == "/" and " " not in text:
            return f"{kept.rpartition('/')[0]}/..."
        return f"{kept.rpartition(' ')[0] if ' ' in kept[_LONGEST_VALUE // 2 :] else kept}..."
    return f"{value:,}" if isinstance(value, int) else f"{round(value, 2 if abs(value) >= 1 else 4):g}"


def changes_of(
    templates: Iterable[ChangeTemplate], run: Run, values: Mapping[str, Any]
) -> tuple[Change, ...]:
    """Return the changes of a page whose values the log gives, whose knobs this version knows and that the run does not have."""
    found = (_change(template, run, values) for template in templates)
    return tuple(change for change in found if change is not None and not already_set(run, change))


def _change(written: ChangeTemplate, run: Run, values: Mapping[str, Any]) -> Change | None:
    other = renamed(written.knob, release_of(run)) if written.kind == "flag" else None
    template = written if other is None else replace(written, knob=other.to, kind=other.kind)
    if any(values.get(name) is None for name in template.needs) or not knob_known(
        template.knob, template.kind, run
    ):
        return None
    after = template.to
    if isinstance(after, str) and "{" in after:
        names = _values_in(after, values)
        if names is None:
            return None
        after = values[names[0]] if names and after == f"{{{names[0]}}}" else after.format_map(values)
    before = values.get(template.knob.lstrip("-").replace("-", "_")) if template.kind == "flag" else None
    if (before is not None and before == after) or takes_too_much(f"{template.knob}={after}", run):
        return None
    note = in_words_of_device(filled(template.note, values) or "", run) or ""
    note = ", ".join(part for part in note.split(", ") if fits_release(part, run))
    if template.knob == "--gpu-memory-utilization" and fixes_cache(run):
        verb = "raise" if "higher" in str(template.to) else "lower"
        return Change(f"{verb} `--kv-cache-memory-bytes`", "action", note=_FIXED_SIZE)
    change = Change(template.knob, template.kind, before, after, template.safety, note)
    return _action(change, run) if template.kind == "action" else change


def _action(written: Change, run: Run) -> Change | None:
    change = action_of_release(written, run)
    if change is None:
        return None
    knob = in_words_of_device(in_words_of_build(change.knob, run), run) or change.knob
    after = in_words_of_device(change.after, run) if isinstance(change.after, str) else change.after
    after = in_words_of_install(after, run) if isinstance(after, str) else after
    return None if is_pointless(f"{knob}: {after}", run) else replace(change, knob=knob, after=after)


def knob_known(knob: str, kind: str, run: Run) -> bool:
    """Return whether a flag or variable may be advised for the run's version; without a version the files of the tracebacks tell the latest one."""
    version = release_of(run)
    if kind == "env" and knob.startswith("NCCL_"):
        return run.platform not in WITHOUT_NCCL
    if kind == "flag":
        return flag_exists(knob.split("=")[0].split(".")[0], version) is not False
    if kind == "env" and knob.startswith("VLLM_") and version:
        return variable_known(knob, version) is not False
    return True


def in_words_of_checkpoint(text: str, run: Run) -> str:
    """Return advice on quantized weights for what the run loads: 8 bits leave a step to 4, and 4 bits leave none.

    Example:
        >>> from vllm_logdoctor.run.model import Value
        >>> run = Run(config={"quantization": Value("fp8", "explicit")})
        >>> in_words_of_checkpoint("Use a quantized checkpoint.", run)
        'Use a checkpoint of the same model with 4 bits a weight (AWQ, GPTQ, NVFP4).'
    """
    if _QUANTIZED_CHECKPOINT.search(text) is None:
        return text
    loaded = run.config.get("quantization")
    method = str(loaded.value or "").lower() if loaded is not None else ""
    at_work = None if method else _method_at_work(run)
    if not (method or at_work):
        return text
    # The code of a method shows no number of bits, but that of FP8.
    if any(bits in method for bits in _OF_FOUR_BITS) or (at_work and at_work != "fp8"):
        return "" if text.startswith("Use a quantized checkpoint") else text.replace(_OR_QUANTIZED, "")
    return _QUANTIZED_CHECKPOINT.sub(
        "a checkpoint of the same model with 4 bits a weight (AWQ, GPTQ, NVFP4)", text
    )


def _method_at_work(run: Run) -> str | None:
    """Return the quantization whose code a traceback passes through."""
    found = (_OF_METHOD.search(record.message) for record in trail_of(run))
    return next((one["method"] for one in found if one is not None), None)


def other_ways(alternatives: Sequence[str], changes: Sequence[Change], run: Run) -> Iterable[str]:
    """Yield the alternatives that this version and card can take and that do more than repeat a change."""
    changed = {change.knob for change in changes}
    newer = [way for way in alternatives if way.startswith(_NEWER)]
    if release_of(run) is None and newer:  # Newer than which?
        alternatives = [way for way in alternatives if way not in newer]
        if not alternatives and not changes:
            alternatives = [newer[0].replace(_NEWER, "Try the newest release", 1)]
    for written in alternatives:
        named = in_words_of_release(with_backends_of_run(written, run), run)
        text = without_least(without_switches(without_condition(named, run), run), run)
        needs_fp8 = "--kv-cache-dtype fp8" in text or "FP8_MARLIN" in text
        if (needs_fp8 and refuses_fp8(run)) or is_pointless(text, run) or takes_too_much(text, run):
            continue
        knobs = _KNOB.findall(text)
        worded = in_words_of_checkpoint(in_words_of_build(text, run), run)
        worded = in_formats_of_card(in_words_of_device(worded, run) or "", run)
        if worded and fits_release(text, run) and not (knobs and changed.issuperset(knobs)):
            yield worded
