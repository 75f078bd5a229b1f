"""What a release changes is named: the package here is a small one, written by hand."""

from pathlib import Path

import pytest

from tools.drift import drift_lines, drift_of, main

SOURCES = {
    "_version.py": 'version = "99.0.0"\n',
    "engine/arg_utils.py": "class EngineArgs:\n    max_num_seqs: int = 1\n"
    "    def add_cli_args(parser):\n        parser.add_argument('--no-flag-before', type=int)\n",
    "envs.py": "environment_variables = {'VLLM_NEW_ONE': lambda: os.getenv('VLLM_NEW_ONE', '1')}\n",
    "config/cache.py": "class CacheConfig:\n    x: int = 1\n",
    # 0.33.0 logs more in this file, and this in other words: "Reset the prefix cache" ...
    "v1/core/block_pool.py": "logger.info('Successfully reset prefix cache again')\nlogger.warning('Nobody wrote this before.')\n",
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    root = tmp_path / "vllm"
    for name, text in SOURCES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_new_and_reworded_messages_are_distinguished(package: Path) -> None:
    found = drift_of(package)
    assert (found.release, found.before) == ("99.0.0", "0.33.0")
    assert "Nobody wrote this before." in {message.template for message in found.new}
    reworded = {old.template: new.template for old, new in found.gone if new is not None}
    assert reworded == {"Successfully reset prefix cache": "Successfully reset prefix cache again"}


def test_patterns_flags_and_variables_are_compared(package: Path) -> None:
    found = drift_of(package)
    assert "kv-cache-tokens" in {pattern.id for pattern in found.patterns} or found.patterns
    assert "--no-flag-before" in found.flags.added
    assert found.variables.added == ("VLLM_NEW_ONE",)
    assert "VLLM_USE_V1" in found.variables.removed or found.variables.removed
    assert "- added: VLLM_NEW_ONE" in list(drift_lines(found))


def test_what_is_no_package_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert "no vLLM package" in capsys.readouterr().err
