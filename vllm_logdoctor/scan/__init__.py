"""Decide which lines Python ever sees; the only loop over every byte."""

from vllm_logdoctor.scan.accesses import AccessBlock, AccessKey
from vllm_logdoctor.scan.line_selection import TAIL_BYTES, TAIL_LINES, Item, Line, Repeated, Selector
from vllm_logdoctor.scan.prefilter import Prefilter, build_prefilter
from vllm_logdoctor.scan.scanner import LineFilter, Scanned, Scanner

__all__ = [
    "TAIL_BYTES",
    "TAIL_LINES",
    "AccessBlock",
    "AccessKey",
    "Item",
    "Line",
    "LineFilter",
    "Prefilter",
    "Repeated",
    "Scanned",
    "Scanner",
    "Selector",
    "build_prefilter",
]
