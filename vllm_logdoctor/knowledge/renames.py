"""Which knob took over from which, written down by hand in data/renames.csv; when each exists is in the other tables.

The rows of one name are in order of preference; a row without a new name says why a knob is gone.
"""

from __future__ import annotations

from functools import cache

from msgspec import Struct

from vllm_logdoctor.knowledge.store import read_rows


class Rename(Struct, frozen=True):
    """One knob that took over from another.

    `key`: JSON key inside the value of `to`, as "Class.key" where a configuration class owns it (that
    key must exist in the release too); `value`: fixed value to give; `inverted`: the meaning is the opposite.
    """

    name: str
    to: str = ""
    key: str | None = None
    value: str | None = None
    inverted: bool = False
    note: str = ""


@cache
def renames() -> list[Rename]:
    """Return all rows, also those of knobs with nothing in their place.

    >>> next(one.to for one in renames() if one.name == "--cuda-graph-sizes")
    '--cudagraph-capture-sizes'
    """
    return read_rows("renames", Rename)


def removal_note(name: str) -> str:
    """Return why a knob is gone with nothing in its place; "" where nothing is known.

    >>> removal_note("--device")
    'the platform is detected'
    """
    return next((one.note for one in renames() if one.name == name and not one.to), "")
