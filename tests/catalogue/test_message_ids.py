"""Messages that no pattern takes have ids, and keep for a release those that their patterns had."""

from __future__ import annotations

from pathlib import Path

import pytest

from vllm_logdoctor.catalogue.message_ids import message_of_id
from vllm_logdoctor.catalogue.vllm_messages import pattern_of_message
from vllm_logdoctor.cli.settings import read_settings, with_known_findings
from vllm_logdoctor.errors import LogdoctorError
from vllm_logdoctor.knowledge.messages import VllmMessage
from vllm_logdoctor.rules.explaining import explain

# Ids of patterns that release 0.1 had, one of them with the number of a second message that begins alike.
OLD = {
    "guided-decoding-backend-deprecated-renamed-backend-removed": "`guided_decoding_backend` is deprecated",
    "custom-allreduce-required": "Custom Allreduce is required",
    "prefer-using-device-seq-lens-directly-avoid-2": "Prefer using device seq_lens directly",
}


@pytest.mark.parametrize("old", OLD)
def test_an_id_of_an_earlier_release_is_still_known(old: str) -> None:
    message = message_of_id(old)
    assert message is not None
    assert OLD[old].lower()[:12].strip("`") in message.template.lower()
    assert message_of_id(message.id) == message


def test_an_id_of_the_table_is_explained_by_level_and_place() -> None:
    message = message_of_id("guided-decoding-backend-deprecated-renamed-backend-removed")
    assert message is not None
    text = explain(message.id)
    assert "will break with a later release" in text
    assert "- printed by: `config.py`" in text


def test_what_nobody_printed_has_no_id() -> None:
    for name in ("catalogue:core.py:00000000", "no-such-message-anywhere", ""):
        assert message_of_id(name) is None


def test_a_suppression_by_an_old_id_is_taken_and_one_by_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "logdoctor.toml"
    entry = '[[suppress]]\nfinding = "{}"\nreason = "known"\nuntil = 2099-01-01\n'
    path.write_text(
        entry.format("guided-decoding-backend-deprecated-renamed-backend-removed"), encoding="utf-8"
    )
    (kept,) = with_known_findings(read_settings(path)).suppressions
    assert kept.finding.startswith("catalogue:config.py:")
    path.write_text(entry.format("no-such-message-anywhere"), encoding="utf-8")
    with pytest.raises(LogdoctorError, match="no rule and no pattern has the id"):
        with_known_findings(read_settings(path))


@pytest.mark.parametrize(
    ("spans", "seen"),
    [(((0, 0),), "0.4.1"), (((0, 0), (1, 1)), "0.4.1-0.4.2"), (((0, 0), (2, 3)), "0.4.1, 0.4.3-0.5.0")],
)
def test_a_message_names_the_releases_that_print_it(spans: tuple[tuple[int, ...], ...], seen: str) -> None:
    message = VllmMessage("engine/x.py", "Loaded", "plain", "info", spans, ("Loaded",))
    assert pattern_of_message(message, ("0.4.1", "0.4.2", "0.4.3", "0.5.0")).seen == seen
