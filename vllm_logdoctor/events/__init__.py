"""Turn a record into a typed event by the pattern that matches its message."""

from vllm_logdoctor.events.event import Event
from vllm_logdoctor.events.fast_path import (
    FastLine,
    Figures,
    LinePrefix,
    RecordEvent,
    RequestReader,
    StatisticsReader,
)
from vllm_logdoctor.events.matcher import Matcher

__all__ = [
    "Event",
    "FastLine",
    "Figures",
    "LinePrefix",
    "Matcher",
    "RecordEvent",
    "RequestReader",
    "StatisticsReader",
]
