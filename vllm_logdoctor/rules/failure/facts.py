"""Settings and figures of a run by name, for the conditions and the words of failure pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.rules.capacity.weights import weights_of
from vllm_logdoctor.run.lifecycle import trail_of
from vllm_logdoctor.run.model import Run

# /models/x   ./run-7   ~/m   checkpoints/run-7   a/b/c   C:\\models\\x: no names of repositories, which are owner/name
_PATH = lazy_pattern(
    r"[/.~]|[A-Za-z]:\\|[^/]+/[^/]+/|(?i:(?:models?|checkpoints?|ckpts?|weights|data|outputs?|results?|runs?|snapshots?)/)"
)
PRINTED = {"graphs_gib": "graph-memory-estimated"}
"""Figures that are no setting and no measured value of a report, with the message that prints them in GiB."""
# File "/tmp/pip-build-env-o1/overlay/lib/python3.10/site-packages/setuptools/build_meta.py"      ~/.cache/uv/builds-v0/.tmpa1/lib/...
_BUILDS_IN = lazy_pattern(
    r"(?P<path>/[\w/.-]{0,120}(?:pip-build-env-\w{1,40}/overlay|/builds-v\d{1,4}/[\w.-]{1,60}))/lib/"
)
# [rank1]:     llm = LLM(model=path, tensor_parallel_size=2)      (launched by torchrun)
_STARTS_ENGINE = lazy_pattern(r"\s+(?:[\w.]+ = )?(?:\w+\.)*(?:LLM|(?:Async)?LLMEngine)\(")
_CONDITION = lazy_pattern(r"(?P<sign>>=|<=|!=|>|<|=)?\s*(?P<value>.+)")


def facts_of(run: Run) -> dict[str, Any]:
    """Return settings, variables that were set, and measured figures of a run by name."""
    facts: dict[str, Any] = {name: value.value for name, value in run.config.items()}
    facts.update({name: value.value for name, value in run.measured.items()})
    for name, value in run.arguments.items():
        facts.setdefault(str(name), value)
    if isinstance(given := run.arguments.get("speculative_config"), dict):
        facts["speculative_config"] = given  # The engine prints a part of it.
    facts.update({name: one.value for name, one in run.environment.items() if one.provenance == "explicit"})
    facts["kind"], facts["engine"], facts["platform"] = run.kind, run.engine, run.platform
    if run.version:
        facts["version"] = run.version.value
    if run.model:
        facts["model"] = run.model.value
    if isinstance(model := facts.get("model"), str):
        facts["model_kind"] = "path" if _PATH.match(model) else "repository"
    for name, message in PRINTED.items():
        if (seen := run.seen(message)) is not None:
            facts[name] = seen.first[0].number("gib")
    if (selected := run.seen("kernel-selected")) is not None:
        facts["linear_kernels"] = " ".join(event.text("kernel") for event in selected.first)
    facts["weights_each"] = weights_of(run)[0]
    ranks = {process.name for process in run.processes if process.role == "worker"}
    facts["ranks"] = len(ranks)
    starters = {one.process.rank for one in trail_of(run) if _STARTS_ENGINE.match(one.message)} - {""}
    facts["launched_engines"] = len(starters)
    if run.kind == "build":
        used = {found["path"]: None for one in trail_of(run) if (found := _BUILDS_IN.search(one.message))}
        facts["build_environments"] = list(used)
    return facts


def holds(condition: str, value: Any) -> bool:
    """Return whether a value meets a condition; an unknown value meets none.

    >>> holds(">1", 2), holds("=awq", "awq"), holds(">1", None)
    (True, True, False)
    """
    match = _CONDITION.fullmatch(condition.strip())
    if value is None or match is None:
        return False
    sign, wanted = match["sign"] or "=", match["value"].strip()
    if sign in ("=", "!="):
        return (str(value).lower() == wanted.lower()) == (sign == "=")
    try:
        left, right = float(value), float(wanted)
    except (TypeError, ValueError):
        return False
    return {">": left > right, "<": left < right, ">=": left >= right, "<=": left <= right}[sign]


def all_hold(conditions: Mapping[str, str], facts: Mapping[str, Any]) -> bool:
    """Return whether all conditions are met."""
    return all(holds(condition, facts.get(name)) for name, condition in conditions.items())
