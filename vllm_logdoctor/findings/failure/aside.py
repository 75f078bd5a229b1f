"""Commands beside a run that failed and wrote into the same log: told, but no failure of the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from vllm_logdoctor.findings.failure.naming import names_of
from vllm_logdoctor.findings.failure.observations import Scene
from vllm_logdoctor.findings.failure.rules import FailureRules
from vllm_logdoctor.findings.failure.wording import named_finding
from vllm_logdoctor.findings.model import Finding
from vllm_logdoctor.late import LatePattern
from vllm_logdoctor.run.blocks import Block

_WELL = frozenset({"running", "clean_shutdown"})
# File "/opt/env/bin/vllm", line 8, in <module>
_COMMAND = LatePattern(r"(?:bin/vllm|openai/api_server\.py|<frozen runpy>|/runpy\.py)$")


def aside_findings(scene: Scene, rules: FailureRules, facts: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield what broke a second command that wrote into the log of a run that is well, at most one."""
    if scene.ending.outcome not in _WELL:
        return
    for number, block in enumerate(scene.blocks):
        if scene.kind(number) != "error" or not _ended_a_command(block):
            continue
        for observation in scene.exceptions([number]):
            for named in names_of(observation, scene, rules, facts):
                if named.signature.rank == "cause" and named.rule.kind == "failure":
                    finding = named_finding(named, scene.run, None)
                    words = f"A second command that wrote into this log failed; this run went on. {finding.explanation}"
                    yield replace(finding, kind="configuration", severity="medium", explanation=words)
                    return


def _ended_a_command(block: Block) -> bool:
    """Say whether a traceback left the program: it is raw, and its outermost place is the command itself."""
    first = block.raised[0].frames[:1] if block.raised else ()
    return not block.level and any(bool(_COMMAND.search(frame.file)) for frame in first)
