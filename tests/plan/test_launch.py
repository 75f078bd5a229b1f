"""The launch command before and after, in shell and in the forms in which people start servers."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.rules.making import a_run, event
from tests.tables import for_each
from vllm_logdoctor.plan.command import shell, shell_word
from vllm_logdoctor.plan.devices import gpus, notes, processors
from vllm_logdoctor.plan.formats import FORMS, render_launch, systemd_word, yaml_value
from vllm_logdoctor.plan.launch import Launch, changed, launch_of
from vllm_logdoctor.rules.model import Change
from vllm_logdoctor.run.model import Run

ARGUMENTS = {
    "model_tag": "org/model",
    "model": "org/model",
    "port": 1225,
    "enforce_eager": True,
    "tensor_parallel_size": 4,
    "speculative_config": {"method": "ngram", "num_speculative_tokens": 3},
    "served_model_name": ["a", "b"],
}


def server(**more: Any) -> Run:
    return a_run(set=ARGUMENTS, **more)


def words(run: Run) -> list[str]:
    launch = launch_of(run)
    assert launch is not None
    return shlex.split(shell(launch).replace("\\\n", " "))


def test_the_command_is_rebuilt_from_the_logged_arguments() -> None:
    found = words(server())
    assert found[:3] == ["vllm", "serve", "org/model"]
    assert "--enforce-eager" in found
    assert found[found.index("--port") + 1] == "1225"
    assert json.loads(found[found.index("--speculative-config") + 1])["method"] == "ngram"
    assert found[found.index("--served-model-name") + 1 :][:2] == ["a", "b"]


@pytest.mark.parametrize(
    "at_default",
    [("config_format", "ConfigFormat.AUTO"), ("ssl_cert_reqs", 0), ("prefix_caching_hash_algo", "builtin")],
)
def test_what_a_dump_of_all_arguments_holds_at_its_default_is_no_flag(at_default: tuple[str, Any]) -> None:
    run = a_run(set={**ARGUMENTS, **dict([at_default])}, version="0.8.2")
    assert "--" + at_default[0].replace("_", "-") not in words(run)


def test_an_old_release_is_started_by_its_module() -> None:
    assert words(server(version="0.5.4", engine="V0"))[:3] == [
        "python",
        "-m",
        "vllm.entrypoints.openai.api_server",
    ]


@pytest.mark.parametrize(
    "run", [a_run(), a_run(set=ARGUMENTS, kind="offline")], ids=["no arguments", "no server"]
)
def test_without_the_arguments_of_a_server_there_is_no_command(run: Run) -> None:
    assert launch_of(run) is None


def test_a_cut_line_of_arguments_gives_no_command_rather_than_half_of_one() -> None:
    run = server()
    run.messages["arguments-non-default"].first[0] = event(
        "non-default args: {'model': 'org/model', 'max_model_"
    )
    assert launch_of(run) is None


def test_changes_set_replace_and_drop_flags_and_add_variables() -> None:
    launch = launch_of(server())
    assert launch is not None
    after = changed(
        launch,
        [
            Change("--enforce-eager", "flag", True, None),
            Change("-tp", "flag", 4, 1),
            Change("--max-num-seqs", "flag", None, 32),
            Change("VLLM_LOGGING_LEVEL", "env", None, "DEBUG"),
            Change("look at the client", "action"),
        ],
    )
    found = shlex.split(shell(after).replace("\\\n", " "))
    assert found[0] == "VLLM_LOGGING_LEVEL=DEBUG"
    assert "--enforce-eager" not in found
    assert found[found.index("--tensor-parallel-size") + 1] == "1"
    assert found[found.index("--max-num-seqs") + 1] == "32"
    assert (launch.cards, after.cards) == (4, 1)


def test_a_masked_secret_becomes_a_variable_in_every_form() -> None:
    launch = Launch("m", {"--api-key": ["***", "***"]}, {}, "0.11.2")
    assert '--api-key "$VLLM_API_KEY" "$VLLM_API_KEY_2"' in shell(launch)
    for form in FORMS:
        assert "***" not in render_launch(launch, form)


@pytest.mark.parametrize("form", sorted(FORMS))
@pytest.mark.parametrize(("flag", "variable"), [("--api-key", "VLLM_API_KEY"), ("--hf-token", "HF_TOKEN")])
def test_a_key_that_vllm_reads_from_a_variable_is_on_no_command_line(
    form: str, flag: str, variable: str
) -> None:
    text = render_launch(Launch("m", {flag: "***"}, {}, "0.11.2"), form)
    assert variable in text
    assert not re.search(rf"{flag}\W+\$", text)
    assert f"vLLM reads it without {flag}" in shell(Launch("m", {flag: "***"}, {}, "0.11.2"))


def test_a_release_that_reads_no_key_from_the_environment_gets_it_on_its_command_line() -> None:
    assert '--api-key "$VLLM_API_KEY"' in shell(Launch("m", {"--api-key": "***"}, {}, "0.4.1"))


def test_what_the_log_says_never_leaves_its_quotes() -> None:
    launch = Launch("$(reboot)", {"--chat-template": "a'; rm -rf / #"}, {}, "0.11.2")
    found = shlex.split(shell(launch).replace("\\\n", " "))
    assert found == ["vllm", "serve", "$(reboot)", "--chat-template", "a'; rm -rf / #"]
    assert "$HOME" in shell_word("$HOME")
    assert shell_word("$HOME").startswith("'")


@pytest.mark.parametrize("form", sorted(FORMS))
def test_every_form_holds_the_model_and_the_flags(form: str) -> None:
    text = render_launch(
        Launch("org/model", {"--max-num-seqs": 64, "--enforce-eager": True}, {}, "0.11.2", 2), form
    )
    assert "org/model" in text
    assert "max-num-seqs" in text
    assert "64" in text


def test_schedulers_ask_for_the_cards_that_the_launch_takes() -> None:
    launch = Launch("m", {}, {}, "0.11.2", 4)
    assert "ngpus=4" in render_launch(launch, "pbs")
    assert "--gpus=4" in render_launch(launch, "slurm")
    assert "nvidia.com/gpu: 4" in render_launch(launch, "kubernetes")
    assert "count: 4" in render_launch(launch, "compose")


def test_an_image_is_pinned_only_to_a_release() -> None:
    assert "vllm-openai:v0.11.2" in render_launch(Launch("m", {}, {}, "0.11.2"), "compose")
    assert "vllm-openai:latest" in render_launch(Launch("m", {}, {}, "0.1.dev9+gabc"), "compose")


TEXT = st.text(
    st.characters(blacklist_categories=("Cs", "Cc")).filter(str.isprintable), min_size=1, max_size=20
)


@settings(deadline=None)
@given(TEXT, TEXT)
def test_any_text_comes_out_of_the_shell_as_it_went_in(model: str, value: str) -> None:
    launch = Launch(model, {"--served-model-name": value}, {}, "0.11.2")
    assume("***" not in model + value)  # What was masked becomes a variable.
    found = shlex.split(shell(launch).replace(" \\\n  ", " "))
    assert found == ["vllm", "serve", model, "--served-model-name", value]


@pytest.mark.parametrize("value", ["a\u202eb", "it's\x1b[31m \\", "\x07", "\U000e0001x"])
def test_what_acts_on_a_terminal_is_escaped_and_bash_reads_it_back(value: str) -> None:
    written = shell_word(value)
    assert written.isprintable()
    done = subprocess.run(
        ["bash", "-c", f"printf %s {written}"],
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode() == value


ANY_TEXT = st.one_of(
    st.text(min_size=1, max_size=30),
    st.sampled_from(
        ["0x1F", "1_000", "1e5", ".inf", ".nan", "2026-01-01", "12:30:45", "yes", "~", "a: b", "a #b", "- a", "@a", "%a", "&a", "*a", "!a", "|", ">",
         "a\nb: 1", "\x7f", "\x85", "\u2028", "\ufeff", "\U000e0001", "\ud800", "null", "", "{a", "'", '"', "\\", "a:", "<<", "=", "$VLLM_API_KEY", "${A}", "%i"]
    ),
)  # fmt: skip
VALUES = st.recursive(
    st.one_of(st.booleans(), st.integers(), st.floats(allow_nan=False), ANY_TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(ANY_TEXT, inner, max_size=3)),
    max_leaves=6,
)


@settings(deadline=None)
@given(VALUES)
def test_a_yaml_value_reads_back_as_the_same_value(value: Any) -> None:
    assert yaml.safe_load(yaml_value(value)) == value


@settings(deadline=None)
@given(st.dictionaries(ANY_TEXT.map("--".__add__), ANY_TEXT, max_size=3), ANY_TEXT)
def test_a_configuration_file_holds_exactly_the_flags(flags: dict[str, str], model: str) -> None:
    assume("***" not in str(flags) + model)
    read = yaml.safe_load(render_launch(Launch(model, flags, {}, "0.11.2"), "yaml"))
    assert read == {"model": model, **{name.removeprefix("--"): value for name, value in flags.items()}}


@settings(deadline=None)
@given(ANY_TEXT, ANY_TEXT)
def test_the_arguments_of_a_container_are_exactly_those_of_the_launch(model: str, value: str) -> None:
    assume("***" not in model + value)
    launch = Launch(model, {"--chat-template": value}, {"VLLM_X": value}, "0.11.2")
    expected = ["vllm", "serve", model, "--chat-template", value]
    service = yaml.safe_load(render_launch(launch, "compose"))["services"]["vllm"]
    assert [word.replace("$$", "$") for word in service["entrypoint"] + service["command"]] == expected
    assert service["environment"]["VLLM_X"].replace("$$", "$") == value
    container = yaml.safe_load(render_launch(launch, "kubernetes"))[0]
    assert [word.replace("$$", "$") for word in container["command"] + container["args"]] == expected


def systemd_words(line: str) -> list[str]:
    """Read the words of a line as systemd does: quotes, escapes of C, %% and $$."""
    words = re.findall(r'"(?:[^"\\]|\\.)*"|[^\s"]+', line)
    escapes = {"n": "\n", "\\": "\\", '"': '"'}

    def plain(match: re.Match[str]) -> str:
        return chr(int(match[0][2:], 16)) if len(match[0]) > 2 else escapes[match[0][1]]

    unquoted = [word[1:-1] if word.startswith('"') else word for word in words]
    read = [re.sub(r"\\(?:u[0-9a-f]{4}|U[0-9a-f]{8}|.)", plain, word) for word in unquoted]
    return [word.replace("%%", "%").replace("$$", "$") for word in read]


@settings(deadline=None)
@given(ANY_TEXT)
def test_the_words_of_a_unit_are_exactly_those_of_the_launch(value: str) -> None:
    assume("***" not in value)
    launch = Launch("org/m", {"--chat-template": value}, {}, "0.11.2")
    line = next(
        line for line in render_launch(launch, "systemd").split("\n") if line.startswith("ExecStart=")
    )
    assert systemd_words(line)[1:] == ["vllm", "serve", "org/m", "--chat-template", value]


@pytest.mark.parametrize("name", ["foo: 1\ntrust-remote-code: true\nmodel", "x" * 3000])
def test_a_name_that_no_argument_has_writes_no_setting(name: str) -> None:
    run = a_run(set={**ARGUMENTS, name: "evil/model"})
    launch = launch_of(run)
    assert launch is not None
    for form in FORMS:
        assert "evil" not in render_launch(launch, form)


@for_each("form", sorted(FORMS))
@for_each(
    "flags",
    [
        {"--api-key": "***"},
        {"--api-key": ["***"]},
        {"--api-key": ["***", "***"]},
        {"--otlp-traces-headers": "x-team=***"},
        {"--model-loader-extra-config": {"auth": {"token": "***"}}},
    ],
)
def test_what_the_log_masks_is_a_variable_that_is_declared_and_never_the_mask(
    form: str, flags: dict[str, Any]
) -> None:
    text = render_launch(Launch("m", flags, {"VLLM_TOKEN": "***"}, "0.11.2"), form)
    assert "***" not in text
    used = set(re.findall(r"\$[{(]?(\w+)", re.sub(r"\$(PBS|SLURM)\w+", "", text)))
    for name in used:
        assert re.search(
            rf": \"\${{{name}:\?|name: {name}|^# .*{name}|^ {{6}}{name}: ", text, re.MULTILINE
        ), (name, text)


def test_a_secret_is_the_variable_of_each_form_and_other_dollars_stay_text() -> None:
    launch = Launch("m", {"--api-key": ["***", "***"], "--chat-template": "a$b"}, {}, "0.11.2")
    assert '"${VLLM_API_KEY:?the log masks it}"' in render_launch(launch, "compose")
    assert '"$(VLLM_API_KEY)"' in render_launch(launch, "kubernetes")
    assert "${VLLM_API_KEY}" in render_launch(launch, "systemd")
    for form in ("compose", "kubernetes", "systemd"):
        assert "a$$b" in render_launch(launch, form)


def test_each_masked_word_of_a_flag_is_a_variable_of_its_own() -> None:
    two = Launch("m", {"--api-key": ["***", "***", "***"]}, {}, "0.16.0")
    text = render_launch(two, "shell")
    names = re.findall(r"VLLM_API_KEY\w*", text.rpartition("--api-key")[2])
    assert names == ["VLLM_API_KEY", "VLLM_API_KEY_2", "VLLM_API_KEY_3"]


def test_a_masked_model_and_a_masked_flag_name_their_own_variables_in_yaml() -> None:
    text = render_launch(Launch("***", {"--api-key": "***"}, {}, "0.16.0"), "yaml")
    (model,) = [one for one in text.split("\n") if "model" in one]
    (key,) = [one for one in text.split("\n") if "api-key" in one]
    assert "VLLM_MODEL" in model
    assert "VLLM_API_KEY" in key
    assert "VLLM_MODEL" not in key


def test_a_mapping_is_json_inside_yaml() -> None:
    text = render_launch(Launch("m", {"--speculative-config": {"method": "ngram"}}, {}, "0.11.2"), "yaml")
    value = json.loads(text.splitlines()[-1].split(": ", 1)[1])
    assert json.loads(value) == {"method": "ngram"}


@settings(deadline=None)
@given(TEXT)
def test_a_systemd_word_hides_no_percent_or_dollar(value: str) -> None:
    written = systemd_word(value)
    assert written.count("%") == 2 * value.count("%")
    assert written.count("$") == 2 * value.count("$")


def test_a_run_on_the_cpu_asks_nobody_for_cards() -> None:
    launch = Launch("org/model", {"--max-num-seqs": 8}, platform="cpu")
    for form in FORMS:
        text = render_launch(launch, form)
        assert "gpu" not in text.lower(), form
        assert "nvidia" not in text.lower(), form


@pytest.mark.parametrize(
    ("form", "words"), [("kubernetes", "amd.com/gpu: 2"), ("compose", "/dev/kfd"), ("pbs", "ngpus=2")]
)
def test_cards_of_rocm_are_asked_for_in_their_own_words(form: str, words: str) -> None:
    launch = Launch("org/model", {"--tensor-parallel-size": 2}, cards=2, platform="rocm")
    assert words in render_launch(launch, form)
    assert "nvidia" not in render_launch(launch, form)


def test_more_cards_than_a_node_has_are_not_promised_on_one() -> None:
    launch = Launch("org/model", {"--tensor-parallel-size": 8, "--pipeline-parallel-size": 2}, cards=16)
    assert "start Ray" in render_launch(launch, "pbs")
    assert "start Ray" in render_launch(launch, "slurm")


@for_each("form", ["yaml", "compose", "kubernetes"])
@for_each("platform", ["cuda", "rocm", "cpu", "npu", None])
def test_yaml_of_every_form_and_platform_can_be_read(form: str, platform: str | None) -> None:
    flags = {"--tensor-parallel-size": 2, "--speculative-config": {"method": "ngram"}, "--host": "0.0.0.0"}
    launch = Launch("org/a: model", flags, {"VLLM_LOGGING_LEVEL": "DEBUG"}, "0.11.2", 2, platform)
    assert yaml.safe_load(render_launch(launch, form))


def test_a_single_served_name_is_a_plain_text_that_old_releases_read_too() -> None:
    assert "served-model-name: small" in render_launch(
        Launch("org/model", {"--served-model-name": ["small"]}), "yaml"
    )


def test_a_batch_is_no_server() -> None:
    settings = {"model": "org/m", "max_num_seqs": 64}
    assert launch_of(a_run(set=settings)) is not None
    assert launch_of(a_run(set={**settings, "input_file": "in.jsonl", "output_file": "out.jsonl"})) is None


def test_a_release_without_configuration_files_gets_a_warning_in_yaml() -> None:
    assert "shell form" in render_launch(Launch("m", {}, {}, "0.4.1"), "yaml").splitlines()[0]
    assert "shell form" not in render_launch(Launch("m", {}, {}, "0.11.2"), "yaml")


def test_an_unset_variable_is_not_in_the_command() -> None:
    launch = Launch("m", {}, {"VLLM_TRACE_FUNCTION": "1"}, "0.11.2")
    assert changed(launch, [Change("VLLM_TRACE_FUNCTION", "env", 1, None)]).environment == {}


@pytest.mark.parametrize(
    ("cards", "platform", "said"),
    [(8, "cuda", ""), (9, "cuda", "start Ray on them first"), (4, "npu", "NPU devices"), (1, "cpu", "cores")],
)
def test_a_job_script_says_what_it_cannot_ask_for(cards: int, platform: str, said: str) -> None:
    found = notes(Launch("org/model", {}, cards=cards, platform=platform))
    assert len(found) == (1 if said else 0)
    assert said in "".join(found)


@pytest.mark.parametrize(
    ("platform", "cards", "taken", "cores"),
    [("cuda", 1, 1, 6), ("rocm", 4, 4, 12), (None, 2, 2, 8), ("cpu", 1, 0, 6), ("tpu", 4, 0, 12)],
)
def test_a_launch_asks_for_its_cards_and_two_cores_for_each_process(
    platform: str | None, cards: int, taken: int, cores: int
) -> None:
    """One process for the API server, one for the engine, and one for each card."""
    launch = Launch("m", {}, {}, "0.11.2", cards, platform)
    assert (gpus(launch), processors(launch)) == (taken, cores)
