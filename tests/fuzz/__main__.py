"""Check random logs for as long as wanted.

python -m tests.fuzz --seconds 3600 --first 1000 --keep /tmp/found
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from tests.fuzz.checks import problems_of
from tests.fuzz.logs import log_of


def main() -> None:
    """Check logs by number until the time is up; keep those that fail."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--first", type=int, default=0, help="number of the first log")
    parser.add_argument("--keep", type=Path, help="folder for logs that fail")
    options = parser.parse_args()
    end, number, failed = time.monotonic() + options.seconds, options.first, 0
    while time.monotonic() < end:
        problems = problems_of(log_of(number))
        if problems:
            failed += 1
            print(f"{number}: {'; '.join(problems)}", flush=True)
            if options.keep:
                options.keep.mkdir(parents=True, exist_ok=True)
                (options.keep / f"{number}.log").write_bytes(log_of(number))
        number += 1
    print(f"{number - options.first:,} logs, {failed} with problems")


if __name__ == "__main__":
    main()
