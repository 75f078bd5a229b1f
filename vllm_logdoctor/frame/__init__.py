"""Frame room: turns wanted lines into records; prefixes, clocks, colours, progress bars, JSON, secrets."""

from vllm_logdoctor.frame.framer import LONGEST_TEXT, Framer, writer_of
from vllm_logdoctor.frame.plain import is_plain
from vllm_logdoctor.frame.record import NO_PROCESS, Process, Record
from vllm_logdoctor.frame.secrets import may_hold_secret

__all__ = [
    "LONGEST_TEXT",
    "NO_PROCESS",
    "Framer",
    "Process",
    "Record",
    "is_plain",
    "may_hold_secret",
    "writer_of",
]
