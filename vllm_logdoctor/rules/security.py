"""Security rule: keys and tokens that a log holds."""

from __future__ import annotations

from vllm_logdoctor.rules.context import RuleContext, action
from vllm_logdoctor.rules.rule import Advice, Rule

MOST_LINES = 5


def secret_in_log(case: RuleContext) -> Advice | None:
    """Lines hold keys or tokens, masked when they were read."""
    secrets = case.run.secrets
    if not secrets:
        return None
    kinds = sorted({kind for _, found in secrets for kind in found})
    lines = tuple({(line.file, line.line): line for line, _ in secrets}.values())
    text = (
        f"{len(lines):,} {'line holds' if len(lines) == 1 else 'lines hold'} what looks like a live secret"
        f" ({', '.join(kinds)}). It is masked here and nowhere kept; the log itself still has it."
    )
    return Advice(
        text,
        lines[:MOST_LINES],
        confidence="medium",
        changes=(
            action("revoke the key and make a new one"),
            action("give keys by environment variable or file, not on the command line"),
        ),
        verify="no finding of this kind in the next log",
    )


RULES = (Rule("secret-in-log", secret_in_log),)
