"""Knobs that are gone."""

from __future__ import annotations

from vllm_logdoctor.knowledge.renames import removal_note, renames


def test_a_reason_is_given_for_a_knob_that_is_gone_and_for_none_that_has_another_name() -> None:
    gone = {one.name for one in renames() if not one.to}
    renamed = [one for one in renames() if one.to and one.name not in gone]
    assert any(one.note for one in renamed), "a note alone is no reason"
    assert {removal_note(one.name) for one in renamed} == {""}
    assert removal_note("--device") == "the platform is detected"
    assert removal_note("--max-num-seqs") == ""
