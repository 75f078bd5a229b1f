"""Reading of the compact package data, and the run-length histories that it is made of."""

from __future__ import annotations

import json
import zlib
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, convert

Facts = dict[str, Any]
Row = TypeVar("Row", bound=Struct)
DATA_FOLDER = Path(__file__).parent / "data"
# Window size plus 16: the stream has a gzip header. The gzip module costs more to import than the data.
GZIP = zlib.MAX_WBITS + 16


class Era(Struct, frozen=True):
    """Releases `first` to `last` (both included) over which `facts` did not change."""

    first: str
    last: str
    facts: Facts


@cache
def read_table(name: str) -> Facts:
    """Content of the package data file `name` (without suffix); read once per process."""
    packed = DATA_FOLDER / f"{name}.json.gz"
    if packed.is_file():
        content = zlib.decompress(packed.read_bytes(), wbits=GZIP)
    else:
        content = (DATA_FOLDER / f"{name}.json").read_bytes()
    table: Facts = json.loads(content)
    return table


def read_rows(name: str, kind: type[Row]) -> list[Row]:
    """Return the rows of the package data file `name`, a table with a header that was written by hand; an empty cell is a default."""
    import csv

    with (DATA_FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as stream:
        rows = [{key: text for key, text in row.items() if text} for row in csv.DictReader(stream)]
    return convert(rows, list[kind], strict=False)  # type: ignore[valid-type]


def eras(table: str, name: str) -> tuple[Era, ...]:
    """The history of a name in a table, oldest first; empty where no known release has it."""
    return tuple(Era(first, last, facts) for first, last, facts in read_table(table).get(name, ()))
