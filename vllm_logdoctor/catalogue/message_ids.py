"""Ids of messages that no pattern takes, and the ids that they had in earlier releases."""

from __future__ import annotations

import re
from collections.abc import Iterable

from vllm_logdoctor.catalogue.naming import pattern_id
from vllm_logdoctor.knowledge.messages import VllmMessage, message_table

PREFIX = "catalogue:"


def message_of_id(name: str) -> VllmMessage | None:
    """Return the message of vLLM with an id, also with the id that its pattern had up to release 0.1; None without one.

    Example:
        >>> message_of_id("catalogue:core.py:00000000") is None
        True
    """
    table = message_table()
    if name.startswith(PREFIX):
        return next((message for message in table if message.id == name), None)
    # Ids were the first words of the text, with a number where several messages begin alike.
    stem = re.sub(r"-\d+$", "", name)
    return _named(name, table) or (_named(stem, table) if stem != name else None)


def _named(name: str, messages: Iterable[VllmMessage]) -> VllmMessage | None:
    first = name.partition("-")[0]
    return next(
        (
            message
            for message in messages
            if first in (text := "".join(message.parts)).lower() and pattern_id(text, ()) == name
        ),
        None,
    )
