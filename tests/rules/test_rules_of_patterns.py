"""A pattern that names a rule page makes its finding without Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import vllm_logdoctor
from vllm_logdoctor.catalogue.validation import check_files

LOG = """INFO 05-01 10:00:00 [api_server.py:1043] vLLM API server version 0.11.2
wrapper: this node has slow interconnect
INFO:     Application startup complete.
"""
PACK = """[pack]
name = "site"
title = "Our site"

[[pattern]]
id = "site-slow-links"
literal = ["wrapper: this node has slow"]
regex = 'wrapper: this node has slow interconnect'
level = "foreign"
seen = "any"
topic = "parallelism"
severity = "low"
rule = "{rule}"
meaning = "The links of this node are slow."
[[pattern.samples]]
text = "wrapper: this node has slow interconnect"
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "vllm.log").write_text(LOG, encoding="utf-8")
    return tmp_path


# One page with a check in Python, which knows nothing of the pattern, and one without.
@pytest.mark.parametrize("rule", ["inter-node-network-bound", "cpu-block-size-unsuited"])
def test_a_pattern_of_ones_own_makes_the_finding_of_its_page(site: Path, rule: str) -> None:
    pack = site / "site.toml"
    pack.write_text(PACK.format(rule=rule), encoding="utf-8")
    assert check_files([pack]) == []

    report = vllm_logdoctor.analyze(site / "vllm.log", patterns=[pack])

    (found,) = [found for found in report.to_dict()["runs"][0]["findings"] if found["id"] == rule]
    assert found["explanation"].startswith("The links of this node are slow. So says the pack site,")
    assert [line["line"] for line in found["evidence"]] == [2]
    assert found["confidence"] == "medium"


def test_figures_of_the_line_fill_in_the_words_of_the_page(tmp_path: Path) -> None:
    recovered = "WARNING 05-01 10:02:00 [scheduler.py:1608] Recovered from KV load failure: 3 request(s) rescheduled (4096 tokens affected)."
    (tmp_path / "vllm.log").write_text(f"{LOG}{recovered}\n", encoding="utf-8")
    findings = vllm_logdoctor.analyze(tmp_path / "vllm.log").to_dict()["runs"][0]["findings"]
    (found,) = [found for found in findings if found["id"] == "kv-cache-load-failed"]
    assert "3 requests, 4,096 tokens" in found["explanation"]


def test_without_the_line_there_is_no_finding(site: Path) -> None:
    pack = site / "site.toml"
    pack.write_text(PACK.format(rule="cpu-block-size-unsuited"), encoding="utf-8")
    (site / "vllm.log").write_text(
        LOG.replace("wrapper: this node has slow interconnect\n", ""), encoding="utf-8"
    )

    report = vllm_logdoctor.analyze(site / "vllm.log", patterns=[pack])

    assert "cpu-block-size-unsuited" not in {found["id"] for found in report.to_dict()["runs"][0]["findings"]}


def test_a_rule_that_no_page_describes_is_named(site: Path) -> None:
    pack = site / "site.toml"
    pack.write_text(PACK.format(rule="no-such-rule"), encoding="utf-8")

    (problem,) = check_files([pack])

    assert problem.key == "site-slow-links: rule"
    assert problem.line == PACK.split("\n").index('rule = "{rule}"') + 1
