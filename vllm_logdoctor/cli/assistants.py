"""The commands excerpt and mcp: what a person or an assistant elsewhere gets of a log."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from vllm_logdoctor.cli.parameters import format_option


def excerpt(
    logs: Annotated[
        list[str], typer.Argument(metavar="LOG...", help="Logs, a directory, or - for standard input.")
    ],
    lines: Annotated[int, typer.Option("--lines", metavar="N", help="Most lines, 30 to 150.")] = 150,
    format: Annotated[str, format_option("md", "text", "json")] = "md",
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write to FILE instead of standard output."),
    ] = None,
    run: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Number of the run; default: the last that failed, else the last."
        ),
    ] = None,
) -> None:
    """Print a masked excerpt for an issue, a ticket or an assistant."""
    from vllm_logdoctor.assistants.excerpt import check_lines, excerpt_of
    from vllm_logdoctor.assistants.writing import FORMATS, rendered
    from vllm_logdoctor.cli.options import options_of, settings_here
    from vllm_logdoctor.cli.output import check_outputs, write
    from vllm_logdoctor.pipeline import analyse
    from vllm_logdoctor.report.writers import format_named
    from vllm_logdoctor.source import inputs_of_paths

    check_lines(lines)
    chosen = format_named(format, FORMATS)
    inputs = inputs_of_paths(logs)
    place = "-" if output is None else output
    check_outputs([place], [one.path or "-" for one in inputs], chosen)
    analysis = analyse(inputs, options_of(settings_here()))
    write(rendered(excerpt_of(analysis, run, lines), chosen), place)


def mcp(
    root: Annotated[
        list[str],
        typer.Option("--root", metavar="DIR", help="Folder whose logs may be read; repeatable."),
    ],
) -> None:
    """Serve read-only tools on logs to assistants (MCP over stdio)."""
    from vllm_logdoctor.cli.options import options_of, settings_here
    from vllm_logdoctor.errors import LogdoctorError
    from vllm_logdoctor.mcp_server.roots import Roots

    if sys.stdin is None:
        raise LogdoctorError("standard input is closed: an assistant asks on it")
    roots = Roots(root)
    try:
        from vllm_logdoctor.mcp_server.server import server_of
    except ImportError as error:
        raise LogdoctorError(
            f"the extra mcp is not installed ({error}): pip install 'vllm-logdoctor[mcp]'", 2
        ) from error
    from vllm_logdoctor.mcp_server.tools import Tools

    server_of(Tools(roots, options_of(settings_here()))).run("stdio")
