"""Frame room: turns wanted lines into records; prefixes, clocks, colours, progress bars, JSON, secrets."""

from vllm_logdoctor.frame.framer import Framer, writer_of
from vllm_logdoctor.frame.record import NO_PROCESS, Process, Record

__all__ = ["NO_PROCESS", "Framer", "Process", "Record", "writer_of"]
