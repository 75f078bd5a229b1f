"""Further lines of a message: vLLM's logger prints its header before every line of one."""

from __future__ import annotations

from vllm_logdoctor.frame import Process, Record

MOST_PROCESSES = 4096


class Continuations:
    """Tells for each record whether it continues the record that its process wrote before.

    A line of the same process, level, call site and second as the line before it belongs to the same
    message: the rest of a traceback, of a configuration dump, of a list.
    """

    def __init__(self) -> None:
        self._last: dict[Process, tuple[Record, bool]] = {}

    def belongs(self, record: Record, recognised: bool) -> tuple[bool, bool]:
        """Note a record.

        Args:
            record: the next record of the log.
            recognised: a pattern knows its text.

        Returns:
            whether it continues the record before it, and whether its message is recognised: by itself or by
            the line that opened it.
        """
        if not record.message.strip():
            # An empty line says nothing that could be understood, and does not end a message.
            return True, True
        if not record.level:
            # What the process prints past its logger falls between two lines of one message.
            return False, recognised
        before = self._last.get(record.process)
        continues = not recognised and before is not None and _same_message(before[0], record)
        known = recognised or (continues and before is not None and before[1])
        if len(self._last) < MOST_PROCESSES or record.process in self._last:
            self._last[record.process] = (record, known)
        return continues, known


def _same_message(before: Record, record: Record) -> bool:
    return (
        record.call_site is not None
        and before.call_site == record.call_site
        and before.level == record.level
        and before.time == record.time
        and before.file == record.file
    )
