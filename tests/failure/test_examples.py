"""Every page of a failure has an example, and the tool names it so."""

import pytest

from tests.failure.judging import diagnosis, examples
from vllm_logdoctor.catalogue.locate import builtin_root, page_files
from vllm_logdoctor.catalogue.pages import read_page
from vllm_logdoctor.rules.failure.signatures import failure_rules

OF_REQUESTS = {"chat-template-missing", "request-error-not-server-fault"}
FAILURES = [page.id for page in map(read_page, page_files(builtin_root())) if page.kind == "failure"]
OF_OTHERS = {"errors-that-followed"}


@pytest.mark.parametrize(
    "slug", sorted(slug for slug in examples() if slug in failure_rules() and slug not in OF_OTHERS)
)
def test_example_is_named_by_its_page(slug):
    found = diagnosis(examples()[slug]).findings
    first = next(
        iter(finding.id for finding in found if finding.role == "root" or finding.id in OF_REQUESTS), None
    )
    assert first == slug


@pytest.mark.parametrize("slug", sorted(set(FAILURES) & set(examples())))
def test_finding_shows_a_line_of_the_example(slug):
    lines = examples()[slug].splitlines()
    finding = next(finding for finding in diagnosis(examples()[slug]).findings if finding.id == slug)
    assert finding.evidence
    assert all(one.text.strip() == lines[one.line - 1].strip() for one in finding.evidence)


def test_words_of_a_finding_hold_no_open_braces():
    for slug, text in examples().items():
        for finding in diagnosis(text).findings:
            assert "{" not in finding.explanation or "{" in text, slug
