"""logdoctor.toml: found where one expects it, read strictly, errors name file and key."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from vllm_logdoctor.cli.settings import Suppression, find_settings, read_settings, with_known_findings
from vllm_logdoctor.errors import LogdoctorError


def written(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "logdoctor.toml"
    path.write_text(text)
    return path


def test_the_working_directory_comes_before_the_users_configuration(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    assert find_settings(tmp_path / "work", environ) is None
    users = written(tmp_path / ".config/logdoctor", "")
    assert find_settings(tmp_path / "work", environ) == users
    here = written(tmp_path / "work", "")
    assert find_settings(tmp_path / "work", environ) == here


def test_a_named_file_comes_first(tmp_path: Path) -> None:
    written(tmp_path, "")
    named = tmp_path / "site.toml"
    assert find_settings(tmp_path, {"LOGDOCTOR_CONFIG": str(named)}) == named


def test_everything_that_can_be_said(tmp_path: Path) -> None:
    (tmp_path / "packs").mkdir()
    path = written(
        tmp_path,
        'objective = "latency"\nformat = "json"\npatterns = ["packs", "/"]\nfail_on = "high"\n'
        'baseline = "known.json"\n[[suppress]]\nfinding = "eager-mode"\n'
        'reason = "debugging"\nuntil = 2027-01-31\n',
    )
    settings = read_settings(path)
    assert (settings.objective, settings.format, settings.fail_on) == ("latency", "json", "high")
    assert settings.patterns == (tmp_path / "packs", Path("/"))
    assert settings.baseline == tmp_path / "known.json"
    assert settings.suppressions == (Suppression("eager-mode", "debugging", date(2027, 1, 31)),)


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    settings = read_settings(written(tmp_path, ""))
    assert (settings.objective, settings.fail_on, settings.suppressions) == (None, None, ())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("objektive = 'latency'", "objektive: no such key"),
        ("path = 'other.toml'", "path: no such key"),
        ("objective = 'speed'", "objective"),
        ("fail_on = 'terrible'", "fail_on"),
        ("[[suppress]]\nfinding = 'x'\nuntil = 2027-01-01", "suppress.0.reason"),
        ("[[suppress]]\nfinding = 'x'\nreason = 'y'", "suppress.0.until"),
        ("[[suppress]]\nfinding = 'x'\nreason = ' '\nuntil = 2027-01-01", "suppress.0.reason"),
        ("[[suppress]]\nfinding = 'x'\nreason = 'y'\nuntil = 'soon'", "suppress.0.until: write a day as"),
        ("[[suppress]]\nfinding = 'x'\nreason = 'y'\nuntil = 2027-13-01", "line 4"),
        ("format = 'pdf'", "format"),
        ("patterns = 3", "patterns"),
        ("patterns = ['absent']", "patterns.0: no such pattern pack"),
        ("not toml", "line 1"),
    ],
)
def test_a_mistake_is_one_line_with_file_and_key(text: str, words: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(LogdoctorError) as told:
        read_settings(path)
    assert told.value.exit_code == 2
    assert str(path) in str(told.value)
    assert words in str(told.value)
    assert "\n" not in str(told.value)


def test_a_named_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(LogdoctorError, match="can't read") as told:
        read_settings(tmp_path / "absent.toml")
    assert told.value.exit_code == 3


def test_a_suppression_of_what_nobody_knows_is_one_line_with_the_nearest_name(tmp_path: Path) -> None:
    entry = "[[suppress]]\nfinding = '{}'\nreason = 'y'\nuntil = 2027-01-31\n"
    settings = read_settings(written(tmp_path, entry.format("eager-mode") + entry.format("eager-mood")))
    with pytest.raises(LogdoctorError, match=r"suppress\.1\.finding: .*did you mean eager-mode") as told:
        with_known_findings(settings)
    assert told.value.exit_code == 2
    assert "\n" not in str(told.value)


def test_a_suppression_may_name_a_message_of_a_pack_of_ours(tmp_path: Path) -> None:
    pack = tmp_path / "site.toml"
    pack.write_text(
        '[pack]\nname = "site"\ntitle = "Site"\n[[pattern]]\nid = "site-node-lost"\n'
        'literal = ["site: node lost"]\nregex = "site: node lost"\nlevel = "foreign"\nseen = "any"\n'
        'topic = "other"\nverdict = "information"\nseverity = "low"\nmeaning = "A node is gone."\n'
        '[[pattern.samples]]\ntext = "site: node lost"\n'
    )
    entry = "[[suppress]]\nfinding = 'site-node-lost'\nreason = 'y'\nuntil = 2027-01-31\n"
    settings = read_settings(written(tmp_path, 'patterns = ["site.toml"]\n' + entry))
    assert with_known_findings(settings) == settings
