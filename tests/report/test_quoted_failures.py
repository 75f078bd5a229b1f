"""What a report quotes and cites of a failure: whole messages, and only lines that carry the statement."""

from __future__ import annotations

import re

import vllm_logdoctor
from vllm_logdoctor.report.proof import quoted
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.rules.printed import check_of_failure
from vllm_logdoctor.run.model import Evidence, Run, Value

START = [
    "INFO 05-01 10:00:01 [api_server.py:1043] vLLM API server version 0.8.3",
    "INFO 05-01 10:00:10 [gpu_model_runner.py:918] Loading model weights took 2.8875 GB",
]
FAILED = "ERROR 05-01 10:00:20 [core.py:208]"


def report(lines: list[str]) -> str:
    return vllm_logdoctor.analyze(lines).to_markdown()


def core(*lines: str) -> list[str]:
    return [*START, *(f"{FAILED} {line}" for line in lines)]


def failed_to_start(frame: str, code: str, error: str) -> list[str]:
    return core("EngineCore failed to start.", "Traceback (most recent call last):", frame, code, error)


def test_an_exception_that_was_being_handled_is_not_what_broke() -> None:
    handled = [
        "Traceback (most recent call last):",
        '  File "/opt/vllm/cache.py", line 9, in lookup',
        "    return table[name]",
        "KeyError: 'blue'",
    ]
    failed = [
        "Traceback (most recent call last):",
        '  File "/opt/vllm/v1/engine/core.py", line 200, in run_engine_core',
        "    engine_core = EngineCoreProc(config)",
        '  File "/opt/vllm/v1/engine/core.py", line 153, in __init__',
        "    self.rows = shelf.count",
        "AttributeError: 'Shelf' object has no attribute 'count'",
    ]
    link = "During handling of the above exception, another exception occurred:"
    assert "blue" not in report(core(*handled, "", link, "", *failed))
    cause = "The above exception was the direct cause of the following exception:"
    assert "blue" in report(core(*handled, "", cause, "", *failed))


def test_a_message_that_a_tool_wrapped_is_quoted_whole() -> None:
    lines = [
        "  Building editable for vllm (pyproject.toml) ... error",
        "  error: subprocess-exited-with-error",
        "      CMake Error at /tmp/cmake/Modules/CMakeDetermineCompilerId.cmake:814 (message):",
        "        Compiling the CUDA compiler identification source file failed.",
        "        ptxas tmp/CMakeCUDACompilerId.ptx, line 9; fatal : Unsupported .version",
        "        7.5; current version is '6.3'",
        "",
        "ERROR: Failed building editable for vllm",
    ]
    text = report(lines)
    assert "Unsupported .version 7.5; current version is '6.3'` [L5, L6]" in text
    assert "CMake Error at" not in text.split("## What broke")[-1]


def test_a_line_of_its_own_below_the_decisive_one_is_no_part_of_it() -> None:
    lines = [
        *START,
        "INFO:     Started server process [7]",
        "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use",
        "INFO:     Waiting for application shutdown.",
    ]
    assert "address already in use` [L4]" in report(lines)


def test_a_quote_that_is_too_long_ends_with_a_sentence() -> None:
    processes = " ".join(f"Process 77{number} has 1.25 GiB memory in use." for number in range(9))
    said = f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.44 GiB. GPU 0 has 3.14 GiB free. {processes}"
    lines = core(
        "Traceback (most recent call last):",
        '  File "/opt/vllm/worker/worker.py", line 2, in f',
        "    x()",
        said,
    )
    quote = next(line for line in report(lines).split("\n") if line.startswith("`torch.Out"))
    assert quote.rpartition(" [")[0].endswith("memory in use. …`")


def test_the_middle_of_a_statement_is_not_quoted_and_its_first_line_is_marked() -> None:
    def failing(*code: str) -> str:
        return report(
            core(
                "Traceback (most recent call last):",
                '  File "/opt/vllm/model_executor/models/x.py", line 2, in forward',
                *(f"    {line}" for line in code),
                "IndexError: list index out of range",
            )
        )

    assert "or table.numel()" not in failing("or table.numel() == 0, \\")
    assert "output = self.shelf.pick(rows,…" in failing("output = self.shelf.pick(rows,")
    assert "output = self.shelf[row]\n" in failing("output = self.shelf[row]")


def test_a_cause_that_the_title_calls_probable_is_not_stated_flatly() -> None:
    lines = failed_to_start(
        '  File "/opt/vllm/model_executor/models/medusa.py", line 20, in load_weights',
        "    param = params_dict[name]",
        "KeyError: 'blocks.0.norm.weight'",
    )
    text = report(lines)
    assert ", probable cause: Draft model does not match its method" in text.split("\n")[0]
    assert "**Probable cause: the weights of the draft model do not fit" in text


def test_code_is_no_proof_of_a_known_cause_and_the_frame_shows_where_an_unknown_error_was_raised() -> None:
    raised = [
        "Traceback (most recent call last):",
        '  File "/opt/vllm/model_executor/model_loader/loader.py", line 2, in load_weights',
        "    param = table[name]",
    ]
    known = report(core(*raised, "OSError: [Errno 122] Disk quota exceeded: '/data/a'"))
    unknown = report(core(*raised, "KeyError: 3"))
    assert "[L6]." in known.split("\n1. ")[0]
    assert "[L6, L4]." in unknown.split("\n1. ")[0]


def test_a_path_that_is_too_long_ends_with_a_whole_folder() -> None:
    path = "/data/" + "/".join(f"folder-{number:02d}-of-the-cache" for number in range(12))
    text = report(
        core(
            "Traceback (most recent call last):",
            '  File "/opt/vllm/utils.py", line 2, in save',
            "    open(path)",
            f"OSError: [Errno 122] Disk quota exceeded: '{path}'",
        )
    )
    shown = text.split("Path: ")[1].split(" [")[0]
    assert shown.endswith("-of-the-cache/...")


def test_every_rank_with_the_same_error_is_named() -> None:
    lines = [*START]
    for rank in range(4):
        head = f"(Worker_TP{rank} pid=7{rank}) ERROR 05-01 10:00:2{rank} [multiproc_executor.py:901]"
        lines += [
            f"{head} WorkerProc failed to start.",
            f"{head} Traceback (most recent call last):",
            f'{head}   File "/opt/vllm/v1/worker/gpu_worker.py", line 200, in init_device',
            f"{head}     check(free)",
            f"{head} RuntimeError: too little is free: {4000 + rank} of 9000 bytes",
        ]
        lines.append(lines[-1])  # Once more where the worker ends.
    assert "The same error from other processes: [L13, L19, L25]." in report(lines)


def test_every_rank_that_states_the_very_same_error_twice_is_counted_once() -> None:
    lines = [*START]
    for rank in range(16):
        head = f"(Worker_TP{rank} pid=7{rank}) ERROR 05-01 10:00:20 [multiproc_executor.py:901]"
        lines.append(f"{head} WorkerProc failed to start.")
        for _ in range(2):
            lines += [
                f"{head} Traceback (most recent call last):",
                f'{head}   File "/opt/vllm/v1/worker/gpu_worker.py", line 200, in init_device',
                f"{head}     check(free)",
                f"{head} RuntimeError: too little memory is free on this device",
            ]
    assert "The same error from other processes: [L16, L25, L34 and 12 more]." in report(lines)


def test_a_check_is_a_sentence() -> None:
    old = Run(version=Value("0.8.5", "reported"), kind="server")
    bare = check_of_failure("`Loading model weights took N GB` on every rank.", old, "crashed_at_startup")
    assert bare == "The new log has the line `Loading model weights took N GB` on every rank."
    line = check_of_failure("`Starting to load model`.", old, "crashed_at_startup")
    assert line == "The new log has the line `Starting to load model`."
    said = "`pip check` names no conflict."
    assert check_of_failure(said, old, "crashed_at_startup") == said


def test_a_title_names_the_model_that_contains_the_one_that_failed() -> None:
    lines = core(
        "Traceback (most recent call last):",
        '  File "/opt/vllm/model_executor/models/lake_vision.py", line 2, in forward',
        "    hidden = self.language_model(tokens)",
        '  File "/opt/vllm/model_executor/models/lake.py", line 2, in forward',
        "    x = self.rotary(x)",
        '  File "/opt/vllm/model_executor/layers/rotary_embedding.py", line 2, in forward',
        "    return x.shape[9]",
        "IndexError: tuple index out of range",
    )
    assert "rotary_embedding.py, forward (model lake_vision)" in report(lines).split("\n")[0]


def test_the_line_that_names_the_signal_is_cited() -> None:
    api, engine = "(APIServer pid=7) INFO 05-01 10:09:00", "(EngineCore pid=9) INFO 05-01 10:09:00"
    lines = [
        "(APIServer pid=7) INFO 05-01 10:00:01 [api_server.py:1043] vLLM API server version 0.22.0",
        "(APIServer pid=7) INFO:     Application startup complete.",
        '(APIServer pid=7) INFO:     127.0.0.1:45102 - "POST /v1/completions HTTP/1.1" 200 OK',
        f"{api} [launcher.py:100] [shutdown] API server: shutdown triggered",
        f"{engine} [core.py:1313] [shutdown] EngineCore: trigger received signal=SIGTERM",
        "(APIServer pid=7) ERROR 05-01 10:09:00 [async_llm.py:704] AsyncLLM output_handler failed.",
        "(APIServer pid=7) ERROR 05-01 10:09:00 [async_llm.py:704] Traceback (most recent call last):",
        '(APIServer pid=7) ERROR 05-01 10:09:00 [async_llm.py:704]   File "/opt/vllm/v1/engine/core_client.py", line 1061, in f',
        "(APIServer pid=7) ERROR 05-01 10:09:00 [async_llm.py:704]     raise self._format_exception(outputs)",
        "(APIServer pid=7) ERROR 05-01 10:09:00 [async_llm.py:704] vllm.v1.engine.exceptions.EngineDeadError: see above",
    ]
    findings = vllm_logdoctor.analyze(lines).runs[0].findings
    stop = next(one for one in findings if one.id == "stopped-by-user-or-script")
    assert [one.line for one in stop.evidence][:2] == [4, 5]


def test_of_a_compiler_error_that_names_a_place_alone_the_exception_behind_it_is_quoted() -> None:
    lines = core(
        "EngineCore encountered a fatal error.",
        "Traceback (most recent call last):",
        '  File "/opt/triton/language/semantic.py", line 9, in arange',
        '    raise ValueError("the range must be a power of 2")',
        "ValueError: the range must be a power of 2",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        "Traceback (most recent call last):",
        '  File "/opt/vllm/attention/ops/lake_attention.py", line 9, in run',
        "    kernel[grid](a, b)",
        "triton.compiler.errors.CompilationError: at 67:13:",
    )
    text = report(lines)
    assert "`ValueError: the range must be a power of 2` [L7]" in text
    assert text.count("CompilationError") == 1


def test_a_program_that_only_its_traceback_shows_gets_arguments_of_the_class() -> None:
    def steps(place: str) -> str:
        return report(
            [
                "Traceback (most recent call last):",
                '  File "/home/me/test.py", line 14, in <module>',
                "    model = LLM(model=path)",
                f'  File "/opt/lib/python3.10/site-packages/vllm/{place}", line 242, in __init__',
                "    self.llm_engine = self.engine_class.from_engine_args(",
                '  File "/opt/lib/python3.10/site-packages/vllm/model_executor/model_loader/loader.py", line 8, in load_model',
                "    w = torch.empty(rows)",
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.75 GiB.",
            ]
        )

    assert "`tensor_parallel_size`" in steps("entrypoints/llm.py")
    assert "`--tensor-parallel-size`" in steps("engine/server.py")


def test_the_place_that_a_sentence_names_is_cited() -> None:
    lines = failed_to_start(
        '  File "/opt/vllm/v1/worker/lake.py", line 9, in check_shore',
        '    raise RuntimeError("the shore is too low")',
        "RuntimeError: the shore is too low",
    )
    text = report(lines)
    assert "lake.py, check_shore" in text
    assert "[L7, L5]." in text.split("\n1. ")[0]
    assert "What broke" not in text


def test_a_line_that_a_terminal_broke_is_quoted_from_its_beginning() -> None:
    lines = [
        "(EngineCore pid=316)     raise ValueError(",
        "(EngineCore pid=316) ValueError: To serve at least one request with the model's max seq len (4096), (4.26 GiB KV cach",
        "e is needed, which is larger than the available KV cache memory (4.25 GiB). Based on the avai",
    ]
    shown = next(line for line in report(lines).split("\n") if line.startswith("`"))
    assert shown.startswith("`ValueError: To serve")
    assert "KV cache is needed" in shown
    assert shown.endswith("[L2, L3]")


def test_a_progress_bar_is_no_part_of_the_message_behind_it() -> None:
    bar = "Processed prompts:   0%|          | 0/2 [00:00<?, ?it/s, est. speed input: 0.00 toks/s, output: 0.00 toks/s]"
    fault = ":0:rocdevice.cpp :3586: 19869 us: Callback: Queue 0x7b33 aborting with error : HSA_STATUS_ERROR_INVALID_ISA"
    lines = (Evidence("a.log", 1, f"{bar}{fault}"),)
    assert quoted(Finding("x", "failure", "high", "high", "t", "e", "root", lines))[0] == fault


def test_a_banner_and_a_loop_are_no_part_of_what_broke() -> None:
    lines = core(
        "EngineCore encountered a fatal error.",
        "Traceback (most recent call last):",
        '  File "/opt/vllm/v1/engine/core.py", line 1352, in run_engine_core',
        "    engine_core.run_busy_loop()",
        '  File "/opt/vllm/v1/worker/lake.py", line 12, in flow',
        "    y = pump(x)",
        "torch.AcceleratorError: CUDA error: unspecified launch failure",
        "CUDA kernel errors might be asynchronously reported at some other API call.",
        "Search for `cudaErrorLaunchFailure' in https://docs.example/cuda for more information.",
    )
    shown = report(lines)
    assert "Search for" not in shown
    assert "run_engine_core" not in shown


def test_a_program_never_prints_that_a_server_is_up() -> None:
    def check(place: str) -> str:
        return report(
            [
                "Traceback (most recent call last):",
                '  File "/home/me/test.py", line 14, in <module>',
                "    model = LLM(model=path)",
                f'  File "/opt/lib/python3.10/site-packages/vllm/{place}", line 242, in __init__',
                "    self.llm_engine = self.engine_class.from_engine_args(",
                '  File "/opt/lib/python3.10/site-packages/transformers/tokenization_utils_base.py", line 8, in load',
                "    return self.vocab.load(path)",
                "TypeError: not a string",
            ]
        )

    assert "Application startup complete" not in check("entrypoints/llm.py")
    assert "Application startup complete" in check("v1/engine/async_llm.py")


def test_a_title_ends_with_a_sentence_or_a_clause_of_the_error_and_not_in_its_middle() -> None:
    frame, code = '  File "/opt/site/rows.py", line 9, in pick', "    raise ValueError(words)"
    long = "ValueError: The shelf of this job has no room left for the rows that the loader picked"
    for rest, title in {
        ". Move the rows to another shelf of the same job, or give the loader fewer of them.": long,
        ": 13330546688 rows wanted by the loader and 20 given by the shelf of this job, which are too few": long,
    }.items():
        first = report(failed_to_start(frame, code, f"{long}{rest}")).split("\n")[0]
        assert first == f"# FAILED at start-up: {title}"


def test_what_a_new_log_is_to_show_is_not_said_of_this_one() -> None:
    text = report(
        failed_to_start("    frame", "    code", "ValueError: Unknown quantization method: no_such_method.")
    )
    (check,) = re.findall(r"^## To check after the fix\n\n(.*)", text, re.MULTILINE)
    assert check == "The weights load: `Model loading took N GiB`."
