"""Drift: what an unseen release changes, from its sources alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from vllm_logdoctor.catalogue.compile import parse_pack
from vllm_logdoctor.catalogue.drift import Drift, draft_pack, drift_lines, drift_of
from vllm_logdoctor.catalogue.writing import pack_text
from vllm_logdoctor.errors import LogdoctorError

ARGUMENTS = """
import argparse
from msgspec import Struct

class EngineArgs(Struct):
    max_num_seqs: int = {seqs}

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--max-num-seqs", type=int, default={seqs})
        parser.add_argument("--brand-new-flag", action="store_true")
        return parser
"""
SERVING = """
from vllm.logger import init_logger

logger = init_logger(__name__)

def serve(cause):
    logger.warning("The frobnicator of this release is disabled because %s.", cause)
    logger.info("Quietly frobnicating %d requests", 3)
    raise ValueError("The frobnicator can not be combined with pooling")
"""


def package(folder: Path, version: str, seqs: int, serving: str) -> Path:
    root = folder / version / "vllm"
    for inside in ("engine", "entrypoints", "config"):
        (root / inside).mkdir(parents=True)
    (root / "_version.py").write_text(f"__version__ = version = '{version}'\n", encoding="utf-8")
    (root / "envs.py").write_text("", encoding="utf-8")
    (root / "config" / "__init__.py").write_text("", encoding="utf-8")
    (root / "engine" / "arg_utils.py").write_text(ARGUMENTS.format(seqs=seqs), encoding="utf-8")
    (root / "entrypoints" / "serve.py").write_text(serving, encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def drift(tmp_path_factory: pytest.TempPathFactory) -> Drift:
    folder = tmp_path_factory.mktemp("releases")
    new = package(folder, "9.1.0", 512, SERVING)
    old = package(folder, "9.0.0", 256, "def serve(cause):\n    pass\n")
    return drift_of(new, old)


def test_new_messages_are_named_loud_ones_first(drift: Drift) -> None:
    assert [message.level for message in drift.uncovered] == ["warning", "raise", "info"]
    assert drift.uncovered[0].template == "The frobnicator of this release is disabled because %s."


def test_messages_that_are_gone_are_named(drift: Drift) -> None:
    assert len(drift.gone) > 1000
    assert all(gone.pattern.level != "foreign" for gone in drift.gone)


def test_changed_flags_are_named(drift: Drift) -> None:
    assert ("--max-num-seqs", "256", "512") in drift.flags.changed
    assert drift.flags.added == ()


def test_the_draft_is_a_pack_with_samples(drift: Drift) -> None:
    pack = draft_pack(drift)
    assert parse_pack(Path("draft.toml"), pack_text(pack)) == pack
    entry = next(entry for entry in pack.pattern if entry.level == "warning")
    assert entry.seen == "9.1.0"
    assert entry.samples[0].text.startswith("The frobnicator of this release is disabled because ")


def test_the_summary_names_release_and_predecessor(drift: Drift) -> None:
    lines = list(drift_lines(drift))
    assert lines[0] == "# vLLM 9.1.0 against 9.0.0 and the packs"
    assert any("The frobnicator of this release" in line for line in lines)


def test_a_reworded_message_is_named_with_its_new_wording(tmp_path: Path) -> None:
    serving = SERVING.replace(
        "The frobnicator of this release is disabled because %s.",
        "Custom allreduce stays disabled because it is not supported on more than two PCIe-only GPUs at all.",
    )
    found = drift_of(package(tmp_path, "9.1.0", 256, serving))
    nearest = {gone.nearest.template for gone in found.gone if gone.nearest}
    assert any(text.startswith("Custom allreduce stays disabled") for text in nearest)


def test_without_an_older_release_exceptions_are_left_out(tmp_path: Path) -> None:
    found = drift_of(package(tmp_path, "9.1.0", 256, SERVING))
    assert [message.level for message in found.uncovered] == ["warning", "info"]
    assert found.before != "9.1.0"


def test_a_folder_that_is_no_package_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogdoctorError, match="unpacked wheel"):
        drift_of(tmp_path)
