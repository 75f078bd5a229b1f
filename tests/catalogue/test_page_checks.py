"""Pages of rules against code and analysis: each check has its page, and the example of a failure is known."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from vllm_logdoctor import page_checks
from vllm_logdoctor.catalogue.locate import builtin_root, page_files
from vllm_logdoctor.catalogue.pages import read_pages
from vllm_logdoctor.page_checks import check_rules
from vllm_logdoctor.rules.failure import judge, signatures
from vllm_logdoctor.rules.failure.signatures import FailureRules, compiled_rules
from vllm_logdoctor.rules.rule import Advice, Rule

PORT = builtin_root() / "rules" / "port-in-use.md"


def copy_of(page: Path, folder: Path, *replaced: tuple[str, str]) -> Path:
    text = page.read_text("utf-8")
    for old, new in replaced:
        assert old in text
        text = text.replace(old, new)
    (folder / page.name).write_text(text, encoding="utf-8")
    return folder / page.name


def test_the_pages_of_the_tool_have_no_problems() -> None:
    assert check_rules(page_files(builtin_root())) == []


def test_a_failure_without_an_example_is_named(tmp_path: Path) -> None:
    (found,) = check_rules([copy_of(PORT, tmp_path, ("```log", "```text"))])
    assert "has no section Example" in found.message


@pytest.mark.parametrize("regexes", [(), ("Address of another kind",)], ids=["no signature", "other regex"])
def test_a_failure_that_its_page_does_not_know_in_its_example_is_named(
    regexes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = read_pages(page_files(builtin_root()))[0]
    known = [
        replace(page, signatures=tuple(replace(page.signatures[0], regex=regex) for regex in regexes))
        if page.id == PORT.stem
        else page
        for page in pages
    ]
    rules = FailureRules(lambda: compiled_rules(known))
    for module in (judge, signatures):
        monkeypatch.setattr(module, "failure_rules", lambda: rules)
    (found,) = check_rules([PORT])
    assert found.key == "signature.0"
    assert "correct regex, where or priority" in found.message


def test_a_page_of_a_failure_for_a_check_of_a_run_that_works_is_refused(tmp_path: Path) -> None:
    page = copy_of(
        builtin_root() / "rules" / "eager-mode.md", tmp_path, ('kind = "performance"', 'kind = "failure"')
    )
    (found,) = check_rules([page])
    assert (found.line, found.key) == (3, "kind")
    assert 'kind = "performance"' in found.message


def test_a_check_without_a_page_is_named_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def quiet_night(_: object) -> Advice | None:
        return None

    rule = Rule("quiet-night", quiet_night)
    monkeypatch.setattr(page_checks, "CHECKED", (rule,))
    (found,) = check_rules([])
    assert "write patterns/rules/quiet-night.md" in found.message
    assert (found.file, found.line) == rule.source
    with pytest.raises(KeyError, match=r"write patterns/rules/quiet-night\.md"):
        _ = rule.page
