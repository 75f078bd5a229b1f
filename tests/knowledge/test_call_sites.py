"""A release is told from where its messages are printed, in spite of a few lines that do not fit."""

from hypothesis import given
from hypothesis import strategies as st

from vllm_logdoctor.knowledge.call_sites import releases_for_call_site, versions_for_call_sites
from vllm_logdoctor.knowledge.messages import message_table
from vllm_logdoctor.knowledge.versions import known_versions, number_of

LOGGED = tuple(message_table().logged)


def _sites_of(release: str, count: int) -> list[tuple[str, int, str]]:
    """Call sites of a release with texts that its templates can print."""
    number = number_of(release)
    found = [
        (message.base, span[2], message.template)
        for message in LOGGED
        for span in message.spans
        if message.style == "plain" and len(span) > 2 and span[0] <= number <= span[1]
    ]
    return found[:: max(1, len(found) // count)][:count]


def test_many_sites_single_out_their_release() -> None:
    told = versions_for_call_sites(_sites_of("0.16.0", 30))
    assert told is not None
    assert len(told.releases) == 1
    assert str(told.first) == "0.16.0"
    assert told.supporting == told.tried == 30


def test_a_few_misfits_do_no_harm() -> None:
    told = versions_for_call_sites([*_sites_of("0.16.0", 20), *_sites_of("0.9.1", 5)])
    assert told is not None
    assert str(told.first) == "0.16.0"
    assert told.supporting < told.tried


def test_folders_before_the_file_name_do_not_matter() -> None:
    base, line, message = _sites_of("0.16.0", 1)[0]
    bare = releases_for_call_site(base, line, message)
    assert bare == releases_for_call_site(f"vllm/v1/{base}", line, message)
    assert bare


def test_a_place_counts_once_however_many_messages_it_printed() -> None:
    base, template = "loggers.py", "Engine {:03d}: {}"
    wrong = [("core.py", 1, f"init engine took {seconds} seconds") for seconds in range(100)]
    told = versions_for_call_sites([*_sites_of("0.16.0", 10), *wrong, (base, 2, template)])
    assert told is not None
    assert str(told.first) == "0.16.0"
    assert told.tried <= 12


def test_sites_of_another_program_say_nothing() -> None:
    assert versions_for_call_sites([("main.py", 3, "hello"), ("core.py", 5, "world")]) is None
    assert versions_for_call_sites([]) is None


def test_a_single_site_tells_a_release_only_where_few_neighbours_have_it_there() -> None:
    told = versions_for_call_sites([("async_llm_engine.py", 52, "Engine background task failed")])
    assert told is not None
    assert (str(told.first), str(told.last)) == ("0.5.0", "0.5.0.post1")
    started = "EngineCore failed to start."
    told = versions_for_call_sites([("core.py", 500, started)])
    assert told is not None
    assert (str(told.first), str(told.last)) == ("0.9.0", "0.9.0.1")
    long = next(
        (one.base, span[2], one.template)
        for one in LOGGED
        for span in one.spans
        if one.style == "plain" and len(span) > 2 and span[1] - span[0] > 6
    )
    assert versions_for_call_sites([long]) is None
    assert versions_for_call_sites([("core.py", 500, started), ("core.py", 1, started), long]) is None


def test_a_line_of_a_traceback_is_printed_where_its_file_logs_exceptions() -> None:
    for line in (
        "Traceback (most recent call last):",
        '  File "/opt/vllm/v1/engine/core.py", line 8, in step',
        "ValueError: no",
    ):
        assert releases_for_call_site("core.py", 500, line) == releases_for_call_site(
            "core.py", 500, "EngineCore failed to start."
        )
    assert releases_for_call_site("core.py", 500, "a sentence that no release prints") is None


def test_a_bracket_before_the_file_is_of_0_8_and_later() -> None:
    old = versions_for_call_sites(_sites_of("0.7.3", 6), bracketed=False)
    assert old is not None
    assert old.last.release < (0, 8)
    mixed = versions_for_call_sites(_sites_of("0.7.3", 6), bracketed=True)
    assert mixed is None or mixed.first.release >= (0, 8)


def test_a_mixture_of_all_releases_is_no_release() -> None:
    mixed = [site for version in known_versions() for site in _sites_of(str(version), 3)]
    assert versions_for_call_sites(mixed) is None


@given(st.sampled_from([str(version) for version in known_versions() if version.release >= (0, 8)]))
def test_every_release_explains_its_own_sites(release: str) -> None:
    told = versions_for_call_sites(_sites_of(release, 12))
    assert told is not None
    assert release in {str(version) for version in told.releases}


@given(st.permutations(_sites_of("0.20.0", 8)))
def test_order_and_repetition_do_not_matter(sites: list[tuple[str, int, str]]) -> None:
    assert versions_for_call_sites([*sites, *sites]) == versions_for_call_sites(_sites_of("0.20.0", 8))
