"""The commands; modules of seldom used commands are imported when they are called."""

from __future__ import annotations

from typing import Annotated

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
    outputs: Annotated[list[str] | None, parameter("outputs")] = None,
    format: Annotated[str | None, parameter("format")] = None,
    objective: Annotated[str | None, parameter("objective")] = None,
    patterns: Annotated[list[str] | None, parameter("patterns")] = None,
    jobs: Annotated[int, parameter("jobs", min=1)] = 1,
    quiet: Annotated[bool, parameter("quiet")] = False,
    job: Annotated[bool, parameter("job")] = False,
    fail_on: Annotated[str | None, parameter("fail_on")] = None,
    beside: Annotated[list[str] | None, parameter("beside")] = None,
    baseline: Annotated[str | None, parameter("baseline")] = None,
    fleet: Annotated[str | None, parameter("fleet")] = None,
    ask: Annotated[str | None, parameter("ask")] = None,
    model: Annotated[str | None, parameter("model")] = None,
    ask_dry_run: Annotated[bool, parameter("ask_dry_run")] = False,
) -> None:
    """Report what ran, what broke and why, and what to change."""
    given = {name: value for name, value in locals().items() if value is not None}
    from vllm_logdoctor.cli.analyze import AnalyzeArguments, run_analyze

    raise typer.Exit(run_analyze(AnalyzeArguments(**given)))


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
