"""Events room: a record becomes a typed event by the pattern that knows its message."""

from vllm_logdoctor.events.debug_counts import DebugReader
from vllm_logdoctor.events.event import Event
from vllm_logdoctor.events.fast_path import FastLine, Figures, LinePrefix
from vllm_logdoctor.events.matcher import Matcher
from vllm_logdoctor.events.requests import RequestReader
from vllm_logdoctor.events.statistics import StatisticsReader

__all__ = [
    "DebugReader",
    "Event",
    "FastLine",
    "Figures",
    "LinePrefix",
    "Matcher",
    "RequestReader",
    "StatisticsReader",
]
