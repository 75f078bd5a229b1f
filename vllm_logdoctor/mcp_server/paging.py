"""Long answers in pages: so many characters at a time, and the number to go on from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from vllm_logdoctor.errors import LogdoctorError

MOST_CHARACTERS = 16_000
"""Characters of one page, as JSON."""
_LONGEST_TEXT = 2000
_LONGEST_LIST = 50


def page(items: Sequence[Any], offset: int = 0) -> dict[str, Any]:
    """Return the items from `offset` on that fit a page.

    Returns:
        `items`, `total`, and `next_offset`: the number to go on from, or None at the end.

    Raises:
        LogdoctorError: there is no such offset (exit code 2).
    """
    if not 0 <= offset <= len(items):
        raise LogdoctorError(f"offset {offset}: there are {len(items)} items, numbered from 0", 2)
    shown: list[Any] = []
    size = 0
    for item in items[offset:]:
        small = cut(item)
        size += len(json.dumps(small, ensure_ascii=False))
        if shown and size > MOST_CHARACTERS:
            break
        shown.append(small)
    after = offset + len(shown)
    return {"items": shown, "total": len(items), "next_offset": after if after < len(items) else None}


def cut(value: Any, depth: int = 0) -> Any:
    """Return a value whose texts and lists are of bounded length."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else f"{value[: _LONGEST_TEXT - 1]}…"
    if isinstance(value, dict):
        left_out = len(value) - _LONGEST_LIST if depth else 0
        kept = list(value.items())[: _LONGEST_LIST if depth else None]
        small = {name: cut(one, depth + 1) for name, one in kept}
        return {**small, "…": f"{left_out} more"} if left_out > 0 else small
    if isinstance(value, list | tuple):
        small_list = [cut(one, depth + 1) for one in value[:_LONGEST_LIST]]
        return (
            [*small_list, f"… {len(value) - _LONGEST_LIST} more"]
            if len(value) > _LONGEST_LIST
            else small_list
        )
    return value
