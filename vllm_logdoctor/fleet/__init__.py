"""Analyse thousands of logs into Parquet tables, by any executor, and write one page over them.

Example:
    >>> import tempfile
    >>> store = open(tempfile.mkdtemp() + "/store")
    >>> store.table("runs").num_rows
    0
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vllm_logdoctor.fleet.library import Fleet

__all__ = ["open"]


def open(store: str | PathLike[str]) -> Fleet:
    """Return the fleet kept in a directory; it is made by the first `add`."""
    # pyarrow is an extra: nothing of it is imported before a store is opened.
    from vllm_logdoctor.fleet.library import Fleet

    return Fleet(store)
