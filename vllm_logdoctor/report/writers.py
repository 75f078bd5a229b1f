"""Formats by name: each is one function from an analysis to text."""

from __future__ import annotations

from importlib import import_module

from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.report.model import Analysis

FORMATS: dict[str, str] = {
    "markdown": "markdown", "json": "json", "text": "text", "html": "html", "sarif": "sarif",
    "junit": "junit", "github": "github", "csv": "csv",
}  # fmt: skip
"""Format name -> module of the report room that holds `render(analysis)`."""

_ENDINGS = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".json": "json",
    ".txt": "text",
    ".html": "html",
    ".htm": "html",
    ".sarif": "sarif",
    ".xml": "junit",
    ".csv": "csv",
}


def render(analysis: Analysis, format_name: str) -> str:
    """Return the report in a format.

    Raises:
        LogdoctorError: no such format.
    """
    if format_name not in FORMATS:
        raise LogdoctorError(f"unknown format {format_name!r}; choose one of {', '.join(FORMATS)}", 2)
    module = import_module(f"vllm_logdoctor.report.{FORMATS[format_name]}")
    return str(module.render(analysis))


def format_of_name(name: str, default: str | None = None) -> str:
    """Return the format that a file name's ending asks for.

    Example:
        >>> format_of_name("report.sarif"), format_of_name("report", "json")
        ('sarif', 'json')
    """
    ending = name[name.rfind(".") :].lower() if "." in name else ""
    return _ENDINGS.get(ending) or default or "markdown"
