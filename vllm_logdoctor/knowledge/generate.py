"""Program that writes the data of this room: merges releases, from mined facts or unpacked packages."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from vllm_logdoctor.knowledge.extract.fact_files import releases_from_fact_files
from vllm_logdoctor.knowledge.extract.merge import merge, read_releases, write_releases
from vllm_logdoctor.knowledge.extract.package import release_from_package
from vllm_logdoctor.knowledge.extract.release import ReleaseFacts
from vllm_logdoctor.knowledge.store import DATA_FOLDER


def main(arguments: Sequence[str] | None = None) -> int:
    """Merge releases into the data folder; 0 when written, 2 when an input is not what it should be.

    The same input a second time changes nothing.
    """
    options = _parser().parse_args(arguments)
    known = read_releases(options.data)
    try:
        releases = merge(known, _new_releases(options))
    except (OSError, ValueError, SyntaxError) as error:
        print(f"nothing written: {error}", file=sys.stderr)
        return 2
    write_releases(options.data, releases)
    print(f"{len(releases)} releases ({len(releases) - len(known)} new) in {options.data}")
    return 0


def _new_releases(options: argparse.Namespace) -> Iterator[ReleaseFacts]:
    if options.from_facts is not None:
        yield from releases_from_fact_files(options.from_facts)
    if options.package is not None:
        yield release_from_package(options.package, options.release)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m vllm_logdoctor.knowledge.generate", description=__doc__)
    parser.add_argument("--from-facts", type=Path, metavar="DIR", help="folder of mined facts, many releases")
    parser.add_argument("--package", type=Path, metavar="DIR", help="unpacked package folder, one release")
    parser.add_argument("--release", metavar="VERSION", help="its version, if not the package's own")
    parser.add_argument("--data", type=Path, default=DATA_FOLDER, metavar="DIR", help="data folder to write")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
