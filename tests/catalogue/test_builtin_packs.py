"""The packs that come with the tool: every check of theirs, every sample, every id."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median

import msgspec
import pytest

from vllm_logdoctor.catalogue.index import PackIndex
from vllm_logdoctor.catalogue.loading import compile_folder, load_index
from vllm_logdoctor.catalogue.locate import builtin_root, pack_files, page_files
from vllm_logdoctor.catalogue.packs import read_pack, runtime_pattern
from vllm_logdoctor.catalogue.pages import read_page
from vllm_logdoctor.catalogue.validation import check_files
from vllm_logdoctor.catalogue.values import match
from vllm_logdoctor.rules.explaining import Explainer

LARGEST_INDEX = 600_000
MOST_LINES = 15_000
LONGEST_FILE = 500
LONGEST_MEDIAN = 100
LONGEST_COUNTER_SAMPLE = 400


@pytest.fixture(scope="module")
def index() -> PackIndex:
    return load_index()


def test_no_pack_has_a_problem_and_each_sample_one_taker() -> None:
    assert [
        str(problem) for problem in check_files([*pack_files(builtin_root()), *page_files(builtin_root())])
    ] == []


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


def test_every_literal_leads_to_its_patterns(index: PackIndex) -> None:
    by_literal = dict(zip(index.literals, index.patterns_by_literal, strict=True))
    for number, pattern in enumerate(index.patterns):
        assert all(number in by_literal[literal] for literal in pattern.literals)


def test_the_files_are_small_enough_to_be_reviewed() -> None:
    lengths = [len(path.read_text("utf-8").splitlines()) for path in pack_files(builtin_root())]
    assert sum(lengths) <= MOST_LINES
    assert max(lengths) <= LONGEST_FILE
    assert median(lengths) < LONGEST_MEDIAN


def test_every_pattern_has_a_sample() -> None:
    entries = [entry for path in pack_files(builtin_root()) for entry in read_pack(path).pattern]
    assert [entry.id for entry in entries if not entry.samples] == []


def test_warnings_and_errors_say_what_they_mean(index: PackIndex) -> None:
    loud = [pattern for pattern in index.patterns if pattern.level in ("warning", "error", "critical")]
    assert len(loud) > 300
    assert all(pattern.meaning.endswith(".") for pattern in loud)


def test_the_compiled_index_stays_small() -> None:
    assert len(msgspec.json.encode(compile_folder(builtin_root(), trusted=True))) < LARGEST_INDEX


def test_loading_needs_no_models_and_no_toml() -> None:
    import subprocess

    code = (
        "import sys; from vllm_logdoctor.catalogue.loading import load_index; load_index(); "
        "print(sorted({'pydantic', 'tomllib', 'tomli', 'regex'} & set(sys.modules)))"
    )
    load_index()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_can_be_confused_with_the_line_of_another_pattern_has_a_counter_sample() -> None:
    entries = [entry for path in pack_files(builtin_root()) for entry in read_pack(path).pattern]
    samples = [(entry.id, sample.text) for entry in entries for sample in entry.samples]
    near = [
        entry.id
        for entry in entries
        if not entry.counter_samples
        and any(
            name != entry.id
            and any(literal in text for literal in entry.literal)
            and not match(pattern, text)
            for pattern in [runtime_pattern(entry, "")]
            for name, text in samples
            if len(text) < LONGEST_COUNTER_SAMPLE
        )
    ]
    assert near == []


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


@pytest.mark.parametrize(
    "file",
    [
        "v1/worker/gpu_model_runner.py",
        "v1/worker/gpu_worker.py",
        "v1/executor/multiproc_executor.py",
        "v1/engine/core.py",
        "v1/engine/async_llm.py",
        "model_executor/models/llama.py",
        "worker/worker_base.py",
    ],
)
def test_no_literal_is_in_the_frames_of_every_traceback(index: PackIndex, file: str) -> None:
    """Such a literal makes each frame of a crash loop a wanted line, at several times the cost."""
    frame = f'  File "/usr/lib/python3.12/site-packages/vllm/{file}", line 1627, in execute_model'
    assert [literal for literal in index.literals if literal in frame] == []
