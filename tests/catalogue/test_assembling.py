"""Many messages to patterns: one for each text, none for what is known, no line for two."""

from __future__ import annotations

from vllm_logdoctor.catalogue.assembling import assemble
from vllm_logdoctor.catalogue.catalogue import Message, annotated, messages_of
from vllm_logdoctor.catalogue.claims import Claims
from vllm_logdoctor.catalogue.compile import runtime_pattern
from vllm_logdoctor.catalogue.coverage import cover
from vllm_logdoctor.catalogue.model import PatternEntry

RELEASES = ["0.8.0", "0.8.1", "0.9.0", "0.10.0"]


def message(
    template: str, level: str = "warning", versions: tuple[str, ...] = ("0.9.0",), **more: str
) -> Message:
    return Message(template, "percent", level, (), versions, "config/vllm.py", **more)


def entries(*messages: Message, known: list[PatternEntry] | None = None) -> list[PatternEntry]:
    patterns = [runtime_pattern(entry, "known") for entry in known or []]
    samples = [sample.text for entry in known or [] for sample in entry.samples]
    return assemble(messages, patterns, samples, releases=RELEASES)


def test_the_same_text_of_two_releases_is_one_pattern() -> None:
    (entry,) = entries(
        message("Prefix caching of %s is off", versions=("0.8.0", "0.8.1")),
        message("Prefix caching of %s is off", versions=("0.10.0",)),
    )
    assert entry.seen == "0.8.0-0.8.1, 0.10.0"


def test_the_loudest_level_counts() -> None:
    (entry,) = entries(message("Engine core is gone", "debug"), message("Engine core is gone", "error"))
    assert entry.level == "error"


def test_what_is_known_is_left_out() -> None:
    known = entries(message("Prefix caching of %s is off"))
    assert entries(message("Prefix caching of %s is off", "info"), known=known) == []


def test_a_text_that_begins_another_is_bounded() -> None:
    found = entries(message("Custom kernel is disabled"), message("Custom kernel is disabled because of %s"))
    claims = Claims([runtime_pattern(entry, "") for entry in found])
    for text in ("Custom kernel is disabled", "Custom kernel is disabled because of x"):
        assert len(list(claims.of(text))) == 1


def test_no_sample_has_two_takers() -> None:
    found = entries(
        message("Using %s backend for attention", "info"),
        message("Using Flash backend for attention layers", "warning", kind="fallback"),
        message("Using %s", "info"),
    )
    claims = Claims([runtime_pattern(entry, "") for entry in found])
    for number, entry in enumerate(found):
        for sample in entry.samples:
            assert list(claims.of(sample.text)) == [number]


def test_notes_of_another_catalogue_are_joined_by_template() -> None:
    plain = message("Prefix caching of %s is off")
    note = message("Prefix caching of %s is off", kind="disabled", topic="kv-cache-scheduler")
    (joined,) = annotated([plain], [note])
    assert (joined.kind, joined.topic) == ("disabled", "kv-cache-scheduler")


def test_coverage_counts_topic_and_severity() -> None:
    row = {
        "topic": "kv-cache-scheduler",
        "kind": "disabled",
        "scope": "core",
        "level": "warning",
        "first": "0.9.0",
        "last": "0.10.0",
        "file": "config/vllm.py",
        "template": "Prefix caching of %s is off",
        "args": ["model"],
    }
    rows = list(messages_of([row]))
    patterns = [runtime_pattern(entry, "") for entry in assemble(rows, releases=RELEASES)]
    tallies, misses = cover(rows, patterns)
    assert tallies["core, judged kinds, since 0.8"].share == 1.0
    assert misses == []
    tallies, misses = cover(rows, [])
    assert tallies["core, judged kinds, since 0.8"].recognised == 0
    assert len(misses) == 1
