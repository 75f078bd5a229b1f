"""config tells the effective configuration; its YAML starts the same server again."""

from __future__ import annotations

import json

from vllm_logdoctor.cli.config import markdown_text, yaml_text
from vllm_logdoctor.pipeline import Options, analyse
from vllm_logdoctor.report.model import Analysis
from vllm_logdoctor.source import inputs_from

LOG = """\
(APIServer pid=11) INFO 03-02 10:00:05 [api_server.py:1839] vLLM API server version 0.11.2
(APIServer pid=11) INFO 03-02 10:00:05 [utils.py:233] non-default args: {'model_tag': 'org/tiny', \
'model': 'org/tiny', 'max_num_seqs': 4, 'enforce_eager': True, 'enable_prefix_caching': False, \
'served_model_name': ['a: b', 'no'], 'speculative_config': {'method': 'ngram'}}
(APIServer pid=11) INFO 03-02 10:00:06 [model.py:1750] Using max model len 4096
"""


def analysis(log: str = LOG) -> Analysis:
    return analyse(inputs_from(log.encode()), Options())


def settings(text: str) -> dict[str, object]:
    """Read the part of YAML that is written here: one `key: JSON or plain word` a line."""
    found: dict[str, object] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.partition(": ")
            try:
                found[name] = json.loads(value)
            except ValueError:
                found[name] = value
    return found


def test_the_yaml_says_what_the_user_set_in_the_words_of_vllm_serve() -> None:
    told = settings(yaml_text(analysis().runs[0].run))
    assert told["model"] == "org/tiny"
    assert told["max-num-seqs"] == 4
    assert told["enforce-eager"] is True
    assert told["served-model-name"] == ["a: b", "no"]
    # JSON text in YAML: what every release takes for a nested setting.
    assert json.loads(told["speculative-config"]) == {"method": "ngram"}


def test_a_switch_that_was_turned_off_stays_off() -> None:
    told = settings(yaml_text(analysis().runs[0].run))
    assert told["no-enable-prefix-caching"] is True
    assert "enable-prefix-caching" not in told


def test_what_was_in_effect_without_being_set_is_a_comment() -> None:
    text = yaml_text(analysis().runs[0].run)
    assert "# max-model-len: 4096" in text
    assert "max-model-len" not in settings(text)


def test_a_log_without_arguments_gives_comments_only() -> None:
    log = "".join(line + "\n" for line in LOG.splitlines() if "non-default" not in line)
    text = yaml_text(analysis(log).runs[0].run)
    assert settings(text) == {}
    assert "does not hold all arguments" in text


def test_a_value_with_a_line_end_stays_in_its_line() -> None:
    text = yaml_text(analysis(LOG.replace("org/tiny", "org/x\\nenforce-eager: false")).runs[0].run)
    assert sum(line.startswith("enforce-eager:") for line in text.splitlines()) == 1


def test_the_page_names_who_set_a_value() -> None:
    told = analysis()
    page = markdown_text(told, told.runs[0])
    assert page.startswith("# vLLM 0.11.2")
    assert "`max_num_seqs`" in page
    assert "| arguments |" in page
    assert "| engine |" in page
