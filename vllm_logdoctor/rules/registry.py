"""All rules by id: those with a check in Python, and those that the signatures of their page decide."""

from __future__ import annotations

from vllm_logdoctor.catalogue.pages import rule_ids
from vllm_logdoctor.rules import configuration, job, observed, performance, security
from vllm_logdoctor.rules.rule import Rule

CHECKED: tuple[Rule, ...] = (
    *security.RULES,
    *job.RULES,
    *observed.RULES,
    *performance.RULES,
    *configuration.RULES,
)


def all_rules() -> dict[str, Rule]:
    """Return each rule by its id, which is the name of its page in patterns/rules.

    Example:
        >>> all_rules()["eager-mode"].check.__name__
        'eager_mode'
    """
    checked = {rule.id: rule for rule in CHECKED}
    return {rule_id: checked.get(rule_id) or Rule(rule_id) for rule_id in (*rule_ids(), *checked)}
