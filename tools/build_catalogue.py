"""Builds the data on vLLM that the package ships: messages, flags, variables and defaults by release.

python -m tools.build_catalogue SOURCE... [-o FOLDER] [--release VERSION]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.extract.fact_files import releases_from_fact_files
from tools.extract.merge import merge, read_releases, write_releases
from tools.extract.package import release_from_package
from tools.extract.release import ReleaseFacts
from vllm_logdoctor.knowledge.store import DATA_FOLDER


def main(arguments: Sequence[str] | None = None) -> int:
    """Merge the releases of the sources into the data; 0 when written, 2 when a source is not what it should be.

    The same sources a second time change nothing.
    """
    options = _parser().parse_args(arguments)
    known = read_releases(options.output)
    try:
        releases = merge(known, _new_releases(options))
    except (OSError, ValueError, SyntaxError) as error:
        print(f"nothing written: {error}", file=sys.stderr)
        return 2
    write_releases(options.output, releases)
    print(f"{len(releases)} releases ({len(releases) - len(known)} new) in {options.output}")
    return 0


def _new_releases(options: argparse.Namespace) -> Iterator[ReleaseFacts]:
    for source in options.sources:
        if (source / "messages.jsonl.gz").is_file():
            yield from releases_from_fact_files(source)
        else:
            yield release_from_package(source, options.release)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.build_catalogue", description=__doc__)
    parser.add_argument(
        "sources",
        nargs="+",
        type=Path,
        metavar="SOURCE",
        help="folder named vllm of an unpacked wheel or source distribution, or folder of extracted facts",
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=DATA_FOLDER, metavar="FOLDER", help="data folder"
    )
    parser.add_argument(
        "--release", metavar="VERSION", help="version of a package that does not state its own"
    )
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
