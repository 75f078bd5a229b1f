"""All packs of one analysis: those of the tool, those that the user names, those that packages bring."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vllm_logdoctor.catalogue.errors import PackError
from vllm_logdoctor.catalogue.index import PackIndex, load_index
from vllm_logdoctor.catalogue.plugins import installed_packs


def load_all(named: Sequence[Path] = ()) -> tuple[PackIndex, tuple[str, ...]]:
    """Return the index over all packs, and a note for each problem of a pack that a package brings.

    Args:
        named: directories or files that the user names; a problem in one of them raises PackError, because
            the user can mend it. A package's packs are left out when they can't be used.
    """
    index = load_index(named)
    try:
        installed = installed_packs()
        return (load_index([*named, *installed]) if installed else index), ()
    except PackError as error:
        return index, tuple(f"installed pack left out: {problem}" for problem in error.problems)
    except Exception as error:
        # An entry point runs the code of its package, which may fail in any way.
        return index, (f"installed packs left out: {type(error).__name__}: {error}",)
