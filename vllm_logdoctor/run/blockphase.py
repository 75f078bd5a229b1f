"""What a process was doing when a block was raised, read from the functions of its frames."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.run.blocks import Block, Frame
from vllm_logdoctor.run.owners import BUILD, PROGRAM, TENSOR_LIBRARIES, VLLM, is_file_of_vllm, owner_of

BlockPhase = Literal[
    "", "import", "configuration", "distributed-init", "load-weights", "profiling", "sampler-warm-up", "kv-cache",
    "graph-capture", "warm-up", "wake-up", "serving",
]  # fmt: skip

# Function names, the deepest phase first: a capture runs inside the warm-up, a profile run inside the KV cache setup.
_FUNCTIONS: tuple[tuple[BlockPhase, str], ...] = (
    ("wake-up", r"wake_up|resume_memory_occupation"),
    ("sampler-warm-up", r"_dummy_sampler_run|warm_?up_sampler|_dummy_pooler_run\w*"),
    ("graph-capture", r"capture_model|capture_graphs?|_capture_cudagraphs|capture|warming_up_model"
        r"|graph_capture|profile_cudagraph_memory|capture_decode_graph|capture_begin|capture_end"),
    ("profiling", r"profile_run|determine_available_memory|determine_num_available_blocks"
        r"|_dummy_mm_\w+|profile_num_available_blocks"),
    ("warm-up", r"kernel_warmup|compile_or_warm_up_model|warm_?up_model|flashinfer_autotune"
        r"|deep_gemm_warmup|warm_up\w*"),
    ("load-weights", r"load_model|load_weights|initialize_model|_initialize_model|_init_model"
        r"|get_model|create_weights|process_weights_after_loading|download_model"
        r"|download_and_prepare_model"),
    ("kv-cache", r"initialize_kv_cache\w*|_allocate_kv_cache\w*|initialize_cache|_initialize_kv_caches"
        r"|get_kv_cache_configs?|check_enough_kv_cache_memory|raise_if_cache_size_invalid"
        r"|initialize_from_config|register_kv_caches|_?init_cache(?:_engine)?"),
    ("serving", r"run_busy_loop|_process_engine_step|run_engine_loop|engine_step"
        r"|start_worker_execution_loop|step_with_batch_queue|_run_engine|run_engine|generate"
        r"|output_handler|process_input_sockets|execute_model|execute_model_req|step_async"
        r"|worker_busy_loop"),
    ("distributed-init", r"init_device|init_worker_distributed_environment"
        r"|init_distributed_environment|init_process_group|initialize_model_parallel"
        r"|ensure_model_parallel_initialized|init_model_parallel_group|ncclCommInitRank|_init_workers_ray"
        r"|initialize_ray_cluster|_wait_until_pg_ready|create_worker|init_worker"),
    ("configuration", r"create_engine_config|create_model_config|create_speculative_config"
        r"|from_cli_args|__post_init__|get_config|validate_(?!structured|request|prompt|xgrammar)\w+|verify_\w+|_verify_\w+|parse_args|make_arg_parser"
        r"|get_tokenizer|cached_tokenizer_from_config"),
)  # fmt: skip
# A code generator's own `generate` and `capture` say nothing of what the engine did.
_COMPILER = lazy_pattern(r"torch/(?:_inductor|_dynamo|_functorch|fx)/")
_COMPILED = tuple((phase, lazy_pattern(rf"(?:{names})$")) for phase, names in _FUNCTIONS)
_IN_SERVING = lazy_pattern(
    r"(?:run_busy_loop|_process_engine_step|run_engine_loop|start_worker_execution_loop|_run_engine"
    r"|run_engine|output_handler)$"
)
_STARTS = lazy_pattern(
    r"(?:_initialize_kv_caches|determine_\w+|profile_run|load_model|capture_model|compile_or_warm_up_model"
    r"|_init_executor|init_device|_dummy_run)$"
)
# EngineCore encountered a fatal error.    AsyncLLM output_handler failed.    Engine background task failed
_ANNOUNCED: tuple[tuple[BlockPhase, re.Pattern[str]], ...] = (
    (
        "serving",
        lazy_pattern(
            r"encountered a fatal error|output_handler failed|Engine background task failed"
            r"|start_worker_execution_loop|method '?execute_model|EngineCore hit an exception"
        ),
    ),
    ("profiling", lazy_pattern(r"determine_(?:num_available_blocks|available_memory)")),
    ("load-weights", lazy_pattern(r"method '?load_model")),
    ("distributed-init", lazy_pattern(r"method '?init_(?:device|worker)")),
)


def phase_of_block(block: Block) -> BlockPhase:
    """Return what was going on, or "" where neither frames nor the announcement tell."""
    return phase_shown(block)[0]


def phase_shown(block: Block) -> tuple[BlockPhase, Record | None]:
    """Return what was going on, and the line that tells it."""
    frames = [frame for one in block.raised for frame in one.frames if not _COMPILER.search(frame.file)]
    functions = {_function(frame): frame.record for frame in frames}
    serving = next((name for name in functions if _IN_SERVING.match(name)), None)
    if serving is not None and not any(_STARTS.match(name) for name in functions):
        woken = functions.get("wake_up")
        return ("wake-up", woken) if woken is not None else ("serving", functions[serving])
    # A trainer and a client have a `generate` of their own.
    own = any(is_file_of_vllm(frame.file) for frame in frames)
    telling = {_function(frame): frame.record for frame in _without_packages(frames)}
    for phase, names in _COMPILED:
        told_by = telling if phase != "serving" or own else {}
        told = next((record for name, record in told_by.items() if names.match(name)), None)
        if told is not None:
            return phase, told
    announced = next((phase for phase, words in _ANNOUNCED if words.search(block.announcement)), None)
    if announced and not (announced == "serving" and is_of_start(block)):
        return announced, block.introduction
    loading = next((frame.record for frame in frames if _is_of_loading(frame)), None)
    if loading is not None:
        return "load-weights", loading
    return ("import", frames[-1].record) if _imports(frames) else ("", None)


def _is_of_loading(frame: Frame) -> bool:
    """Return whether a frame is of the loader of weights, or builds a model or one of its layers."""
    builds = _function(frame) == "__init__" and _MODEL_FILES.search(frame.file)
    return bool(builds or _LOADER_FILES.search(frame.file))


def _without_packages(frames: Sequence[Frame]) -> Sequence[Frame]:
    """Return the frames whose functions tell a phase: beside vLLM's own, packages such as trainers name other things alike."""
    owners = [owner_of(frame.file) for frame in frames]
    if not any(owner.startswith(VLLM) for owner in owners):
        return frames
    return [
        frame
        for frame, owner in zip(frames, owners, strict=True)
        if owner.startswith(VLLM) or owner in TENSOR_LIBRARIES or owner == PROGRAM
    ]


# vllm/model_executor/models/llama.py, in __init__: the model is built, and its weights get their places
_MODEL_FILES = lazy_pattern(r"vllm\w*/model_executor/(?:models|layers|parallel_utils)/")
_LOADER_FILES = lazy_pattern(r"vllm\w*/model_executor/model_loader/")
_IMPORT = lazy_pattern(r"(?:from|import) ")
_IMPORTERS = frozenset({"_call_with_frames_removed", "import_module", "_gcd_import", "exec_module"})


def _imports(frames: list[Frame]) -> bool:
    """Return whether the innermost frames import a module; the outermost one of a script, which calls its main function, does not.

    Where a frame shows no code, only that of an installed module is an import: a script does its work at that level.
    """
    modules = (frame for frame in frames[-6:] if frame.function == "<module>")
    imported = (
        _IMPORT.match(one.code) if one.code else owner_of(one.file) not in (PROGRAM, BUILD) for one in modules
    )
    return any(imported) or any(frame.function in _IMPORTERS for frame in frames)


# What is constructed while an engine or a server starts: vllm/v1/engine/core.py, in __init__
_ENGINE_FILES = lazy_pattern(
    r"vllm/(?:v1/)?(?:engine|executor|entrypoints)/.*\.py$|vllm/(?:v1/)?worker/\w+\.py$|vllm\w*/model_executor/(?:models|layers)/"
)
_CONSTRUCTORS = frozenset(
    {"__init__", "from_engine_args", "from_vllm_config", "_init_executor", "run_mp_engine", "_dummy_run", "make_client", "launch_core_engines"}
)  # fmt: skip
# parser.add_argument("--port", type=int)      args = parser.parse_args()
_PARSING_CODE = lazy_pattern(r"(?:\w+ = )?parser\.(?:add|parse)_\w+\(")
# uvloop.run(run_server(args))     (a server that is up ends without a traceback of its own)
# engine_core = EngineCoreProc(*args, **kwargs)      llm = LLM(model="x")      from vllm import LLM, SamplingParams
_STARTING_CODE = lazy_pattern(
    r"(?:uvloop|asyncio)\.run\(run_server\(|(?:\w+ = )?(?:vllm\.)?(?:LLM|EngineCoreProc|AsyncLLM|(?:Async)?LLMEngine)\(|(?:from|import) vllm\b"
)


def is_of_start(block: Block) -> bool:
    """Return whether frames are of the construction of an engine, a worker or a model, which only happens at the start."""
    frames = [frame for one in block.raised for frame in one.frames]
    return any(
        _STARTING_CODE.match(frame.code)
        or (
            (_function(frame) in _CONSTRUCTORS or _PARSING_CODE.match(frame.code))
            and _ENGINE_FILES.search(frame.file)
        )
        for frame in frames
    )


def _function(frame: Frame) -> str:
    return frame.function.rpartition(".")[2].partition("(")[0]


# Words of messages that tell a phase, the latest of a start first.
_MARKS: tuple[tuple[str, BlockPhase], ...] = (
    ("Application startup complete", "serving"),
    ("Avg prompt throughput", "serving"),
    ("Processed prompts:", "serving"),
    ("init engine (profile, create kv cache", "serving"),
    ("Capturing CUDA graph", "graph-capture"),
    ("Capturing cudagraphs", "graph-capture"),
    ("Capturing the model for CUDA graphs", "graph-capture"),
    ("GPU KV cache size", "warm-up"),
    ("# GPU blocks", "warm-up"),
    ("# cuda blocks", "warm-up"),
    ("Dynamo bytecode transform time", "profiling"),
    ("Compiling a graph for", "profiling"),
    ("Model loading took", "profiling"),
    ("Loading model weights took", "profiling"),
    ("Loading weights took", "load-weights"),
    ("Loading safetensors checkpoint shards", "load-weights"),
    ("Starting to load model", "load-weights"),
    ("vLLM is using nccl", "distributed-init"),
    ("world_size=", "distributed-init"),
    ("Initializing a V1 LLM engine", "distributed-init"),
    ("Initializing an LLM engine", "distributed-init"),
    ("Resolved architecture", "configuration"),
    ("Automatically detected platform", "configuration"),
    ("No platform detected", "configuration"),
)


def phase_of_message(message: str) -> BlockPhase:
    """Return what was going on when a message was written, or "" for most messages."""
    return next((phase for words, phase in _MARKS if words in message), "")


def step_of_message(message: str) -> int:
    """Return how far a start was when a message was written: later messages have larger numbers, 0 for most.

    >>> step_of_message("Model loading took 14.99 GiB") > step_of_message("Starting to load model m...") > 0
    True
    """
    return next((len(_MARKS) - place for place, (words, _) in enumerate(_MARKS) if words in message), 0)
