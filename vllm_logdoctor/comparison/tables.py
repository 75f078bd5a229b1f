"""Checks in the forms of continuous integration and spreadsheets: JUnit, SARIF, annotations, CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any
from xml.sax.saxutils import escape

from vllm_logdoctor.comparison.checks import Check
from vllm_logdoctor.report.csv import cell
from vllm_logdoctor.report.escape import visible
from vllm_logdoctor.report.github import command
from vllm_logdoctor.report.junit import attribute_value
from vllm_logdoctor.report.sarif import LEVELS, SCHEMA_ADDRESS, driver, location_of, log_text, spoken

COLUMNS = (
    "group", "name", "verdict", "state", "severity", "before", "after", "ratio", "said", "file", "line",
)  # fmt: skip
_SUITES = {
    "finding": "findings",
    "speed": "speed",
    "figure": "figures",
    "change": "planned changes",
    "prediction": "predictions",
}
_BASELINE = {"gone": "absent", "new": "new", "kept": "unchanged", "unclear": "unchanged"}


def junit(checks: Sequence[Check]) -> str:
    """Return the checks as JUnit XML: a suite per group; what the logs can't say is skipped."""
    failures = _count(checks, "failed")
    head = f'<testsuites name="logdoctor" tests="{len(checks)}" failures="{failures}" errors="0">'
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', head]
    for group, members in groupby(checks, key=lambda one: one.group):
        lines += _suite(_SUITES[group], list(members))
    return "\n".join([*lines, "</testsuites>"]).encode("utf-8", "replace").decode() + "\n"


def github(checks: Sequence[Check]) -> str:
    """Return one workflow command for each check that failed."""
    failed = [one for one in checks if one.verdict == "failed"]
    return "".join(
        command(one.severity, f"{one.group}: {one.name}", one.said, one.line) + "\n" for one in failed
    )


def sarif(checks: Sequence[Check]) -> str:
    """Return the findings with their state against the run before, and every other check that failed."""
    reported = [one for one in checks if one.group == "finding" or one.verdict == "failed"]
    rules = list(dict.fromkeys(_rule_id(one) for one in reported))
    run = {
        "tool": driver([{"id": rule} for rule in rules]),
        "columnKind": "unicodeCodePoints",
        "results": [_result(one, rules.index(_rule_id(one))) for one in reported],
    }
    return log_text({"$schema": SCHEMA_ADDRESS, "version": "2.1.0", "runs": [run]})


def csv_text(checks: Sequence[Check]) -> str:
    """Return one row of CSV per check."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    writer.writerows(_row(one) for one in checks)
    return out.getvalue().encode("utf-8", "replace").decode()


def _count(checks: Sequence[Check], verdict: str) -> int:
    return sum(one.verdict == verdict for one in checks)


def _suite(name: str, checks: Sequence[Check]) -> Iterator[str]:
    failures, skipped = _count(checks, "failed"), _count(checks, "unknown")
    yield (
        f'  <testsuite name="{name}" tests="{len(checks)}" failures="{failures}" errors="0"'
        f' skipped="{skipped}">'
    )
    for one in checks:
        said = escape(" ".join(visible(one.said).split()))
        yield f'    <testcase name={attribute_value(one.name)} classname="logdoctor.{one.group}">'
        if one.verdict == "failed":
            yield f"      <failure message={attribute_value(one.state)} type={attribute_value(one.severity)}>{said}</failure>"
        elif one.verdict == "unknown":
            yield f"      <skipped message={attribute_value(one.said)}/>"
        else:
            yield f"      <system-out>{said}</system-out>"
        yield "    </testcase>"
    yield "  </testsuite>"


def _rule_id(one: Check) -> str:
    return one.name if one.group == "finding" else spoken(f"{one.group}/{one.name}")


def _result(one: Check, rule: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": _rule_id(one),
        "ruleIndex": rule,
        "level": LEVELS[one.severity],
        "message": {"text": spoken(one.said)},
        "locations": [location_of(one.line)] if one.line else [],
    }
    if one.group == "finding":
        result["baselineState"] = _BASELINE[one.state]
    return result


def _row(one: Check) -> list[str | int | float]:
    words = [cell(text) for text in (one.group, one.name, one.verdict, one.state, one.severity)]
    values = [cell(one.before), cell(one.after), "" if one.ratio is None else one.ratio, cell(one.said)]
    place = [cell(one.line.file), one.line.line] if one.line else ["", ""]
    return [*words, *values, *place]
