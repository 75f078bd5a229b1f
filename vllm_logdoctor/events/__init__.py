"""Events room: a record becomes a typed event by the pattern that knows its message."""

from vllm_logdoctor.events.event import Event
from vllm_logdoctor.events.matcher import Matcher
from vllm_logdoctor.events.requests import RequestLine, RequestReader
from vllm_logdoctor.events.statistics import StatisticsLine, StatisticsReader

__all__ = ["Event", "Matcher", "RequestLine", "RequestReader", "StatisticsLine", "StatisticsReader"]
