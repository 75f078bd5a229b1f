"""The whatif command: what the KV cache of a logged run would hold with other settings."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from msgspec import to_builtins

from vllm_logdoctor.cli.parameters import completing, format_option
from vllm_logdoctor.errors import LogdoctorError, unknown_choice


def run_whatif(path: str, settings: Sequence[str], format: str) -> str:
    """Answer a what-if on the last run of a log whose KV cache is known.

    Returns:
        the answer as text.

    Raises:
        LogdoctorError: a setting or the format can't be read (2), nothing can be read (3), nothing of vLLM in
            it (4).
    """
    from vllm_logdoctor.cli.options import analysis_of
    from vllm_logdoctor.plan.whatif import check_setting, parse_setting, what_if

    if format not in ("json", "text"):
        raise unknown_choice("format", format, ("text", "json"))
    if not settings:
        raise LogdoctorError("name a setting: --set gpu_memory_utilization=0.95", 2)
    try:
        wanted = dict(parse_setting(setting) for setting in settings)
    except ValueError as error:
        raise LogdoctorError(str(error), 2) from error
    chosen = analysis_of(path).with_known_cache.run
    for name, value in wanted.items():
        check_setting(name, value, chosen.release)
    answer = what_if(chosen, wanted)
    document = to_builtins(answer)
    if format == "json":
        return (
            json.dumps({**document, "run": chosen.number, "set": wanted}, indent=2, ensure_ascii=False) + "\n"
        )
    return "".join(_words(name, document[name]) for name in document)


def _setting_names() -> list[str]:
    """Return the settings that change the size of the KV cache, each with the sign before its value."""
    from vllm_logdoctor.rules.capacity.laws import LAWS

    return [f"{name}=" for name in LAWS]


def whatif(
    log: Annotated[str, typer.Argument(metavar="LOG", help="Log of a run, or - for standard input.")],
    set: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            "-s",
            metavar="NAME=VALUE",
            help="A setting to change; repeatable.",
            autocompletion=completing(_setting_names),
        ),
    ] = None,
    format: Annotated[str, format_option("text", "json")] = "text",
) -> None:
    """Compute what the KV cache would hold with other settings."""
    sys.stdout.write(run_whatif(log, set or [], format))


def _words(name: str, figure: dict[str, Any]) -> str:
    title = {"kv_cache_tokens": "KV cache tokens", "max_concurrency": "requests of max_model_len"}[name]
    if figure["after"] is None:
        return f"{title}: not known: {figure['basis']}\n"
    return (
        f"{title}: {figure['before']:,} -> {figure['after']:,} ({figure['low']:,} to {figure['high']:,})\n "
        f" {figure['basis']}\n"
    )
