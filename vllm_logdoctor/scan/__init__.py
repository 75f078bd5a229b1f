"""Scan room: decides which lines Python ever sees; the only hot loop."""

from vllm_logdoctor.scan.accesses import AccessBlock, AccessKey
from vllm_logdoctor.scan.debug_lines import DebugKind, DebugLines, may_be_debug, without_digits
from vllm_logdoctor.scan.gates import GateSet, gate_set
from vllm_logdoctor.scan.select import Item, Line, Repeated, Selector
from vllm_logdoctor.scan.sight import Interest, Scanned, Scanner

__all__ = [
    "AccessBlock",
    "AccessKey",
    "DebugKind",
    "DebugLines",
    "GateSet",
    "Interest",
    "Item",
    "Line",
    "Repeated",
    "Scanned",
    "Scanner",
    "Selector",
    "gate_set",
    "may_be_debug",
    "without_digits",
]
