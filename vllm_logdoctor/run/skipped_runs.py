"""Runs beyond those that are told: most of a million of them only begin and end, and are only counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vllm_logdoctor.events import Event
from vllm_logdoctor.parse import Process, Record
from vllm_logdoctor.run.builder import ENDS, READ, RunBuilder, troubles
from vllm_logdoctor.run.environment import Environment, may_tell
from vllm_logdoctor.run.launches import Launches

_MOST_WAITING = 16


class SkippedRun(RunBuilder):
    """A run whose records wait, because it may be left out: it knows how many there are and whether it has ended.

    With the first record that says more, and with the first question that this does not answer, it becomes a run like
    any other, with all of its records.
    """

    def __init__(
        self, number: int, files: Sequence[str], environment: Environment, launches: Launches
    ) -> None:
        # Nothing else of a run is made: what is missing is what it is asked for at last.
        self.number, self.files = number, files
        self.environment, self.launches = environment, launches
        self.openers: dict[str, Process] = {}
        self.vllm_records = self.recognised = 0
        self.ready = self.ended = self.troubled = False
        self._waiting: list[tuple[Record, Event, int]] = []

    def add(self, record: Record, event: Event | None, count: int = 1) -> None:
        """Take a record with its event; see `RunBuilder.add`."""
        if event is None or len(self._waiting) == _MOST_WAITING or self._says_more(record, event):
            self._unfold()
            self.add(record, event, count)
            return
        self._waiting.append((record, event, count))
        if record.level:
            self.vllm_records += count
            self.recognised += count
        self.ended = self.ended or event.name in ENDS

    def settle(self) -> None:
        """Make the records that others may ask for."""
        self._unfold()

    def _says_more(self, record: Record, event: Event) -> bool:
        """Say whether a record tells of anything but itself and an end."""
        return (
            (event.name in READ and event.name not in ENDS)
            or may_tell(record)
            or troubles(record)
            or (not record.level and self.launches.may_tell(record))
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._unfold()
        return getattr(self, name)

    def _unfold(self) -> None:
        """Become a run like any other."""
        waiting, openers = self._waiting, self.openers
        del self._waiting
        self.__class__ = RunBuilder  # type: ignore[assignment]
        RunBuilder.__init__(self, self.number, self.files, self.environment, self.launches)
        self.openers = openers
        for told in waiting:
            self.add(*told)
