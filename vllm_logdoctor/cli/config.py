"""The config command: the effective configuration alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from vllm_logdoctor.cli.parameters import Log, RunNumber, format_option

if TYPE_CHECKING:
    from vllm_logdoctor.report.model import Analysis, Diagnosis
    from vllm_logdoctor.run.model import Run, Value

FORMATS = ("markdown", "text", "json", "yaml")


def config(
    log: Log,
    run: RunNumber = None,
    format: Annotated[
        str, format_option(*FORMATS, words="markdown, text, json, or yaml for vllm serve --config.")
    ] = "markdown",
) -> None:
    """Print the configuration in effect and who set each value."""
    from vllm_logdoctor.cli.options import analysis_of, run_of
    from vllm_logdoctor.report.writers import format_named

    format = format_named(format, FORMATS)
    analysis = analysis_of(log)
    sys.stdout.buffer.write(_text(analysis, run_of(analysis, run), format).encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


def _text(analysis: Analysis, diagnosis: Diagnosis, format: str) -> str:
    if format == "yaml":
        return yaml_text(diagnosis.run)
    if format == "json":
        from vllm_logdoctor.report.json import run_document

        document = run_document(diagnosis)
        kept = {name: document[name] for name in ("vllm_version", "model", "config")}
        return json.dumps(kept, indent=2, ensure_ascii=False) + "\n"
    page = markdown_text(analysis, diagnosis)
    if format == "markdown":
        return page
    from vllm_logdoctor.report.text import plain_text

    return plain_text(page)


def markdown_text(analysis: Analysis, diagnosis: Diagnosis) -> str:
    """Return the configuration of a run as Markdown."""
    from vllm_logdoctor.report.naming import run_title
    from vllm_logdoctor.report.page import Page
    from vllm_logdoctor.report.sections.configuration import configuration

    page = Page(analysis, diagnosis)
    body = configuration(page) or ["The log holds no configuration."]
    return "\n".join([f"# {run_title(page.run)}", "", *body]) + "\n"


def yaml_text(run: Run) -> str:
    """Return a run as a file for `vllm serve --config`; what else was in effect is in comments."""
    from vllm_logdoctor.plan.formats import yaml_config
    from vllm_logdoctor.plan.launch import launch_of

    launch = launch_of(run)
    if launch is None:
        head = "# The log does not hold all arguments of the launch: this is what it tells."
    else:
        head = yaml_config(launch)
    others = list(_others(run, known=launch is not None))
    lines = [head, *(["# In effect without being set:"] if others and launch else []), *others]
    return "\n".join(lines) + "\n"


def _others(run: Run, known: bool) -> Iterator[str]:
    from vllm_logdoctor.knowledge.flags import flag_for_field
    from vllm_logdoctor.plan.formats import yaml_value
    from vllm_logdoctor.report.escape import visible

    version = str(run.version.value) if run.version and run.version.value else None
    for name, value in sorted(run.config.items()):
        if (known and value.provenance == "explicit") or not _is_plain(value):
            continue
        flag = flag_for_field(name, version)
        shown = flag.name.removeprefix("--") if flag else name.replace("_", "-")
        yield f"# {visible(shown)}: {visible(yaml_value(value.value))}  ({value.provenance})"


def _is_plain(value: Value) -> bool:
    plain: Any = value.value
    return isinstance(plain, str | int | float | bool) and plain != ""
