"""How to measure the change: the same load before and after."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.report.escape import fence
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.serving import requests_of
from vllm_logdoctor.report.state import is_cut_off
from vllm_logdoctor.rules.context import plural
from vllm_logdoctor.rules.load import load_of
from vllm_logdoctor.rules.steps import tokens_per_request
from vllm_logdoctor.run.model import Evidence, Run

_BENCH_SINCE = (0, 10)
_PROMPTS_EACH = 10
_MOST_COMMANDS = 6
_NUM_PROMPTS = lazy_pattern(r"--num-prompts[ =](?P<number>\d{1,9})\b")
# vllm bench serve --model org/m --num-prompts 100 --result-filename results/a.json
_UNSAVED = lazy_pattern(r"(?!.* --save-(?:result|detailed)\b).* --result-filename\b")
_RESULT_FILE = "--result-filename"
LEAST_SHARE = 0.9
_SHARED = 10.0
"""Percent of the prompts from the prefix cache, above which the statistics lines do not give their mean length."""
_TOTALS = ("Successful requests", "Total input tokens", "Total generated tokens")
_FEW_LINES = 3
_OWN_PROMPTS = "prompts.jsonl"


def measure(page: Page) -> list[str]:
    """Return how to compare before and after; nothing where no setting changes."""
    changed = any(one.change.kind != "action" for one in page.diagnosis.plan.changes)
    if page.root is not None or not changed or any(one.plan == page.diagnosis.plan for one in page.earlier):
        return []
    if is_cut_off(page):
        return []  # Nothing was served that could be compared.
    commands = "logdoctor compare before.log after.log"
    if loads := page.run.load_commands:
        return _with_commands_of_log(page, loads, commands)
    most = max(((sample.running or 0) + (sample.waiting or 0) for sample in page.run.samples), default=0)
    bench = bench_command(page.run, most) if most else None
    said = "Send the same load before and after, change one thing at a time, and compare the two logs"
    lines = [f"{said}:", ""]
    if bench:
        commands = f"{bench}\n{commands}"
        own = "the mean lengths of its requests" if _lengths(page.run) else "lengths that you fill in"
        if _OWN_PROMPTS in bench:
            own = (
                f"prompts of your own: write them to {_OWN_PROMPTS} first, each as "
                + '`{"prompt": "..."}` on a line'
            )
        lines[0] = (
            f"{said}. The benchmark below sends up to {plural(most, 'request')} at once, {_as_seen(page.run)}, with {own}:"
        )
    return [*lines, *fence(commands, "sh")]


def _as_seen(run: Run) -> str:
    """Return where the concurrency of a load is from: a few lines show less than all that ran between them."""
    answered = sum(requests_of(run, with_probes=False).values())
    seen = [requests for one in run.samples if (requests := (one.running or 0) + (one.waiting or 0))]
    if len(seen) < _FEW_LINES and answered > sum(seen):
        return (
            f"the most in a statistics line (more may have run between two lines: {answered:,} were answered)"
        )
    return "as in this log"


def _with_commands_of_log(page: Page, loads: Sequence[Evidence], compare: str) -> list[str]:
    loads, part = loads[:_MOST_COMMANDS], _part_of_the_load(page.run)
    lines = [
        f"Repeat the {'command' if len(loads) == 1 else 'commands'} of this log{page.cited(loads)} before and after{part},"
        f" change one thing at a time{_own_file(loads)}, and compare the two logs:",
        "",
    ]
    texts = [f"{one.text} --save-result" if saves_nothing(one) else one.text for one in loads]
    added = [one.text for one in loads] != texts
    note = (
        ["", "Without `--save-result`, as in this log, the benchmark writes no result file."] if added else []
    )
    return [*lines, *fence("\n".join([*texts, compare]), "sh"), *note]


def saves_nothing(command: Evidence) -> bool:
    """Return whether a command of `vllm bench serve` names a result file that it does not write."""
    return bool(_UNSAVED.match(command.text)) and "bench serve" in command.text


def _own_file(loads: Sequence[Evidence]) -> str:
    """Return that a command which names its result file would write over the first result, in words."""
    named = any(_RESULT_FILE in one.text for one in loads)
    return ", with another result file each time" if named else ""


def _part_of_the_load(run: Run) -> str:
    """Return how many requests of the log the commands in it sent, in words, where the log has clearly more."""
    asked = [_NUM_PROMPTS.search(one.text) for one in run.load_commands[:_MOST_COMMANDS]]
    sent = sum(int(found["number"]) for found in asked if found is not None)
    measured = sum(int(one.figures.get(_TOTALS[0], 0)) for one in run.benchmarks)
    answered = max(measured, sum(requests_of(run, with_probes=False).values()))
    return (
        f" ({sent:,} of the {answered:,} requests in the log)"
        if all(asked) and sent < LEAST_SHARE * answered
        else ""
    )


def bench_command(run: Run, concurrency: int) -> str | None:
    """Return a benchmark command for a server of this release, or None where it has none or the model is not known.

    Requests with images or sound are another load than random text.
    """
    if any(sample.mm_hit is not None for sample in run.samples):
        return None
    version = re.match(r"v?(\d+)\.(\d+)", str(run.version.value)) if run.version else None
    if run.kind != "server" or run.model is None or version is None:
        return None
    if (int(version.group(1)), int(version.group(2))) < _BENCH_SINCE:
        return None
    key = (
        'OPENAI_API_KEY="$VLLM_API_KEY" '
        if run.setting("api_key") or run.environment.get("VLLM_API_KEY")
        else ""
    )
    words = [f"{key}vllm bench serve", "--model", shlex.quote(str(run.model.value))]
    served = run.setting("served_model_name")
    name = served[0] if isinstance(served, list) and served else served
    if isinstance(name, str) and name and name != run.model.value:
        words += ["--served-model-name", shlex.quote(name)]
    port = run.setting("port")
    words += ["--port", str(port)] if isinstance(port, int) else []
    prompt, answer = _lengths(run) or (1024, 256)
    if run.setting("speculative_config"):
        # Drafts of random tokens are accepted less often than those of real text.
        lengths = f"--dataset-name custom --dataset-path {_OWN_PROMPTS} --custom-output-len {answer}"
    else:
        # Random prompts end an answer at any token.
        lengths = (
            f"--dataset-name random --random-input-len {prompt} --random-output-len {answer} --ignore-eos"
        )
    load = f"--max-concurrency {concurrency} --num-prompts {_PROMPTS_EACH * concurrency}"
    return f"{' '.join(words)} \\\n  {lengths} \\\n  {load}"


def _lengths(run: Run) -> tuple[int, int] | None:
    """Return the mean tokens of a prompt and of an answer: in the last benchmark whose result is in the log, else of its requests."""
    for result in reversed(run.benchmarks):
        requests, *tokens = (result.figures.get(name) for name in _TOTALS)
        if requests and all(tokens):
            prompt, answer = (max(1, round((total or 0.0) / requests)) for total in tokens)
            return prompt, answer
    load = load_of(run)
    # Releases count a prompt without what the prefix cache holds of it, and random prompts share nothing.
    if (load.hit_rate or 0.0) > _SHARED:
        return None
    prompt, answer = (
        round(tokens_per_request(run, load, rate) or 0.0)
        for rate in (lambda sample: sample.prompt, lambda sample: sample.generation)
    )
    return (prompt, answer) if prompt and answer else None
