"""The text of a file as its tool printed it: without byte order mark, colours, quoting and the prompt above it; lines keep their numbers."""

from __future__ import annotations

import codecs
import re

from vllm_logdoctor.texts import shared_start

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_COLOUR = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
_MARGIN = " \t>"
_FENCE = re.compile(r"\s*(?:```|~~~)\w*\s*")
# user@node:~$ nvidia-smi    [root@node ~]# free -m
_COMMAND = re.compile(r"(?:\[?[\w.-]+@[^\n$#]{1,120})?[$#] \S.*")
_MOST_ABOVE = 5


def file_text(data: bytes) -> str:
    r"""Return the text of a file.

    Example:
        >>> file_text(b"> $ free\n>    total used\n> Mem: 7 4\n")
        '\n   total used\nMem: 7 4\n'
    """
    # PowerShell writes what a tool prints as UTF-16.
    text = data.decode("utf-16" if data.startswith(_UTF_16) else "utf-8-sig", "replace").replace("\r", "")
    if "\x1b" in text:
        text = _COLOUR.sub("", text)
    lines = text.split("\n")
    printed = [line for line in lines if line.strip(_MARGIN)]
    # Lines between the first and the last in order begin as these two do.
    if margin := shared_start(_margin(min(printed)), _margin(max(printed))) if printed else 0:
        lines = [line[margin:] if line.strip(_MARGIN) else "" for line in lines]
    return "\n".join(_without_frame(lines))


def _margin(line: str) -> str:
    return line[: len(line) - len(line.lstrip(_MARGIN))]


def _without_frame(lines: list[str]) -> list[str]:
    """Return the lines with a command and the fence around the output left empty; a header of columns may begin with # as well."""
    for at, line in enumerate(lines[:_MOST_ABOVE]):
        frames = not line.strip() or _FENCE.fullmatch(line)
        if not frames and (line.startswith("# ") or not _COMMAND.match(line)):
            printed = ("" if _FENCE.fullmatch(one) else one for one in lines[at:])
            return [*[""] * at, *printed]
    return lines
