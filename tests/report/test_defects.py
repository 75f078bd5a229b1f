"""Defects that cost users' trust: one class each; those of the command line are in tests/cli_extra."""

from __future__ import annotations

from datetime import date

import pytest

import vllm_logdoctor
from tests.commands import ROOT
from vllm_logdoctor import Report, analyze
from vllm_logdoctor.cli.baseline import Suppression, suppressed
from vllm_logdoctor.report.charts import first_charts
from vllm_logdoctor.report.effects import effect_range
from vllm_logdoctor.report.figures import capital
from vllm_logdoctor.report.markdown import render
from vllm_logdoctor.report.model import Diagnosis
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.report.sections.serving import drawn_curves
from vllm_logdoctor.report.sparkline import sparkline
from vllm_logdoctor.rules.model import Effect

FIXTURES = ROOT / "fixtures"
CORE = "(EngineCore_DP0 pid=9) INFO 05-01"
CARD = """\
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:18:00.0 Off |                    0 |
| N/A   30C    P0             70W /  700W |       1MiB /  81559MiB |      0%      Default |
"""


def start(arguments: str = "", engine: str = "", version: str = "0.11.0") -> list[str]:
    return [
        f"INFO 05-01 10:00:00 [api_server.py:1043] vLLM API server version {version}",
        f"INFO 05-01 10:00:01 [utils.py:233] non-default args: {{'model': 'org/model', 'max_model_len': 4096{arguments}}}",
        f"{CORE} 10:00:10 [core.py:77] Initializing a V1 LLM engine (v{version}) with config: model='org/model',"
        f" dtype=torch.bfloat16, max_seq_len=4096, tensor_parallel_size=1{engine}",
        f"{CORE} 10:00:20 [gpu_model_runner.py:2653] Model loading took 2.9 GiB and 5.0 seconds",
        f"{CORE} 10:00:26 [backends.py:559] Dynamo bytecode transform time: 5.00 s",
        f"{CORE} 10:00:30 [monitor.py:34] torch.compile takes 9.00 s in total",
        f"{CORE} 10:00:40 [core.py:210] init engine (profile, create kv cache, warmup model) took 20.00 seconds",
        "INFO:     Application startup complete.",
    ]


def statistics(clock: str, generation: float = 100.0, kv: float = 5.0, running: int = 4) -> str:
    return (
        f"(APIServer pid=1) INFO 05-01 {clock} [loggers.py:127] Engine 000: Avg prompt throughput: 10.0 tokens/s,"
        f" Avg generation throughput: {generation} tokens/s, Running: {running} reqs, Waiting: 0 reqs,"
        f" GPU KV cache usage: {kv}%, Prefix cache hit rate: 0.0%"
    )


def served(
    generation: float = 100.0, arguments: str = "", engine: str = "", version: str = "0.11.0"
) -> list[str]:
    lines = [statistics(f"10:{5 + n // 6:02}:{n % 6 * 10:02}", generation + n % 3) for n in range(30)]
    return [*start(arguments, engine, version), *lines]


def curve(report: Report, name: str, width: int = 40) -> str:
    page = Page(report.analysis, report.analysis.runs[0])
    return next(drawn for one, drawn, _ in drawn_curves(page, width) if one.startswith(name))


class TestStartUp:
    def test_its_parts_add_up_to_all_of_it(self) -> None:
        phases = analyze(served()).runs[0].phases
        (whole,) = (phase.seconds for phase in phases if phase.name == "startup")
        assert sum(phase.seconds or 0.0 for phase in phases if phase.parent == "startup") == whole == 40

    def test_torch_compile_is_drawn_once_and_contains_dynamo(self) -> None:
        (chart,) = (one for one in first_charts(analyze(served()).analysis.runs[0]) if "spans" in one.data)
        labels = [span["label"] for span in chart.data["spans"]]
        assert labels.count("torch.compile") == 1
        phases = {phase.name: phase for phase in analyze(served()).runs[0].phases}
        assert phases["dynamo"].parent == "compile"

    def test_a_phase_ends_where_its_line_is_and_not_later(self) -> None:
        phases = {phase.name: phase for phase in analyze(served()).runs[0].phases}
        began = phases["startup"].start or 0.0
        assert ((phases["compile"].start or 0.0) - began, (phases["compile"].end or 0.0) - began) == (21, 30)

    def test_what_a_phase_explains_is_not_called_unexplained(self) -> None:
        phases = {phase.name: phase for phase in analyze(served()).runs[0].phases}
        assert (phases["unexplained"].seconds or 0.0 if "unexplained" in phases else 0.0) <= 5

    def test_figures_of_two_servers_are_not_mixed(self) -> None:
        second = [line.replace("05-01 10:", "05-01 14:") for line in served(900.0)]
        runs = analyze([*served(), *second]).runs
        assert [max(sample.generation for sample in run.stats) for run in runs] == [102.0, 902.0]
        assert [run.duration for run in runs] == [590.0, 590.0]


class TestAcceptedFindings:
    def test_a_hidden_finding_does_not_turn_a_limit_into_an_unknown_one(self) -> None:
        shown = analyze(FIXTURES / "vllm-0.11.2-kv-starved.log").analysis
        entries = [Suppression(one.id, "accepted", date(2099, 1, 1)) for one in shown.runs[0].findings]
        text = render(suppressed(shown, entries, date(2026, 5, 1)).analysis)
        assert text.startswith("# LIMITED: KV cache full\n")
        assert "no rule" not in text
        assert "`kv-cache-preemption`" in text


class TestCurves:
    def test_percentages_are_drawn_on_a_scale_of_100_and_a_flat_curve_is_left_out(self) -> None:
        used = [statistics(f"10:05:{n:02}", kv=20.0 + 40 * (n > 30)) for n in range(0, 60, 5)]
        assert set(curve(analyze([*start(), *used]), "KV cache")) == {"▂", "▅"}
        flat = [statistics(f"10:05:{n:02}", kv=0.1 * (1 + n % 2)) for n in range(0, 60, 5)]
        assert "KV cache, %  " not in analyze([*start(), *flat]).to_markdown()
        assert sparkline([0.2, 100.0], 100.0) == "▁█"

    def test_a_dip_is_drawn_where_several_values_share_a_column(self) -> None:
        rates = [1000.0] * 20 + [10.0] * 20 + [1000.0] * 20
        lines = [statistics(f"10:{5 + n // 6:02}:{n % 6 * 10:02}", rate) for n, rate in enumerate(rates)]
        assert "▁" in curve(analyze([*start(), *lines]), "generation", 10)


class TestComparison:
    def test_another_type_of_the_cache_is_a_difference_that_matters(self) -> None:
        text = vllm_logdoctor.compare(
            analyze(served()), analyze(served(engine=", kv_cache_dtype=fp8_e4m3"))
        ).to_markdown()
        assert "`kv_cache_dtype` `auto` → `fp8_e4m3`" in text
        assert "No setting that could matter differs" not in text

    def test_requests_without_statistics_lines_are_not_said_to_be_missing(self) -> None:
        access = 'INFO:     10.0.0.1:5 - "POST /v1/completions HTTP/1.1" 200 OK'
        before = analyze(FIXTURES / "vllm-0.11.2-kv-starved.log")
        text = vllm_logdoctor.compare(before, analyze([*start(), *[access] * 50])).to_markdown()
        assert "no request being served" not in text
        assert "the later log has no statistics line with a running request" in text

    @pytest.mark.parametrize("version", ["0.11.0", "0.19.0"])
    def test_a_default_that_one_side_spells_out_is_not_blamed(self, version: str) -> None:
        spelt = analyze(served(arguments=", 'api_server_count': 1", version=version))
        text = vllm_logdoctor.compare(spelt, analyze(served(31.0, version=version))).to_markdown()
        assert "At equal load generation is slower" in text
        assert "`api_server_count` `1` → not given" not in text

    def test_the_median_of_seconds_is_in_the_range_that_is_named(self) -> None:
        words = effect_range(Effect("init_engine_seconds", 0.18, 0.57, "published", "4 pairs, median 0.43"))
        assert words == "1.75 to 5.56 x faster engine initialization"


class TestTime:
    def test_a_header_in_a_prompt_does_not_move_the_clock(self) -> None:
        prompt = "INFO 05-11 23:00:00 [quoted.py:1] text of a prompt"
        assert analyze([*served(), prompt, statistics("10:10:00")]).runs[0].duration == 600

    @pytest.mark.parametrize("name", ["vllm-{}  | ", "container-{} "])
    def test_containers_in_one_file_are_runs_of_their_own(self, name: str) -> None:
        lines = [f"{name.format(n)}{line}" for n in range(3) for line in served()]
        assert [run.duration for run in analyze(lines).runs] == [590.0] * 3

    def test_processes_days_apart_are_runs_of_their_own(self) -> None:
        later = [line.replace("05-01", "05-07") for line in served()]
        assert [run.duration for run in analyze([*served(), *later]).runs] == [590.0, 590.0]

    def test_lines_out_of_order_do_not_make_a_run_longer(self) -> None:
        lines = served()
        swapped = [*start(), *(line for pair in zip(lines[9::2], lines[8::2], strict=True) for line in pair)]
        assert analyze(swapped).runs[0].duration == analyze(lines).runs[0].duration == 590

    def test_a_year_that_a_line_begins_with_is_known(self) -> None:
        report = analyze(
            ["2026-05-01 10:00:00,100 INFO worker.py:1832 -- Started a local Ray instance.", *served()]
        )
        assert report.to_dict()["runs"][0]["clock"]["year_known"] is True


class TestWhatTheLogShows:
    def test_a_card_that_nvidia_smi_printed_is_not_missing(self) -> None:
        text = analyze([*CARD.splitlines(), *served()]).to_markdown()
        assert "H100" in text
        assert "GPU model" not in text

    def test_lengths_of_a_benchmark_in_the_log_are_those_of_the_next_one(self) -> None:
        log = (FIXTURES / "vllm-0.11.2-kv-starved.log").read_text().splitlines()
        result = [
            "============ Serving Benchmark Result ============",
            "Successful requests:                     10        ",
            "Total input tokens:                      7770      ",
            "Total generated tokens:                  1110      ",
            "==================================================",
        ]
        text = analyze([*log, *result]).to_markdown()
        assert "--random-input-len 777 --random-output-len 111" in text
        assert "with lengths that you fill in" not in text
        assert "with the mean lengths of its requests" in analyze(log).to_markdown()

    def test_a_benchmark_of_drafts_takes_prompts_that_the_reader_writes_first(self) -> None:
        log = (FIXTURES / "vllm-0.11.2-kv-starved.log").read_text()
        drafts = log.replace(
            "speculative_config=None",
            "speculative_config=SpeculativeConfig(method='ngram', num_spec_tokens=3)",
        )
        text = analyze(drafts.splitlines()).to_markdown()
        assert "--dataset-path prompts.jsonl" in text
        assert "write them to prompts.jsonl first" in text

    def test_the_backend_of_the_vision_encoder_is_not_the_decoders(self) -> None:
        decoder = f"{CORE} 10:00:12 [cuda.py:366] Using FLASHINFER attention backend out of potential backends: ['FLASHINFER']"
        encoder = f"{CORE} 10:00:11 [mm_encoder_attention.py:99] Using FLASH_ATTN for MMEncoderAttention."
        text = analyze([*start(), encoder, decoder]).to_markdown()
        assert "| attention backend | FLASHINFER |" in text
        assert "FLASH_ATTN" not in text
        assert "attention backend" not in analyze([*start(), encoder]).to_markdown()

    def test_a_value_that_stays_is_not_called_changed(self) -> None:
        arguments = ", 'dtype': 'bfloat16', 'enforce_eager': True, 'gpu_memory_utilization': 0.9"
        config = analyze(served(arguments=arguments, engine=", enforce_eager=True")).runs[0].config
        assert [name for name in config if config.value(name).provenance == "adjusted"] == []


def test_the_cause_of_a_run_is_asked_for_no_more_often_the_more_runs_failed(monkeypatch) -> None:
    """A thousand starts that failed in a thousand ways took time by the square of their number."""

    def asked(runs: int) -> float:
        lines = []
        for number in range(runs):
            lines += [
                f"INFO 05-01 {10 + number // 60}:{number % 60:02}:00 [api_server.py:1043] vLLM API server version 0.11.0",
                "Traceback (most recent call last):",
                '  File "/opt/vllm/model_executor/models/llama.py", line 10, in load_weights',
                f"RuntimeError: nothing like {chr(97 + number // 26) + chr(97 + number % 26)}",
            ]
        found = vllm_logdoctor.analyze(lines)
        assert len(found.runs) == runs
        count = 0

        def root(diagnosis: Diagnosis) -> object:
            nonlocal count
            count += 1
            return shown(diagnosis)

        with monkeypatch.context() as patched:
            patched.setattr(Diagnosis, "shown_root", property(root))
            found.to_markdown()
        return count / runs

    shown = Diagnosis.shown_root.fget
    assert asked(40) <= asked(10)


def test_a_page_of_several_runs_links_each_run_and_names_its_overview() -> None:
    page = analyze([*start(), *start()]).to_html()
    assert page.count('href="#run-2"') >= 1
    assert 'id="run-2"' in page
    assert ">Overview</a>" in page
    assert ">First screen</a>" not in page


def test_a_setting_that_begins_a_sentence_keeps_its_name() -> None:
    assert capital("max_num_seqs reached for 10 s") == "max_num_seqs reached for 10 s"
    assert capital(r"max\_num\_seqs reached") == r"max\_num\_seqs reached"
