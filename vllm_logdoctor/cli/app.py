"""The commands; modules of seldom used commands are imported when they are called."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from vllm_logdoctor.cli.compare import compare, verify
from vllm_logdoctor.cli.config import config
from vllm_logdoctor.cli.follow import follow
from vllm_logdoctor.cli.hook import hook
from vllm_logdoctor.cli.man import man
from vllm_logdoctor.cli.patterns import explain, patterns
from vllm_logdoctor.cli.plan import plan
from vllm_logdoctor.cli.whatif import whatif

app = typer.Typer(
    name="logdoctor",
    help="Reads a vLLM log and says what really ran, what broke and why, and what to change first.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(hook)
app.add_typer(patterns)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"logdoctor {version('vllm-logdoctor')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    pass


@app.command()
def analyze(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="LOG...", help="Logs, a directory, or - for standard input."),
    ] = None,
    output: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            "--output",
            "-o",
            help="Write the report here; the ending tells the format; may be given several times.",
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            "--format", "-f", help="markdown, json, text, html, sarif, junit, github, csv or terminal."
        ),
    ] = None,
    objective: Annotated[
        str | None, typer.Option(help="balanced, throughput, latency, long-context, memory or startup.")
    ] = None,
    patterns: Annotated[
        list[str] | None, typer.Option("--patterns", help="Directory with more pattern packs.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Processes that scan a large file.")] = 1,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
    job: Annotated[
        bool, typer.Option("--job", help="Find the log of the PBS or Slurm job that this runs in.")
    ] = False,
    fail_on: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--fail-on",
            help="Exit with 1 on findings of this severity or above: critical, high, medium, low, info.",
        ),
    ] = None,
    beside: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            "--with", metavar="FILE", help="A file beside the log: metrics, nvidia-smi, a benchmark's result."
        ),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="Earlier JSON report: tell only what it does not hold.")
    ] = None,
) -> None:
    """Say what ran, what happened, what broke and why, and what to change first."""
    from vllm_logdoctor.cli.analyze import Request, run_analyze

    request = Request(
        paths or [],
        output or [],
        format,
        objective,
        patterns or [],
        jobs,
        quiet,
        job,
        fail_on,
        baseline,
        beside or [],
    )
    raise typer.Exit(run_analyze(request))


app.command()(compare)
app.command()(verify)
app.command()(follow)
app.command()(config)
app.command()(man)
app.command()(whatif)
app.command()(plan)
app.command()(explain)
