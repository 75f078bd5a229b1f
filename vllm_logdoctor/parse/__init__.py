"""Turn wanted lines into records: prefixes, clocks, colours, progress bars, JSON, secrets."""

from vllm_logdoctor.parse.plain_headers import is_plain
from vllm_logdoctor.parse.record import NO_PROCESS, Process, Record
from vllm_logdoctor.parse.record_parser import LONGEST_TEXT, RecordParser, writer_of
from vllm_logdoctor.parse.secrets import mask, may_hold_secret

__all__ = [
    "LONGEST_TEXT",
    "NO_PROCESS",
    "Process",
    "Record",
    "RecordParser",
    "is_plain",
    "mask",
    "may_hold_secret",
    "writer_of",
]
