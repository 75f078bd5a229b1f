"""What is usually written by hand: every regex tried on every line. Only here to be compared with."""

from __future__ import annotations

import re
import sys
from collections import Counter

from vllm_logdoctor.catalogue.loading import load_index


def main() -> None:
    """Print how often each pattern was found."""
    compiled = [(pattern.id, re.compile(pattern.regex)) for pattern in load_index().patterns]
    found: Counter[str] = Counter()
    with open(sys.argv[1], encoding="utf-8", errors="replace") as file:
        for line in file:
            message = line.split("] ", 1)[-1]
            found.update(ident for ident, regex in compiled if regex.match(message))
    print(found.most_common(10))


if __name__ == "__main__":
    main()
