"""Which lines are understood: further lines of a message with the first one, as vLLM's logger prints its header before each."""

from __future__ import annotations

from vllm_logdoctor.catalogue.vllm_messages import vllm_messages
from vllm_logdoctor.parse import Process, Record
from vllm_logdoctor.scan.accesses import access_keys

MOST_PROCESSES = 4096
_TRACEBACK = ("Traceback (most recent call last)", '  File "')


class Continuations:
    """Notes for each record whether it continues the record that its process wrote before.

    A line of the same process, level, call site and second as the line before it belongs to the same
    message: the rest of a traceback, of a configuration dump, of a list.
    """

    def __init__(self) -> None:
        self._last: dict[Process, _Said] = {}
        # What the writer of the line before said is apart: most lines follow one of their own process.
        self._writer: Process | None = None
        self._said = _NOTHING
        self.names_call_sites = False

    def belongs(self, record: Record, recognised: bool) -> tuple[bool, bool]:
        """Note a record.

        Args:
            record: the next record of the log.
            recognised: a pattern or the table of messages knows its text.

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
        # A traceback is read as a whole, whatever the line above it.
        known = (
            recognised
            or record.message.startswith(_TRACEBACK)
            or (continues and before_is_known)
            or _is_access_line(record.message)
        )
        self.names_call_sites |= known and record.call_site is not None
        if self._writer is not None:
            self._said = same, known
        return continues, known

    def may_be_vllms(self, record: Record) -> bool:
        """Return whether vLLM may have written a record that is not recognised, and no fork, plug-in or program beside it.

        It names the call site in every line or in none, and a release of it has the file.
        """
        if record.call_site is None:
            return not self.names_call_sites
        return vllm_messages().prints_from(record.call_site)

    def _change_writer(self, process: Process) -> None:
        """Put away what was said last by one process and take up what another one said; those beyond the bound say nothing."""
        if self._writer is not None:
            self._last[self._writer] = self._said
        self._said = self._last.get(process, _NOTHING)
        self._writer = process if len(self._last) < MOST_PROCESSES or process in self._last else None


_Said = tuple["tuple[tuple[str, int] | None, float | None, str, int] | None", bool]
"""Call site, time, level and file of a record, and whether its message is recognised."""
_NOTHING: _Said = (None, False)


def _is_access_line(message: str) -> bool:
    """Return whether a message is an access line in another framing, as in JSON; the scan has counted its request."""
    return " HTTP/" in message and bool(access_keys(message.encode("utf-8", "replace")))
