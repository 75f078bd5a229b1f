"""The least that a Python program does with a log: split each line and count what it begins with. Only a unit to measure in."""

from __future__ import annotations

import sys
from collections import Counter


def main() -> None:
    """Print the most frequent first words of the log named on the command line."""
    found: Counter[bytes] = Counter()
    with open(sys.argv[1], "rb") as file:
        for line in file:
            found[line.split(None, 4)[0]] += 1
            if b"throughput" in line:
                found[b"statistics"] += 1
    print(found.most_common(3))


if __name__ == "__main__":
    main()
