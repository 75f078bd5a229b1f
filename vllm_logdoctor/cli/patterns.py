"""The pattern commands: list, show, test and draft patterns."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from vllm_logdoctor.cli.exit_codes import ExitCode
from vllm_logdoctor.cli.parameters import completing
from vllm_logdoctor.errors import LogdoctorError

patterns = typer.Typer(
    name="patterns",
    help="The packs: which messages are known, and what they mean.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Packs = Annotated[
    list[Path] | None,
    typer.Option("--patterns", metavar="PATH", help="Directory or file with more pattern packs."),
]


def _further(packs: list[Path] | None) -> tuple[Path, ...]:
    """Return the packs that the command line and logdoctor.toml name."""
    from vllm_logdoctor.cli.options import settings_here

    return settings_here(packs or ()).patterns


def _rules() -> list[str]:
    """Return the ids of the rules: thousands of patterns are no list to choose from."""
    from vllm_logdoctor.catalogue.pages import rule_ids

    return rule_ids()


def explain(
    name: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="Id of a finding, a rule or a pattern.", autocompletion=completing(_rules)
        ),
    ],
    packs: Packs = None,
) -> None:
    """Explain a finding, a rule or a message, and what to do."""
    from vllm_logdoctor.rules.explaining import explain as explained

    text = explained(name, _further(packs))
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(text))
    else:
        typer.echo(text, nl=False)


@patterns.command("list")
def list_patterns(
    topic: Annotated[str, typer.Option(metavar="TOPIC", help="Only this topic.")] = "",
    verdict: Annotated[str, typer.Option(metavar="VERDICT", help="Only this verdict.")] = "",
    level: Annotated[str, typer.Option(metavar="LEVEL", help="Only this level.")] = "",
    pack: Annotated[str, typer.Option(metavar="PACK", help="Only this pack.")] = "",
    packs: Packs = None,
) -> None:
    """List patterns, tab-separated.

    Columns: id, level, topic, verdict, severity.
    """
    from vllm_logdoctor.catalogue.loading import load_all

    index, notes = load_all(_further(packs))
    for note in notes:
        typer.echo(note, err=True)
    wanted = {"topic": topic, "verdict": verdict, "level": level, "pack": pack}
    for pattern in index.patterns:
        if all(not value or getattr(pattern, key) == value for key, value in wanted.items()):
            columns = (pattern.id, pattern.level, pattern.topic, pattern.verdict, pattern.severity)
            typer.echo("\t".join(columns))


@patterns.command()
def show(
    name: Annotated[str, typer.Argument(metavar="ID", help="Id of a pattern.")], packs: Packs = None
) -> None:
    """Print a pattern from its pack file."""
    from vllm_logdoctor.catalogue.locate import builtin_root
    from vllm_logdoctor.catalogue.sources import PatternTexts

    found = PatternTexts([builtin_root(), *_further(packs)]).find(name)
    if found is None:
        raise LogdoctorError(f"no pattern has the id {name!r}; logdoctor patterns list shows all", 2)
    typer.echo(f"# {found.path}:{found.line}")
    typer.echo(found.text, nl=False)


@patterns.command("test")
def check(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE...", help="Packs, rule pages or directories of them; without: those of the tool."
        ),
    ] = None,
) -> None:
    """Check packs and rule pages.

    Format, literals, expressions, templates, samples and settings are checked, that no line has two
    patterns, and that the tool knows each failure from the example of its page. Packs of yours are checked
    together with those of the tool. Each problem is one line with file, line and key. Ends with 1 when
    there is one.
    """
    from vllm_logdoctor.catalogue.locate import builtin_root, pack_files
    from vllm_logdoctor.catalogue.validation import check_files
    from vllm_logdoctor.page_checks import check_rules
    from vllm_logdoctor.rules.context import plural

    checked = [file for path in paths or [builtin_root()] for file in _files_of(path)]
    resolved = {file.resolve() for file in checked}
    beside = [file for file in pack_files(builtin_root()) if file.resolve() not in resolved]
    problems = [*check_files(checked, beside), *check_rules(checked)]
    for problem in problems:
        typer.echo(str(problem))
    typer.echo(f"{plural(len(checked), 'file')} checked, {plural(len(problems), 'problem')}", err=True)
    if problems:
        raise typer.Exit(ExitCode.FINDINGS)


def _files_of(path: Path) -> list[Path]:
    from vllm_logdoctor.catalogue.locate import pack_files, page_files

    if not path.exists():
        raise LogdoctorError(f"{path}: no such file or directory")
    if not path.is_file() and not path.is_dir():
        raise LogdoctorError(
            f"{path}: neither a file nor a directory; packs are not read from a pipe or a device"
        )
    files = [*pack_files(path), *page_files(path)]
    if not files:
        raise LogdoctorError(f"{path}: no pack (*.toml) and no rule page (rules/*.md) in it")
    return files


@patterns.command()
def new(
    line: Annotated[str, typer.Option("--from", metavar="FILE:LINE", help="The line, counted from 1.")],
    pack: Annotated[str, typer.Option(metavar="NAME", help="Name of the pack in the draft.")] = "site",
) -> None:
    """Draft a pattern from a log line.

    Write it into a file and fill in what it means.
    """
    from vllm_logdoctor.catalogue.drafting import draft, read_line
    from vllm_logdoctor.catalogue.loading import load_index
    from vllm_logdoctor.parse import RecordParser
    from vllm_logdoctor.scan import WantedLine

    records = list(RecordParser().parse(WantedLine(0, 1, read_line(line).encode())))
    if not records:
        raise LogdoctorError(f"{line}: the line is empty", 2)
    record = records[-1]
    level = record.level.lower() if record.call_site else "foreign"
    module = record.call_site[0] if record.call_site else ""
    taken = {pattern.id for pattern in load_index().patterns}
    typer.echo(draft(record.message, level, module, pack, taken), nl=False)


@patterns.command()
def schema() -> None:
    """Print the JSON Schema of pack files, for editors."""
    from vllm_logdoctor.catalogue.model import schema_text

    typer.echo(schema_text(), nl=False)


@patterns.command()
def literals(packs: Packs = None) -> None:
    """Print all literals, one per line.

    They decide which lines are searched with expressions.
    """
    from vllm_logdoctor.catalogue.loading import load_index

    for literal in load_index(_further(packs)).literals:
        typer.echo(literal)
