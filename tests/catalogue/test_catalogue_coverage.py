"""How much of the catalogues of messages the packs know; the figures that docs/reference shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from vllm_logdoctor.catalogue.catalogue import messages_of, read_rows
from vllm_logdoctor.catalogue.coverage import classes, cover
from vllm_logdoctor.catalogue.index import load_index

FACTS = Path(__file__).resolve().parents[3] / "shared" / "vllm-facts"


@pytest.mark.parametrize("name", ["perf-messages.jsonl", "failure-messages.jsonl"])
def test_enough_of_each_class_is_known(name: str) -> None:
    path = FACTS / name
    if not path.is_file():
        pytest.skip(f"no catalogue of messages at {path}")
    tallies, _ = cover(messages_of(read_rows(path)), list(load_index().patterns))
    for each in classes():
        assert tallies[each.name].share >= each.wanted, each.name
