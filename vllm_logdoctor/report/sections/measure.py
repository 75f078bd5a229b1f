"""How to measure the change: the same load before and after, and what the new log must show."""

from __future__ import annotations

import re
import shlex

from vllm_logdoctor.report.escape import fence, prose
from vllm_logdoctor.report.figures import capital, count
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.sections.advice import is_asked, put_off
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.run.model import Run

VERIFIED = 6
_BENCH_SINCE = (0, 10)
_PROMPTS_EACH = 10


def measure(page: Page) -> list[str]:
    """Return the section as Markdown lines; nothing where nothing is to be changed."""
    planned = page.diagnosis.plan.changes or [f for f in page.diagnosis.findings if f.changes]
    if not planned:
        return []
    lines = [] if page.failures else _load(page)
    checks = [finding for finding in page.findings if _checked(page, finding)]
    if checks:
        lines += ["The new log must show:", "", *map(_check, checks[:VERIFIED])]
    return lines


def _check(finding: Finding) -> str:
    """Return what to look for, behind what it is for: "no such warning" says nothing by itself."""
    return f"- **{prose(finding.title)}.** {capital(prose(finding.verify))}"


def _checked(page: Page, finding: Finding) -> bool:
    """Tell whether the next log is to show something of a finding: of what was to be changed, nothing else."""
    if not finding.verify or finding.role == "cascade" or put_off(page, finding):
        return False
    return finding.kind == "failure" or is_asked(finding)


def _load(page: Page) -> list[str]:
    lines = ["Keep the load the same, change one thing at a time, and compare the two logs:", ""]
    lines += [*fence("logdoctor compare before.log after.log", "sh"), ""]
    wanted = max(((sample.running or 0) + (sample.waiting or 0) for sample in page.run.samples), default=0)
    if not wanted:
        return lines
    lines += [
        f"This log's load had at most {count(wanted, 'request')} at once, waiting ones included; "
        "a gain under another load says nothing of it.",
        "",
    ]
    command = bench_command(page.run, wanted)
    if command:
        lines += [
            "A load that can be repeated (put in the lengths of your requests, which the log does not hold):",
            "",
        ]
        lines += [*fence(command, "sh"), ""]
    return lines


def bench_command(run: Run, concurrency: int) -> str | None:
    """Return a benchmark command for a server of this release, or None where it has none or the model is not known."""
    version = re.match(r"v?(\d+)\.(\d+)", str(run.version.value)) if run.version else None
    if run.kind != "server" or run.model is None or version is None:
        return None
    if (int(version.group(1)), int(version.group(2))) < _BENCH_SINCE:
        return None
    words = ["vllm bench serve", "--model", shlex.quote(str(run.model.value))]
    served = run.setting("served_model_name")
    name = served[0] if isinstance(served, list) and served else served
    if isinstance(name, str) and name and name != run.model.value:
        words += ["--served-model-name", shlex.quote(name)]
    port = run.setting("port")
    words += ["--port", str(port)] if isinstance(port, int) else []
    lengths = "--dataset-name random --random-input-len 1024 --random-output-len 256"
    load = f"--max-concurrency {concurrency} --num-prompts {_PROMPTS_EACH * concurrency}"
    return f"{' '.join(words)} \\\n  {lengths} \\\n  {load}"
