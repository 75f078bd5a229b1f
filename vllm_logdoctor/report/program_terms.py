"""Settings as the program of a run takes them: flags of a command line, or arguments of `LLM(...)`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from vllm_logdoctor.knowledge.flags import flag_history
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.report.escape import code
from vllm_logdoctor.rules.printed import shows_class
from vllm_logdoctor.run.lifecycle import trail_of
from vllm_logdoctor.run.model import Run

# `--enforce-eager`      `--kv-cache-dtype fp8`      `--no-enable-prefix-caching`
_FLAG = lazy_pattern(r"`--(?P<no>no-)?(?P<name>[a-z][a-z0-9-]*)(?:[ =](?P<value>[^`]+))?`")
_LITERAL = lazy_pattern(r"-?\d+(?:\.\d+)?|[\[{\"'].*")
# File "/src/vllm/benchmarks/benchmark_throughput.py", line 12      vllm bench latency --model org/m      .../openai/run_batch.py
_OF_COMMAND = lazy_pattern(
    r"\bbenchmark_(?:throughput|latency)\w*\.py|/vllm/(?:benchmarks|entrypoints/cli)/|\brun[_-]batch\b|\bvllm bench "
)
_OF_BATCH = ("input_file", "num_prompts", "input_len")


def in_program_terms(text: str, run: Run) -> str:
    """Return Markdown on the settings of a run with those of a program in Python as arguments.

    Example:
        >>> in_program_terms("Drop `--enforce-eager`, set `--kv-cache-dtype fp8`.", Run(kind="offline"))
        'Drop `enforce_eager=True`, set `kv_cache_dtype="fp8"`.'
        >>> in_program_terms("`--max-num-seqs` `64` → `128`, no `--pids-limit`", Run(kind="offline"))
        '`max_num_seqs` `64` → `128`, no `--pids-limit`'
        >>> in_program_terms("Drop `--enforce-eager`.", Run(kind="server"))
        'Drop `--enforce-eager`.'
    """
    return _FLAG.sub(_argument, text) if "`--" in text and _calls_the_class(run) else text


def lines_in_program_terms(lines: Iterable[str], run: Run) -> list[str]:
    """Return lines of own words with the settings as the program takes them, and quoted lines as they are."""
    return [line if line.startswith("- Evidence:") else in_program_terms(line, run) for line in lines]


def _calls_the_class(run: Run) -> bool:
    """Return whether a program of its own calls vLLM: benchmarks and batches take flags."""
    if run.launched_by or any(name in run.arguments for name in _OF_BATCH):
        return False
    if run.kind != "offline" and not (run.kind == "unknown" and shows_class(run)):
        return False
    return not any(_OF_COMMAND.search(record.message) for record in trail_of(run))


def _argument(found: re.Match[str]) -> str:
    history = flag_history(found["name"])
    if not history or history[-1].flag.owner != "engine":
        return found[0]
    name, value = found["name"].replace("-", "_"), found["value"]
    if value:
        return code(f"{name}={value}" if _LITERAL.fullmatch(value) else f'{name}="{value}"')
    if found["no"]:
        return f"`{name}=False`"
    return f"`{name}=True`" if history[-1].flag.form.startswith("switch") else f"`{name}`"
