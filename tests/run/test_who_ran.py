"""Who ran: engine generation, platform and kind by the first thing that tells them; and what one line of a traceback is."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

import vllm_logdoctor
from tests.rules.making import event, record
from tests.tables import for_each
from vllm_logdoctor.knowledge.call_sites import FittingReleases
from vllm_logdoctor.knowledge.versions import known_versions
from vllm_logdoctor.parse import Process
from vllm_logdoctor.run.identity import (
    engine_generation,
    is_inferred,
    is_same_model,
    kind_of_run,
    model_of,
    platform_of,
    release_ends,
    release_words,
    releases_span,
)
from vllm_logdoctor.run.model import Evidence, Occurrences, Value
from vllm_logdoctor.run.tracelines import (
    ExceptionLine,
    FrameLine,
    cleaned,
    exception_line,
    exception_repr,
    exception_within,
    frame_line,
    is_native,
    link_line,
    marked_code,
    native_above,
    notebook_type,
    opens,
    stack_line,
)

CORE = Process("EngineCore", pid=2, role="engine-core")
API = Process("APIServer", pid=1, role="api-server")
GPU_WORKER = {("vllm/v1/worker/gpu_worker.py", 298): "x"}
PLUGIN = "Platform plugin {} is activated"
DETECTED = "Automatically detected platform {}."


def built(
    *messages: str, sites: dict[Any, str] | None = None, hints: dict[str, int] | None = None, processes: tuple[Process, ...] = (),
    engine: dict[str, Any] | None = None, arguments: dict[str, Any] | None = None, complete: bool = True, accesses: bool = False,
) -> Any:  # fmt: skip
    """What is known when a run is put together, as far as a test is about it."""
    seen: dict[str, Occurrences] = {}
    for text in messages:
        one = event(text)
        seen.setdefault(one.pattern.id, Occurrences([one], one, 1))
    line = Evidence("vllm.log", 1, "x")
    stated = SimpleNamespace(
        engine=engine or {}, engine_evidence=(line,), arguments=arguments or {}, arguments_call="", arguments_complete=complete, arguments_evidence=(line,)
    )  # fmt: skip
    return SimpleNamespace(
        messages=seen, call_sites=sites or {}, platform_hints=Counter(hints or {}), first_hints={}, processes=processes, stated=stated,
        accesses={("GET", "/", 200): 1} if accesses else {}, evidence=lambda _: line,
    )  # fmt: skip


ENGINE_V1 = "Initializing a V1 LLM engine (v0.11.0) with config: model='org/tiny', dtype=torch.float16"
FALLBACK = "--kv-cache-dtype is not supported by the V1 Engine. Falling back to V0."


@for_each(
    ("builder", "version", "generation"),
    [
        (built(ENGINE_V1), None, "V1"),
        (built(FALLBACK, processes=(CORE,)), None, "V0"),
        (built(processes=(CORE,)), None, "V1"),
        (built(processes=(API,)), None, None),
        (built(sites={("v1/engine/core.py", 9): "x"}), None, "V1"),
        (built(sites={("engine/llm_engine.py", 9): "x"}), None, None),
        (built(), "0.11.0", "V1"),
        (built(), "0.10.2", None),
        (built(), "0.6.4", "V0"),  # printed, and V1 was not the default before 0.8
        (built(), "0.6.3", "V0"),
        (built(hints={"V0": 2, "V1": 1}), "0.9.0", "V0"),
        (built(hints={"V0": 1, "V1": 2}), "0.7.0", "V1"),
        (built(hints={"V0": 1, "V1": 1}), "0.9.0", None),
        (built(), "0.8.0", None),
        (built(), None, None),
    ],
)
def test_the_engine_generation(builder: Any, version: str | None, generation: str | None) -> None:
    assert engine_generation(builder, Value(version, "reported") if version else None)[0] == generation


@for_each(
    ("builder", "version", "platform"),
    [
        (built(PLUGIN.format("ascend"), DETECTED.format("cuda")), None, "npu"),
        (built(DETECTED.format("rocm"), sites=GPU_WORKER), None, "rocm"),
        (built(sites={("vllm/platforms/rocm.py", 1): "x"}), None, "rocm"),
        (built(sites={("vllm/worker/npu_worker.py", 1): "x"}), None, "npu"),
        (built(sites={("vllm/v1/worker/cpu_worker.py", 1): "x"}), None, "cpu"),
        (built(sites={("gpu_worker.py", 298): "x"}), None, "cuda"),
        (built(sites={("gpu_worker.py", 298): "x"}, hints={"rocm": 2, "cuda": 1}), None, "rocm"),
        (built(sites={("gpu_worker.py", 298): "x"}, hints={"rocm": 1, "cuda": 1}), None, "cuda"),
        (built(), "0.11.0+cpu", "cpu"),
        (built(), "0.11.0+g1234.rocm", "rocm"),
        (built(engine={"device_config": "cuda:1"}), None, "cuda"),
        (built(engine={"device_config": "cuda"}, hints={"rocm": 2, "cuda": 1}), None, "rocm"),
        # PyTorch for ROCm has its devices in torch.cuda, too.
        (built(engine={"device_config": "cuda"}, hints={"rocm": 1, "torch-cuda": 9}), None, "rocm"),
        (built(hints={"torch-cuda": 1}), None, "cuda"),
        (built(engine={"device_config": "cpu"}, hints={"npu": 1}), None, "npu"),
        (built(engine={"device_config": "cpu"}, hints={"npu": 1, "cpu": 1}), None, "cpu"),
        (built(hints={"npu": 1, "cuda": 1}), None, "npu"),
        (built(hints={"npu": 1, "cuda": 2}), None, "cuda"),
        (built(hints={"rocm": 2, "cuda": 2}), None, "rocm"),
        (built(hints={"rocm": 1, "cuda": 2}), None, "cuda"),
        (built(hints={"cpu": 1}), None, "cpu"),
        (built(hints={"cpu": 1, "cuda": 1}), None, "cuda"),
        (built(hints={"no-platform": 1, "cuda": 1}), None, None),
        (built(hints={"no-gpu": 1, "no-cuda-runtime": 1}), None, "cpu"),
        (built(hints={"no-gpu": 1}), None, None),
        (built(), None, None),
    ],
)
def test_the_platform(builder: Any, version: str | None, platform: str | None) -> None:
    assert platform_of(builder, Value(version, "reported") if version else None)[0] == platform


@pytest.mark.parametrize(
    ("builder", "kind"),
    [
        (built("vLLM API server version 0.11.2"), "server"),
        (built(accesses=True), "server"),
        (built(processes=(API,)), "server"),
        (built(processes=(CORE,)), "unknown"),
        (built(arguments={"port": 8000}), "server"),
        (built(arguments={"port": 8000}, complete=False), "unknown"),
        (built(arguments={"model_tag": "m"}, complete=False), "server"),
        (built(engine={"model": "m"}), "offline"),
        # A program that starts API servers of its own is none, and no program that only calls the engine.
        (built(engine={"model": "m"}, sites={("entrypoints/openai/api_server.py", 9): "x"}), "unknown"),
        (built(), "unknown"),
    ],
)
def test_a_server_or_an_offline_engine(builder: Any, kind: str) -> None:
    assert kind_of_run(builder) == kind


@pytest.mark.parametrize(
    ("arguments", "engine", "model", "provenance"),
    [
        ({"model": "org/a"}, {"model": "org/a"}, "org/a", "explicit"),
        ({"model": "org/a"}, {}, "org/a", "explicit"),
        ({"model": "org/a"}, {"model": "/cache/a"}, "/cache/a", "reported"),
        ({"model_tag": "org/b"}, {}, "org/b", "explicit"),
        ({}, {"model": "org/a"}, "org/a", "reported"),
    ],
)
def test_the_model(arguments: dict[str, Any], engine: dict[str, Any], model: str, provenance: str) -> None:
    found = model_of(built(arguments=arguments, engine=engine))
    assert found is not None
    assert (found.value, found.provenance) == (model, provenance)
    assert model_of(built()) is None


def test_names_of_one_model_and_words_of_a_release() -> None:
    assert is_same_model("org/Model-8B", "/data/model-8b/")
    assert is_same_model("/x/snapshots/model-8b-instruct", "org/Model-8B")
    assert not is_same_model("org/model-8b", "org/model-70b")
    inferred = Value("0.6.1", "derived", (), "0.5.0 to 0.6.1, from 2 of 2 call sites")
    installed = Value("0.6.1", "derived", (Evidence("x", 1, ""),), "from an installer's line")
    assert [is_inferred(one) for one in (inferred, installed, Value("0.6.1", "reported"))] == [
        True,
        False,
        False,
    ]
    assert [release_words(one) for one in (inferred, installed)] == ["0.5.0 to 0.6.1", "0.6.1"]
    holed = Value("0.9.2", "derived", (), "0.9.0, 0.9.0.1, 0.9.2, from 2 of 2 call sites")
    assert release_ends(holed) == ("0.9.0", "0.9.2")


def test_no_release_is_named_that_the_log_excludes() -> None:
    known = known_versions()
    whole, holed = known[2:5], (known[2], known[4])
    spans = [releases_span(FittingReleases(one[0], one[-1], one, 2, 2)) for one in (whole, holed, known[2:3])]
    assert spans == [f"{known[2]} to {known[4]}", f"{known[2]}, {known[4]}", str(known[2])]


@for_each(
    ("text", "strict", "expected"),
    [
        ("ValueError: no such file", True, ExceptionLine("ValueError", "no such file")),
        ("torch.OutOfMemoryError: CUDA out of memory", True, ExceptionLine("torch.OutOfMemoryError", "CUDA out of memory")),
        ("ray.exceptions.RayTaskError(RuntimeError): ray::f()", True, ExceptionLine("ray.exceptions.RayTaskError", "ray::f()", "RuntimeError")),
        ("KeyboardInterrupt", True, ExceptionLine("KeyboardInterrupt", "")),
        ("RuntimeError", True, ExceptionLine("RuntimeError", "")),
        ("queue.Empty", True, ExceptionLine("queue.Empty", "")),
        ("Empty", True, None),  # a word of its own ends like many exceptions
        ("Empty", False, ExceptionLine("Empty", "")),
        ("TimeoutException", True, None),
        ("Note: this is fine", True, None),
        ("Note: this is fine", False, ExceptionLine("Note", "this is fine")),
        ("note: this is fine", False, None),
        ("socket.gaierror: [Errno -2]", True, ExceptionLine("socket.gaierror", "[Errno -2]")),
        ("two words: x", False, None),
    ],
)  # fmt: skip
def test_the_exception_that_a_line_names(text: str, strict: bool, expected: ExceptionLine | None) -> None:
    assert exception_line(text, strict=strict) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('  File "/opt/vllm/x.py", line 5, in load', FrameLine("/opt/vllm/x.py", 5, "load")),
        ('  File "/opt/vllm/x.py", line 5', FrameLine("/opt/vllm/x.py", 5, "")),
        ('  File "/opt/vllm/x.py", l', FrameLine("/opt/vllm/x.py", 0, "")),
        ("File ~/x/llm_engine.py:133, in LLMEngine.__init__(self)", FrameLine("~/x/llm_engine.py", 133, "LLMEngine.__init__")),
        ("vllm/loader.py:269: in load_weights", FrameLine("vllm/loader.py", 269, "load_weights")),
        ("/usr/lib/vllm/worker.py in execute_model(self, request)", FrameLine("/usr/lib/vllm/worker.py", 0, "execute_model")),
        ("see loader.py: it loads", None),
        ("File not found", None),
    ],
)  # fmt: skip
def test_the_place_that_a_line_names(text: str, expected: FrameLine | None) -> None:
    assert frame_line(text) == expected


@pytest.mark.parametrize(
    ("text", "before"),
    [
        ("Traceback (most recent call last):", ""),
        ("Engine failed: Traceback (most recent call last):", "Engine failed:"),
        ("Exception Group Traceback (most recent call last):", ""),
        ("RuntimeError                    Traceback (most recent call last)", ""),
        ("'Traceback (most recent call last):", None),
        ("Traceback (most recent call last): and what now?", None),
        ("nothing", None),
    ],
)
def test_the_opening_of_a_traceback(text: str, before: str | None) -> None:
    assert opens(text) == before


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("KeyError: 'x' [repeated 7x across cluster]", "KeyError: 'x'"),
        ("ERROR [core.py:1330] text", "text"),
        ("#12 34.51 Traceback", "Traceback"),
        ("> > RuntimeError: quoted", "RuntimeError: quoted"),
        ("E       KeyError: 'x'", "KeyError: 'x'"),
        ("  | Traceback", "Traceback"),
        ("│ /opt/x.py:133 in __init__   │", "/opt/x.py:133 in __init__"),
        ('time="10:00" level=error msg="  File \\"/x.py\\", line 5"', '  File "/x.py", line 5'),
        ("  what():  ValueError: too many", "ValueError: too many"),
        ("plain text", "plain text"),
    ],
)  # fmt: skip
def test_what_frames_a_line_is_taken_away(text: str, plain: str) -> None:
    assert cleaned(text) == plain


def test_other_lines_of_a_traceback() -> None:
    assert link_line("The above exception was the direct cause of the following exception:") == "cause"
    assert link_line("During handling of the above exception, another exception occurred:") == "context"
    assert link_line("Something else:") == ""
    assert notebook_type("KeyError                 Traceback (most recent call last)") == "KeyError"
    assert notebook_type("Traceback (most recent call last)") == ""
    assert marked_code("---> 247         x = y") == "x = y"
    assert marked_code("247         x = y") == ""
    assert stack_line("  /opt/vllm/config.py(120): f") == FrameLine("/opt/vllm/config.py", 120, "f")
    assert stack_line("/opt/vllm/config.py:120") is None
    assert exception_repr("RuntimeError('no GPU')") == ExceptionLine("RuntimeError", "no GPU")
    assert exception_repr("RuntimeError: no GPU") is None
    assert exception_within("load failed: ValueError: no such format") == ExceptionLine(
        "ValueError", "no such format"
    )
    assert exception_within("Warning: it says ValueError: no such format") is None


def test_native_text_belongs_to_a_block_sixty_lines_below_it() -> None:
    near, far = (
        record("Segmentation fault (core dumped)", 41, ""),
        record("Segmentation fault (core dumped)", 40, ""),
    )
    framed, plain = record("Segmentation fault (core dumped)", 50, "ERROR"), record("a plain line", 51, "")
    block = record("Traceback (most recent call last):", 101, "")
    assert [is_native(one) for one in (near, framed, plain)] == [True, False, False]
    assert native_above([far, near, framed, plain, block], 4, [0, 1, 2, 3]) == (near,)


ADDED = "INFO 05-01 10:00:00 async_llm_engine.py:208] Added request r1."
FAILED = [
    "Traceback (most recent call last):",
    '  File "{file}", line 9, in <module>',
    "    asyncio.run(main())",
    '  File "/opt/lib/python3.11/site-packages/vllm/engine/async_llm_engine.py", line 8, in step_async',
    "    output = await self.execute()",
    "AssertionError",
]


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("/home/me/stream.py", "unknown"),
        ("/opt/lib/python3.11/site-packages/vllm/entrypoints/openai/api_server.py", "server"),
    ],
)
def test_requests_of_an_engine_inside_a_program_are_of_no_server(file: str, kind: str) -> None:
    lines = [ADDED, *(line.format(file=file) for line in FAILED)]
    assert vllm_logdoctor.analyze(lines).runs[0].run.kind == kind


def test_the_line_that_shows_the_engine_is_kept_where_the_release_leaves_it_open() -> None:
    frame = '  File "/opt/vllm/vllm/engine/multiprocessing/engine.py", line 380, in run_mp_engine\n'
    head = "INFO 02-17 19:14:31 api_server.py:840] vLLM API server version {}\nINFO 02-17 19:14:32 api_server.py:206] loading\n"
    (open_,) = vllm_logdoctor.analyze((head.format("0.7.2") + frame).encode()).runs
    (told,) = vllm_logdoctor.analyze((head.format("0.5.1") + frame).encode()).runs
    assert (open_.run.engine, [one.line for one in open_.run.engine_evidence]) == ("V0", [3])
    assert (told.run.engine, told.run.engine_evidence) == ("V0", ())
    assert (
        "0.7.2, V0 engine | [L1, L3]"
        in vllm_logdoctor.analyze((head.format("0.7.2") + frame).encode()).to_markdown()
    )
