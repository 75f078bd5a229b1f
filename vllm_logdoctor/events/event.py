"""The event: what a record says, in names and units."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from vllm_logdoctor.catalogue.index import Pattern
from vllm_logdoctor.parse import Record

FieldValue = str | int | float | bool


class Event(Struct, frozen=True, gc=False):
    """A record whose message a pattern knows.

    Attributes:
        name: name of the event, under which the package run reads it.
        fields: values by field name, in the unit that the pattern states; absent groups are left out.
        pattern: the pattern that took the record.
        record: the record.
    """

    name: str
    fields: Mapping[str, FieldValue]
    pattern: Pattern
    record: Record

    def number(self, field: str) -> float | None:
        """Return a numeric field, or None where the message has none."""
        value = self.fields.get(field)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def text(self, field: str) -> str:
        """Return a text field, or an empty text."""
        value = self.fields.get(field)
        return "" if value is None else str(value)
