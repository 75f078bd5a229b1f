"""Traceback blocks: lines of one traceback come together, whoever writes in between."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.failure.records import framed, raw, records_of, traceback
from vllm_logdoctor.run.blocks import blocks_of

OOM = traceback(
    ("load_model", "self.model = get_model()"), ends="torch.OutOfMemoryError: CUDA out of memory."
)
RESET = traceback(("all_reduce", "dist.all_reduce(x)"), ends="RuntimeError: Connection reset by peer")


def read(lines):
    return blocks_of(records_of("\n".join(lines)))


def interleaved(first, second, takes):
    first, second, mixed = list(first), list(second), []
    for from_first in takes:
        source = first if from_first and first else second or first
        if source:
            mixed.append(source.pop(0))
    return mixed + first + second


@given(st.lists(st.booleans(), max_size=20))
def test_blocks_do_not_depend_on_how_workers_interleave(takes):
    mixed = interleaved(framed("Worker_TP0 pid=1", OOM), framed("Worker_TP1 pid=2", RESET), takes)
    found = {block.process.pid: block.last_raised.statement for block in read(mixed)}
    assert found == {
        1: "torch.OutOfMemoryError: CUDA out of memory.",
        2: "RuntimeError: Connection reset by peer",
    }


@given(st.lists(st.booleans(), max_size=20))
def test_raw_lines_of_named_processes_interleave_as_well(takes):
    mixed = interleaved(raw("EngineCore pid=7", OOM), raw("APIServer pid=8", RESET), takes)
    assert sorted((block.process.pid, len(block.last_raised.frames)) for block in read(mixed)) == [
        (7, 1),
        (8, 1),
    ]


def test_a_logger_and_standard_error_of_one_process_are_two_streams():
    mixed = interleaved(
        framed("EngineCore pid=7", OOM, "core.py:700"), raw("EngineCore pid=7", RESET), [True, False] * 6
    )
    assert [bool(block.level) for block in read(mixed)] == [True, False]


def test_frames_and_code_of_a_traceback():
    (block,) = read(framed("Worker pid=1", OOM))
    (frame,) = block.last_raised.frames
    assert (frame.function, frame.line, frame.code) == ("load_model", 10, "self.model = get_model()")


def test_text_of_an_exception_over_several_lines():
    lines = traceback(
        ("init", "check()"), ends="ValidationError: 1 validation error\n  Value error, too long"
    )
    (block,) = read(framed("APIServer pid=1", lines))
    assert block.last_raised.text == "1 validation error\n  Value error, too long"


def test_chain_is_linked_first_raised_first():
    inner = traceback(("read", "open(path)"), ends="OSError: [Errno 122] Disk quota exceeded")
    outer = traceback(("compile", "run()"), ends="InductorError: Failed to run autotuning code block")
    linked = [*inner, "", "The above exception was the direct cause of the following exception:", "", *outer]
    (block,) = read(framed("EngineCore pid=1", linked))
    assert [(raised.name, raised.link) for raised in block.raised] == [
        ("OSError", ""),
        ("InductorError", "cause"),
    ]


def test_exception_while_another_was_handled():
    inner = traceback(("find", "table[name]"), ends="KeyError: 'newtype'")
    outer = traceback(("load", "find(name)"), ends="ValueError: model type is not known")
    linked = [*inner, "", "During handling of the above exception, another exception occurred:", "", *outer]
    (block,) = read(linked)
    assert [raised.link for raised in block.raised] == ["", "context"]


def test_text_of_a_remote_traceback_is_an_exception_of_its_own():
    remote = [
        *traceback(
            ("get", "ray.get(x)"), ends="ray.exceptions.RayTaskError(ValueError): ray::Worker.load() (pid=9)"
        ),
        '  File "/opt/vllm/worker/worker.py", line 5, in load',
        "    raise ValueError(text)",
        "ValueError: no such adapter",
    ]
    (block,) = read(remote)
    assert [(raised.name, raised.link) for raised in block.raised] == [
        ("RayTaskError", ""),
        ("ValueError", "echo"),
    ]


def test_two_tracebacks_in_a_row_are_two_blocks():
    assert len(read([*OOM, *RESET])) == 2


def test_the_line_before_introduces_a_block():
    (block,) = read(framed("EngineCore pid=1", ["EngineCore failed to start.", *OOM], "core.py:700"))
    assert block.announcement == "EngineCore failed to start."


def test_repr_of_an_exception_before_its_traceback_is_the_introduction():
    (block,) = read(framed("", ["RuntimeError('no GPU')", *OOM], "engine.py:400"))
    assert block.last_raised.name == "OutOfMemoryError"


def test_text_of_native_code_above_belongs_to_a_block():
    assertion = "/pytorch/Indexing.cu:12: indexSelect: block: [0,0,0] Assertion `a < b` failed."
    (block,) = read([assertion, *framed("EngineCore pid=1", OOM)])
    assert [record.message for record in block.native] == [assertion]


def test_a_traceback_whose_head_is_not_in_the_log():
    (block,) = read(OOM[1:])
    assert block.last_raised.name == "OutOfMemoryError"


def test_a_traceback_whose_end_is_not_in_the_log():
    (block,) = read(OOM[:-1])
    assert (block.last_raised.type, block.last_raised.frames[-1].function) == ("", "load_model")


def test_an_indented_traceback():
    (block,) = read(["        " + line for line in OOM])
    assert block.last_raised.name == "OutOfMemoryError"


def test_a_prompt_that_holds_a_traceback_is_none():
    request = "INFO 05-01 10:00:00 [logger.py:43] Received request cmpl-1: prompt: 'Explain this:"
    assert read([request, *OOM, "', params: SamplingParams(n=1)"]) == ()


def test_a_quoted_traceback_on_one_line_is_none():
    assert (
        read(["INFO 05-01 10:00:00 [x.py:1] text 'Traceback (most recent call last):\\n  File \"a.py\"'"])
        == ()
    )


def test_a_warning_that_names_an_exception_is_no_block():
    assert read(["WARNING 05-01 10:00:00 [x.py:1] ImportError: no optional package"]) == ()


def test_lines_folded_by_ray():
    folded = [
        f"{line} [repeated 7x across cluster]" for line in framed("RayWorkerWrapper pid=3, ip=10.0.0.1", OOM)
    ]
    (block,) = read(folded)
    assert block.last_raised.text == "CUDA out of memory."


def test_a_record_of_json_holds_its_whole_traceback():
    line = json.dumps(
        {"levelname": "ERROR", "message": "EngineCore failed to start.", "exc_info": "\n".join(OOM)}
    )
    (block,) = read([line])
    assert (block.last_raised.text, block.last_raised.frames[0].function) == (
        "CUDA out of memory.",
        "load_model",
    )
    assert block.last_raised.record.text == "torch.OutOfMemoryError: CUDA out of memory."


def test_a_stack_that_pybind_prints_below_the_exception_gives_its_places_outermost_first():
    (block,) = read(
        [
            "Traceback (most recent call last):",
            '  File "/opt/app/serve.py", line 31, in <module>',
            "    llm.generate(prompts)",
            "RuntimeError: KeyError: 'num_hidden_layers'",
            "",
            "At:",
            "  /opt/vllm/config.py(120): get_num_layers",
            "  /opt/app/plugin.py(12): load",
            "",
        ]
    )
    raised = block.last_raised
    assert raised.text == "KeyError: 'num_hidden_layers'"
    assert [(frame.function, frame.line) for frame in raised.frames] == [
        ("<module>", 31),
        ("load", 12),
        ("get_num_layers", 120),
    ]


def test_a_repr_that_the_logger_prints_above_its_traceback_is_part_of_it_and_the_line_before_introduces_both():
    repr_and_traceback = framed("EngineCore pid=7", ["RuntimeError('no room')", *RESET])
    (alone,) = read(repr_and_traceback)
    assert alone.introduction.message == "RuntimeError('no room')"
    (introduced,) = read([*framed("EngineCore pid=7", ["The worker gave up:"]), *repr_and_traceback])
    assert introduced.introduction.message == "The worker gave up:"
    assert introduced.last_raised.statement == "RuntimeError: Connection reset by peer"


@pytest.mark.parametrize(
    "code", ["raise E(M)", "raise RuntimeError(CUDA_MISMATCH.format(compiler, torch.version.cuda, advice))"]
)
def test_a_copy_whose_first_line_lost_its_indentation_has_its_exception(code: str) -> None:
    text = (
        'File "/tmp/build/overlay/torch/utils/cpp_extension.py", line 387, in check_version\n'
        f"          {code}\n"
        "      RuntimeError: the compiler is of CUDA 12.2, PyTorch of 11.7: use one for both"
    )
    (block,) = blocks_of(records_of(text))
    assert block.last_raised.name == "RuntimeError"
    assert block.last_raised.text.startswith("the compiler is of CUDA 12.2")
