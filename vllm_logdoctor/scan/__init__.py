"""Decide which lines Python ever sees; the only loop over every byte."""

from vllm_logdoctor.scan.accesses import AccessBlock, AccessKey
from vllm_logdoctor.scan.line_selection import Item, KindLimit, Repeated, Selector, WantedLine
from vllm_logdoctor.scan.prefilter import Prefilter, build_prefilter
from vllm_logdoctor.scan.scanner import LineFilter, Scanned, Scanner

__all__ = [
    "AccessBlock",
    "AccessKey",
    "Item",
    "KindLimit",
    "LineFilter",
    "Prefilter",
    "Repeated",
    "Scanned",
    "Scanner",
    "Selector",
    "WantedLine",
    "build_prefilter",
]
