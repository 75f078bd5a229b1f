"""Scan room: decides which lines Python ever sees; the only hot loop."""

from vllm_logdoctor.scan.accesses import AccessBlock, AccessKey
from vllm_logdoctor.scan.debug_lines import DebugKind, DebugLines, may_be_debug, without_digits
from vllm_logdoctor.scan.line_selection import Item, Line, Repeated, Selector
from vllm_logdoctor.scan.prefilter import Prefilter, build_prefilter
from vllm_logdoctor.scan.scanner import LineFilter, Scanned, Scanner

__all__ = [
    "AccessBlock",
    "AccessKey",
    "DebugKind",
    "DebugLines",
    "Item",
    "Line",
    "LineFilter",
    "Prefilter",
    "Repeated",
    "Scanned",
    "Scanner",
    "Selector",
    "build_prefilter",
    "may_be_debug",
    "without_digits",
]
