"""The formats of a report: one list for analyses, comparisons and verifications."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

from msgspec import Struct

from vllm_logdoctor.errors import unknown_choice
from vllm_logdoctor.report.model import Analysis


class Format(Struct, frozen=True):
    """One format; the module of its name in this package holds `render`.

    Attributes:
        title: what messages call a report in it.
        endings: endings of its files.
        begins: expression at the beginning of its files, so that a report given as a log is refused; none where
            another format's expression knows them, and for text, which is known by its title and the lines that it cites.
    """

    title: str
    endings: tuple[str, ...]
    begins: bytes = b""


FORMATS: dict[str, Format] = {
    "markdown": Format("Markdown report", (".md", ".markdown")),
    "json": Format("JSON report", (".json",), rb'\s*\{\s*"schema":\s*"logdoctor(?:-\w+)?/\d'),
    "text": Format("text report", (".txt",)),
    "html": Format(
        "HTML report",
        (".html", ".htm"),
        rb'(?s)<!DOCTYPE html>.{0,2000}<meta name="generator" content="logdoctor">',
    ),
    "sarif": Format(
        "SARIF report", (".sarif",), rb'(?s)\s*\{\s*"\$schema".{0,400}"driver":\s*\{\s*"name":\s*"logdoctor"'
    ),
    "junit": Format("JUnit report", (".xml",), rb'(?s)<\?xml [^>]*>\s*<testsuites name="logdoctor"'),
    "github": Format("GitHub annotations", (), rb"::(?:error|warning|notice) file=[^\n]*,title="),
    "csv": Format("CSV report", (".csv",), rb"(?:run,file,line,id,kind|group,name,verdict,state),"),
}

_OF_ANALYSIS = ("markdown", "json", "text", "html", "sarif", "junit", "github", "csv")
"""Formats whose `render` takes an analysis: they need more of it than page and document hold."""
_OF_PAGE = ("markdown", "json", "text")
"""Formats that page and document of any other result are enough for."""

ENDINGS = {ending: name for name, one in FORMATS.items() for ending in one.endings}
CHOICES = (*FORMATS, "terminal")
"""Values of --format: all formats, and the view on a terminal."""


class Result(Struct, frozen=True):
    """What a command found, in the forms that a format is made of.

    Attributes:
        page: returns it as Markdown.
        document: returns its JSON document as dictionaries and lists.
        own: functions for formats that need more than page and document, by name.
    """

    page: Callable[[], str]
    document: Callable[[], dict[str, Any]]
    own: Mapping[str, Callable[[], str]]


def render(analysis: Analysis, format_name: str) -> str:
    """Return the report in a format.

    Raises:
        LogdoctorError: no such format.
    """
    return render_result(result_of(analysis), format_name)


def render_result(result: Result, format_name: str) -> str:
    """Return what a command found in a format.

    Raises:
        LogdoctorError: no such format, or none of such a result.
    """
    own = (*_OF_PAGE, *result.own)
    format_name = format_named(
        format_name, tuple(name for name in FORMATS if name in own or name not in _OF_ANALYSIS)
    )
    if format_name in result.own:
        return result.own[format_name]()
    if format_name == "markdown":
        return result.page()
    if format_name == "json":
        return str(_module("json").text_of(result.document()))
    if format_name == "text":
        return str(_module("text").plain_text(result.page()))
    return str(_module(format_name).render(result))


def result_of(analysis: Analysis) -> Result:
    """Return an analysis in the forms that formats are made of."""
    own = {name: partial(_render_analysis, name, analysis) for name in _OF_ANALYSIS}
    return Result(own["markdown"], lambda: dict(_module("json").document(analysis)), own)


def format_named(name: str, choices: tuple[str, ...] = CHOICES) -> str:
    """Return the format of a name, which may be the ending of its files.

    Example:
        >>> format_named("md"), format_named("html"), format_named("txt")
        ('markdown', 'html', 'text')

    Raises:
        LogdoctorError: none of the choices (exit code 2).
    """
    found = ENDINGS.get(f".{name}", name)
    if found not in choices:
        raise unknown_choice("format", name, choices)
    return found


def ending_of(name: str) -> str:
    """Return the ending of a file name in small letters, or "" without one.

    Example:
        >>> ending_of("reports.d/report.HTML"), ending_of("reports.d/report")
        ('.html', '')
    """
    last = name.replace("\\", "/").rpartition("/")[2]
    return last[last.rfind(".") :].lower() if "." in last else ""


def format_of_name(name: str, default: str | None = None) -> str:
    """Return the format that a file name's ending asks for.

    Example:
        >>> format_of_name("report.sarif"), format_of_name("report", "json")
        ('sarif', 'json')
    """
    return ENDINGS.get(ending_of(name)) or default or "markdown"


def _render_analysis(name: str, analysis: Analysis) -> str:
    return str(_module(name).render(analysis))


def _module(name: str) -> ModuleType:
    return import_module(f"vllm_logdoctor.report.{name}")
