"""Events room: a record becomes a typed event by the pattern that knows its message."""

from vllm_logdoctor.events.debugging import DebugReader
from vllm_logdoctor.events.event import Event
from vllm_logdoctor.events.known import Figures, KnownHead, KnownLine
from vllm_logdoctor.events.matcher import Matcher
from vllm_logdoctor.events.requests import RequestReader
from vllm_logdoctor.events.statistics import StatisticsReader

__all__ = [
    "DebugReader",
    "Event",
    "Figures",
    "KnownHead",
    "KnownLine",
    "Matcher",
    "RequestReader",
    "StatisticsReader",
]
