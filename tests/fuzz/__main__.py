"""Check random logs for as long as wanted.

python -m tests.fuzz --seconds 3600 --first 1000 --keep /tmp/found
"""

from __future__ import annotations

import argparse
import gc
import resource
import time
from functools import cache
from pathlib import Path
from unittest import mock

from tests.fuzz.checks import problems_of
from tests.fuzz.logs import log_of
from vllm_logdoctor.catalogue.loading import load_all

_PROGRESS = 1000


def main() -> None:
    """Check logs by number until the time is up; keep those that fail."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--first", type=int, default=1, help="number of the first log")
    parser.add_argument("--keep", type=Path, help="folder for logs that fail")
    options = parser.parse_args()
    end, number, failed, size = time.monotonic() + options.seconds, options.first, 0, 0
    # The patterns of the tool are the same for all logs.
    with mock.patch("vllm_logdoctor.pipeline.load_all", cache(load_all)):
        while time.monotonic() < end:
            data = log_of(number)
            size += len(data)
            problems = problems_of(data, number)
            if problems:
                failed += 1
                print(f"{number}: {'; '.join(problems)}", flush=True)
                if options.keep:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    (options.keep / f"{number}.log").write_bytes(data)
            number += 1
            if number == options.first + 50:
                # What is loaded by now stays: it is not looked at again.
                gc.collect()
                gc.freeze()
            if number % _PROGRESS == 0:
                print(f"# {_figures(number - options.first, size, failed)}", flush=True)
    print(_figures(number - options.first, size, failed))


def _figures(count: int, size: int, failed: int) -> str:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return f"{count:,} logs, {size / 1e6:,.1f} MB, {failed} with problems, {used.ru_utime + used.ru_stime:,.0f} s of CPU, {used.ru_maxrss / 1024:,.0f} MiB at most"


if __name__ == "__main__":
    main()
