"""The packs that come with the tool: every check of theirs, every sample, every id."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from vllm_logdoctor.catalogue.checks import check_packs
from vllm_logdoctor.catalogue.explaining import Explainer
from vllm_logdoctor.catalogue.index import PackIndex, load_index
from vllm_logdoctor.catalogue.knobs import knob_exists
from vllm_logdoctor.catalogue.locate import builtin_root, pack_files, page_files
from vllm_logdoctor.catalogue.pages import read_page

LARGEST_INDEX = 3_000_000


@pytest.fixture(scope="module")
def index() -> PackIndex:
    return load_index()


def test_no_pack_has_a_problem_and_each_sample_one_taker() -> None:
    assert [str(problem) for problem in check_packs(pack_files(builtin_root()), knob_exists)] == []


def test_every_rule_page_can_be_read() -> None:
    for path in page_files(builtin_root()):
        assert read_page(path).id == path.stem


def test_every_pattern_with_a_rule_names_a_page(index: PackIndex) -> None:
    pages = {path.stem for path in page_files(builtin_root())}
    assert {pattern.rule for pattern in index.patterns if pattern.rule} <= pages


def test_every_id_can_be_explained() -> None:
    explainer = Explainer()
    for name in explainer.ids():
        text = explainer.explain(name)
        assert text.startswith("# ")
        assert "\n- topic: " in text


def test_every_gate_leads_to_its_patterns(index: PackIndex) -> None:
    by_gate = dict(zip(index.gates, index.patterns_by_gate, strict=True))
    for number, pattern in enumerate(index.patterns):
        assert all(number in by_gate[gate] for gate in pattern.gates)


def test_warnings_and_errors_say_what_they_mean(index: PackIndex) -> None:
    loud = [pattern for pattern in index.patterns if pattern.level in ("warning", "error", "critical")]
    assert len(loud) > 2000
    assert all(pattern.meaning.endswith(".") for pattern in loud)


def test_the_compiled_index_stays_small() -> None:
    from vllm_logdoctor.catalogue.cache import builtin_index

    assert len(builtin_index()) < LARGEST_INDEX


def test_loading_needs_no_models_and_no_toml() -> None:
    import subprocess

    code = (
        "import sys; from vllm_logdoctor.catalogue.index import load_index; load_index(); "
        "print(sorted({'pydantic', 'tomllib', 'tomli', 'regex'} & set(sys.modules)))"
    )
    load_index()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("torch-process-group-not-destroyed", "harmless"),
        ("python-resource-tracker-leak", "harmless"),
        ("torch-cuda-out-of-memory", "cause-of-failure"),
        ("native-frame", "information"),
    ],
)
def test_foreign_messages_are_judged(index: PackIndex, name: str, verdict: str) -> None:
    pattern = index.by_id(name)
    assert pattern is not None
    assert pattern.verdict == verdict
    assert pattern.level == "foreign"


def test_a_name_can_not_lead_out_of_the_rules(tmp_path: Path) -> None:
    from vllm_logdoctor.catalogue.pages import rule_page

    for name in ("../core/config", "..", "/etc/passwd", "rules/../x"):
        with pytest.raises(KeyError):
            rule_page(name)
