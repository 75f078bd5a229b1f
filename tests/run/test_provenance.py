"""Who set a value."""

from __future__ import annotations

from tests.run.lives_of_a_server import start, statistics
from vllm_logdoctor import RunView, analyze


def run_of(*lines: str) -> RunView:
    (run,) = analyze(lines).runs
    return run


def test_what_the_user_set_is_explicit_and_has_both_lines_as_evidence() -> None:
    value = run_of(*start(extra=", 'max_model_len': 4096")).config.value("max_model_len")
    assert (value.value, value.provenance) == (4096, "explicit")
    assert [evidence.line for evidence in value.evidence] == [2, 3]


def test_what_only_the_engine_prints_is_reported() -> None:
    value = run_of(*start()).config.value("dtype")
    assert (value.value, value.provenance) == ("bfloat16", "reported")


def test_what_the_engine_uses_instead_is_adjusted_and_says_what_was_asked() -> None:
    value = run_of(*start(extra=", 'max_model_len': 8192")).config.value("max_model_len")
    assert (value.value, value.provenance) == (4096, "adjusted")
    assert "8192" in value.note


def test_a_default_is_marked_and_has_no_line() -> None:
    value = run_of(*start()).config.value("gpu_memory_utilization")
    assert (value.value, value.provenance, value.evidence) == (0.9, "default", ())


def test_a_version_that_no_line_prints_is_no_reported_one() -> None:
    run = run_of(statistics())
    assert run.run.version is None or run.run.version.provenance == "derived"


def test_all_arguments_of_a_dump_are_not_what_the_user_set() -> None:
    dump = "INFO 03-04 10:00:00 [api_server.py:5] args: Namespace(model='org/m', max_num_seqs=7, host=None, trust_remote_code=False)"
    run = run_of("INFO 03-04 10:00:00 [api_server.py:4] vLLM API server version 0.6.3", dump)
    assert run.config.value("max_num_seqs").provenance == "explicit"
    assert run.config.value("trust_remote_code").provenance != "explicit"


def test_a_setting_far_behind_in_a_long_line_is_shown_where_it_is() -> None:
    extra = f", 'compilation_config': '{'x' * 900}', 'max_num_seqs': 7, 'served_model_name': '{'y' * 900}'"
    (evidence,) = run_of(*start(extra=extra)).config.value("max_num_seqs").evidence
    assert "'max_num_seqs': 7" in evidence.text
    assert evidence.text.startswith("(APIServer pid=1) INFO")
    assert len(evidence.text) < 600


BUDGET = (
    "INFO 03-04 10:00:20 [worker.py:294] the current vLLM instance can use total_gpu_memory (79.10GiB) x "
    "gpu_memory_utilization (0.83) = 65.65GiB"
)


def test_a_setting_that_another_line_mentions_is_better_than_a_default() -> None:
    value = run_of(*start(), BUDGET).config.value("gpu_memory_utilization")
    assert (value.value, value.provenance) == (0.83, "reported")


def test_a_rounded_mention_changes_nothing_that_is_stated() -> None:
    value = run_of(*start(extra=", 'gpu_memory_utilization': 0.825"), BUDGET).config.value(
        "gpu_memory_utilization"
    )
    assert (value.value, value.provenance) == (0.825, "explicit")


def test_the_configuration_of_a_failed_step_tells_what_ran() -> None:
    dump = "ERROR 03-04 10:00:30 [dump_input.py:71] V1 LLM engine (v0.9.1) with config: model='org/m', dtype=torch.float16, "
    run = run_of("ERROR 03-04 10:00:30 [dump_input.py:69] Dumping input data", dump)
    assert (run.version, run.model, run.config["dtype"]) == ("0.9.1", "org/m", "float16")


def test_releases_before_the_oldest_known_one_have_its_lasting_defaults() -> None:
    run = run_of(
        "INFO 03-04 10:00:00 llm_engine.py:75] Initializing an LLM engine (v0.3.3) with config: model='org/m', dtype=torch.float16, device_config=cuda",
        "INFO 03-04 10:00:09 llm_engine.py:322] # GPU blocks: 100, # CPU blocks: 5",
    )
    assert run.run.measured["kv_cache_tokens"].value == 1600
    assert run.run.engine == "V0"


def test_statistics_name_the_device_of_the_cache() -> None:
    run = run_of(statistics().replace("GPU KV", "CPU KV"))
    assert run.run.platform == "cpu"


def test_a_draft_model_does_not_change_the_length_of_the_model() -> None:
    lengths = [
        f"(APIServer pid=1) INFO 03-04 10:00:0{n} [model.py:9] Using max model len {length}"
        for n, length in enumerate((4096, 262144))
    ]
    value = run_of(*start(extra=", 'max_model_len': 4096")[:2], *lengths).config.value("max_model_len")
    assert (value.value, value.provenance) == (4096, "explicit")


def test_the_block_size_follows_from_the_requests_that_the_blocks_hold() -> None:
    run = run_of(
        "INFO 03-04 10:00:05 [executor_base.py:113] # npu blocks: 466, # CPU blocks: 1820",
        "INFO 03-04 10:00:05 [executor_base.py:118] Maximum concurrency for 32768 tokens per request: 1.82x",
    )
    assert run.config["block_size"] == 128
    assert run.run.measured["kv_cache_tokens"].value == 466 * 128


def test_a_device_with_a_number_is_still_that_platform() -> None:
    lines = [line.replace("device_config=cuda", "device_config=cuda:1") for line in start()]
    assert run_of(*lines).run.platform == "cuda"


def test_what_the_parser_keeps_for_itself_is_no_setting() -> None:
    dump = "INFO 03-02 03:24:31 [api_server.py:840] args: Namespace(subparser='serve', model_tag='m', port=7888, model='m', dispatch_function=<function ServeSubcommand.cmd at 0x7f00>)"
    (run,) = analyze([dump]).runs
    assert "port" in run.config
    assert not {"subparser", "dispatch_function"} & set(run.config)


def test_a_cache_type_that_the_engine_left_open_is_what_the_attention_backend_resolved() -> None:
    resolved = (
        "(EngineCore_DP0 pid=1) INFO 03-04 10:00:20 [flashinfer.py:780] FlashInfer resolved query dtypes: prefill=torch.bfloat16,"
        " decode=torch.bfloat16, decode_backend=trtllm, kv_cache_dtype=torch.{}, arch=sm100"
    )
    run = run_of(*start(), resolved.format("float8_e4m3fn"))
    value = run.config.value("kv_cache_dtype")
    assert (value.value, value.resolved, run.run.in_effect("kv_cache_dtype")) == (
        "auto",
        "fp8_e4m3",
        "fp8_e4m3",
    )
    assert "torch.float8_e4m3fn" in value.evidence[-1].text
    assert run_of(*start(), resolved.format("bfloat16")).config.value("kv_cache_dtype").resolved == ""


def test_the_report_names_what_an_open_cache_type_was_resolved_to() -> None:
    resolved = (
        "(EngineCore_DP0 pid=1) INFO 03-04 10:00:20 [flashinfer.py:780] FlashInfer resolved query dtypes: prefill=torch.bfloat16,"
        " decode=torch.bfloat16, decode_backend=trtllm, kv_cache_dtype=torch.float8_e4m3fn, arch=sm100"
    )
    text = analyze([*start(), resolved]).to_markdown()
    assert "`kv_cache_dtype` `auto` (resolved to `fp8_e4m3`)" in text
    assert "KV cache type (fp8_e4m3)" in text


def test_a_plugin_whose_device_vllm_takes_for_the_cpu_is_known_by_its_modules() -> None:
    lines = [line.replace("device_config=cuda", "device_config=cpu") for line in start()]
    assert run_of(*lines).run.platform == "cpu"
    worker = 'File "/opt/plugin/neuronx_distributed_model_runner.py", line 7, in execute_model'
    assert run_of(*lines, worker).run.platform == "neuron"


def test_a_release_is_told_by_a_long_message_and_by_one_that_ray_counts() -> None:
    long = (
        "Default sampling parameters have been overridden by the model's Hugging Face generation config recommended from the model"
        " creator. If this is not intended, please relaunch vLLM instance with `--generation-config vllm`."
    )
    short = "cudagraph dispatching keys are not initialized. No cudagraph will be used."
    lines = (("model.py:1389", long), ("cudagraph_dispatcher.py:106", short))
    for counted in ("", " [repeated 2x across cluster]"):
        found = run_of(
            *(f"(Worker pid=7) WARNING 05-07 21:12:00 [{site}] {text}{counted}" for site, text in lines)
        )
        assert found.version == "0.11.0"
