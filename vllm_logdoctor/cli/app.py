"""The commands; modules of seldom used commands are imported when they are called."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from vllm_logdoctor.cli.analyze_options import parameter
from vllm_logdoctor.cli.assistants import excerpt, mcp
from vllm_logdoctor.cli.compare import compare, verify
from vllm_logdoctor.cli.config import config
from vllm_logdoctor.cli.fleet import fleet
from vllm_logdoctor.cli.follow import follow
from vllm_logdoctor.cli.hook import hook
from vllm_logdoctor.cli.man import man
from vllm_logdoctor.cli.measure import baseline, collect
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
app.add_typer(fleet)
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
    output: Annotated[Optional[list[str]], parameter("outputs")] = None,  # noqa: UP045
    format: Annotated[Optional[str], parameter("format")] = None,  # noqa: UP045
    objective: Annotated[Optional[str], parameter("objective")] = None,  # noqa: UP045
    patterns: Annotated[Optional[list[str]], parameter("patterns")] = None,  # noqa: UP045
    jobs: Annotated[int, parameter("jobs", min=1)] = 1,
    quiet: Annotated[bool, parameter("quiet")] = False,
    job: Annotated[bool, parameter("job")] = False,
    fail_on: Annotated[Optional[str], parameter("fail_on")] = None,  # noqa: UP045
    beside: Annotated[Optional[list[str]], parameter("beside")] = None,  # noqa: UP045
    baseline: Annotated[Optional[str], parameter("baseline")] = None,  # noqa: UP045
    fleet: Annotated[Optional[str], parameter("fleet")] = None,  # noqa: UP045
    ask: Annotated[Optional[str], parameter("ask")] = None,  # noqa: UP045
    model: Annotated[Optional[str], parameter("model")] = None,  # noqa: UP045
    ask_dry_run: Annotated[bool, parameter("ask_dry_run")] = False,
) -> None:
    """Report what ran, what broke and why, and what to change."""
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
        fleet,
        ask,
        model,
        ask_dry_run,
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
app.command()(excerpt)
app.command()(mcp)
app.command()(baseline)
app.command()(collect)
