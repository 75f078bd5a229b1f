"""Further lines of a message: vLLM's logger prints its header before every line of one."""

from __future__ import annotations

from vllm_logdoctor.parse import Process, Record

MOST_PROCESSES = 4096


class Continuations:
    """Tells for each record whether it continues the record that its process wrote before.

    A line of the same process, level, call site and second as the line before it belongs to the same
    message: the rest of a traceback, of a configuration dump, of a list.
    """

    def __init__(self) -> None:
        self._last: dict[Process, _Said] = {}
        # What the writer of the line before said stands apart: most lines follow one of their own process.
        self._writer: Process | None = None
        self._said = _NOTHING

    def belongs(self, record: Record, recognised: bool) -> tuple[bool, bool]:
        """Note a record.

        Args:
            record: the next record of the log.
            recognised: a pattern knows its text.

        Returns:
            whether it continues the record before it, and whether its message is recognised: by itself or by
            the line that opened it.
        """
        if not record.message or record.message.isspace():
            # An empty line says nothing that could be understood, and does not end a message.
            return True, True
        if not record.level:
            # What the process prints past its logger falls between two lines of one message.
            return False, recognised
        if record.process is not self._writer:
            self._change_writer(record.process)
        place, before_is_known = self._said
        same = (record.call_site, record.time, record.level, record.file)
        continues = not recognised and same == place and record.call_site is not None
        known = recognised or (continues and before_is_known)
        if self._writer is not None:
            self._said = same, known
        return continues, known

    def _change_writer(self, process: Process) -> None:
        """Put away what was said last by one process and take up what another one said; those beyond the bound say nothing."""
        if self._writer is not None:
            self._last[self._writer] = self._said
        self._said = self._last.get(process, _NOTHING)
        self._writer = process if len(self._last) < MOST_PROCESSES or process in self._last else None


_Said = tuple["tuple[tuple[str, int] | None, float | None, str, int] | None", bool]
"""Call site, time, level and file of a record, and whether its message is recognised."""
_NOTHING: _Said = (None, False)
