"""What a traceback block is to its run: an error, a wrapper of another's error, a failed request, noise or a stop."""

from __future__ import annotations

from typing import Literal

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.run.blocks import Block, Raised
from vllm_logdoctor.run.owners import VLLM, is_file_of_vllm, owner_of

BlockKind = Literal["error", "wrapper", "request", "noise", "stop"]

# RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
# Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause.
# RuntimeError: cancelled      (a queue has to give up because the process at its other end is gone)
# vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.
# RuntimeError: StageDiffusionProc died during handshake (exit code 1)
# ValueError: Model architectures ['X'] failed to be inspected. Please check the logs for more details.   (its module failed to import)
WRAPPER = lazy_pattern(
    r"Engine ?[Cc]ore initialization failed|Engine (?:core |process )?failed to start"
    r"|See (?:the )?(?:root cause|stack ?trace)|Model architectures .{1,120} failed to be inspected"
    r"|EngineDeadError|Background loop (?:has errored already|is not running)|Engine loop is not running"
    r"|Engine loop has died"
    r"|MQLLMEngine is already dead|Task finished unexpectedly\. This should never happen"
    r"|initialization failed due to an exception"
    r"|Executor failed|Engine background task failed|core proc(?:ess)?(?:es|\(s\))? .{0,80}(?:failed|died)"
    r"|ChildProcessError: worker died"
    r"|One or more (?:engine|worker) .{0,40}(?:died|failed)|ProcessExitedException|ChildFailedError"
    r"|unhandled errors in a TaskGroup"
    r"|^RuntimeError: (?:cancelled|Worker failed|One or more workers failed|Engine is dead\.?)$"
    r"|(?:EngineCoreProc|WorkerProc|DP Coordinator process) failed (?:to start|during startup|to report)"
    r"|Process \S+ \(PID: \d+\) died with exit code"
    r"|\w*(?:Proc|Process|Worker) (?:died|exited) (?:during|before|while|in) .{1,60}\(exit ?code:? ?-?\d+\)"
    r"|Engine exited unexpectedly|API server process .{0,60}died|EngineGenerateError"
)
# RuntimeError: Worker failed with error 'CUDA error: out of memory', please check the stack trace above for the root cause
ECHO = lazy_pattern(
    r"Worker failed with error|(?:RayTaskError|RayActorError|ActorDiedError|WorkerCrashedError)\b"
    r"|Executor failed|Call to \w+ method failed"
)
_STOP_TYPES = frozenset({"KeyboardInterrupt", "SystemExit", "GeneratorExit"})
_NOISE_ANNOUNCED = lazy_pattern(
    r"^Exception ignored (?:in|while)|Task exception was never retrieved|Task was destroyed"
    r"|Chat template warmup failed|Failed to load plugin"
    r"|Error while shutting down|Failed to (?:import|load) .{0,60}(?:optional|extension)|^Error in atexit"
    r"|Error in sys.excepthook|usage (?:stats|message|report)"
    r"|Future exception was never retrieved|Exception in thread Thread-\d+ \(_report_usage|TraceGraph"
    r"|socket\.send\(\) raised|^future: <Task|Error saving model info cache"
)
_OF_ENGINE = lazy_pattern(r"(?i)vllm|engine|worker|model|token|torch|cuda|hip\b|nccl|gpu|memory|device")
_NOISE_EXCEPTION = lazy_pattern(
    r"asyncio\.exceptions\.CancelledError|^CancelledError|can't create new thread at interpreter shutdown"
    r"|cannot schedule new futures after"
    r"|'LLM' object has no attribute 'llm_engine'|has no attribute 'ensure_kv_transfer_shutdown'"
    r"|HandlerFileNotFoundError"
    r"|Event loop is closed|sys\.meta_path is None|ResourceTracker|leaked (?:semaphore|shared_memory)"
    r"|papermill\.exceptions|TBE Subprocess\["
    r"|cannot join thread|^zmq\.error\.(?:ContextTerminated|ZMQError: (?:Context was terminated"
    r"|Socket operation on non-socket))"
)
_NOISE_FUNCTIONS = frozenset(
    {"__del__", "_exit_function", "_run_finalizers", "_shutdown", "__exit__ (atexit)"}
)
_REQUEST_ANNOUNCED = lazy_pattern(
    r"Exception in ASGI application|Error in preprocessing prompt inputs|Error in (?:applying"
    r"|loading) (?:the )?chat template|Error with model .{0,200}object="
    r"|Error in (?:chat|text) ?completion|Error in (?:request|reasoning|tool|extracting|response)"
    r"|Failed to (?:process|parse|decode|load) (?:request|image|audio|video|multimodal)"
    r"|Request \S+ failed|Error (?:creating|in handling|while handling|processing) (?:a )?request"
    r"|Exception in (?:generate|beam_search|create_)\w*|Invalid (?:request|prompt|json)"
    r"|Unable to (?:parse|extract)|Failed to generate tool|Error trying to handle streaming"
    r"|Error in (?:generator|stream)|Validation error"
)
_REQUEST_SITES = lazy_pattern(
    r"(?:^|/)(?:serving|serving_\w+|protocol|chat_utils|speech_to_text|tool_parsers?|\w+_tool_parser"
    r"|reasoning|preprocess|base|server_utils|api_utils|batch_serving)\.py$"
)
_REQUEST_FRAMES = lazy_pattern(r"(?:starlette|fastapi)/routing\.py|starlette/middleware")
# vllm/engine/async_llm_engine.py, line 529, in engine_step      vllm/worker/model_runner.py, in execute_model
_ENGINE_STEP = lazy_pattern(
    r"(?:\w+\.)?(?:run_engine_loop|engine_step|step_async|execute_model|run_busy_loop|worker_busy_loop)$"
)
_WEB_FRAMES = lazy_pattern(r"(?:starlette|fastapi|uvicorn|anyio)/")
# /app/hermes_tool_parser.py      vllm/entrypoints/openai/tool_parsers/hermes.py: what the model wrote can't be read
_PARSER_FRAMES = lazy_pattern(r"tool_parsers?\b|reasoning_parsers?\b|/reasoning/")
# What connectors log of one peer or one transfer, and go on:
# Handshake with 7f3a-engine failed      NIXL transfer failed for request cmpl-1 with state ERR. Marking blocks as invalid.
# Write task failed for request cmpl-1, marking done      nixl-push-writer error; continuing
_TRANSFER_ANNOUNCED = lazy_pattern(
    r"^Handshake (?:with|failed for)|^Failed handshake to|^NIXL (?:transfer|send_notif|handshake)|PUSH_REG notification"
    r"|[Mm]arking (?:blocks as invalid|done)|nixl-push-writer error|^EC (?:Connector|Mooncake|consumer)\b"
    r"|^(?:Transfer \S+|RDMA (?:transfer|read)|pulling kv_caches for .{1,200}) (?:failed|TIMED OUT)"
    r"|^Failed to send (?:error )?notification|^Failed to connect to bootstrap server|^Error (?:processing|in) (?:the )?Mooncake"
)
_TRANSFER_SITES = lazy_pattern(
    r"(?:^|/)(?:nixl_connector|pull_worker|push_worker|moriio_\w+|mooncake_connector|hf3fs_\w+|lmcache\w*"
    r"|multi_process_adapter|vllm_v1_adapter)\.py$|(?:^|/)lmcache/\S*(?:connector|adapter|cache_engine|storage_backend)"
)
# Invocation of wake_up method failed
_UTILITY_ANNOUNCED = lazy_pattern(r"^Invocation of \w{1,80} method failed")
_OFFLINE_FRAMES = lazy_pattern(
    r"vllm/entrypoints/(?:llm|offline_utils)\.py$|vllm/entrypoints/(?:llm|offline)/"
)
_REQUEST_TYPES = lazy_pattern(
    r"VLLMValidationError|HTTPException|RequestValidationError|ChatTemplateResolutionError|TemplateError"
    r"|ClientDisconnect|UnidentifiedImageError|BadRequest"
    r"|maximum context length|longer than the maximum model length|cannot be greater than max_model_len"
    r"|is not a multimodal model|Decoder prompt cannot be empty"
)


def kind_of_block(block: Block) -> BlockKind:
    """Return what a block is to its run, from its own lines alone."""
    last = block.last_raised
    if block.level in ("WARNING", "INFO", "DEBUG") or _NOISE_ANNOUNCED.search(block.announcement):
        return "noise"
    if any(one.name in _STOP_TYPES for one in block.raised):
        return "stop"
    if _is_noise(block, last):
        return "noise"
    if wrapped(last):
        return _kind_of_wrapper(block)
    if _is_test_check(block):
        return "noise"
    if is_request(block) and not _ends_script(block, last):
        return "request"
    return "error"


def _kind_of_wrapper(block: Block) -> BlockKind:
    """Return what a wrapper is: an exception group of a web framework holds one request's trouble, not the engine's."""
    if not any("Group" in one.name for one in block.raised):
        return "wrapper"
    frames = [frame for one in block.raised for frame in one.frames]
    return "request" if any(_WEB_FRAMES.search(frame.file) for frame in frames) else "wrapper"


def wrapped(raised: Raised) -> bool:
    """Return whether an exception only says that another process or exception failed."""
    return bool(WRAPPER.search(raised.statement[:600])) and not ECHO.search(raised.statement[:200])


def is_request(block: Block) -> bool:
    """Return whether a block reports one request that failed, by who logged it and where it was raised."""
    refused = any(_REQUEST_TYPES.search(one.statement[:300]) for one in block.raised)
    if _in_engine(block) and not refused:
        return False
    if _REQUEST_ANNOUNCED.search(block.announcement):
        return True
    if block.call_site and is_request_site(block.call_site[0]):
        return True
    if refused:
        return block.process.role in ("", "api-server")
    frames = [frame for one in block.raised for frame in one.frames]
    first = next((one.frames for one in block.raised if one.frames), ())
    own = (one.file for one in reversed(first) if owner_of(one.file).startswith(VLLM))
    innermost = next(own, first[-1].file if first else "")
    if _PARSER_FRAMES.search(innermost):
        return True
    return not block.level and any(_REQUEST_FRAMES.search(frame.file) for frame in frames[:40])


def is_request_site(file: str) -> bool:
    """Return whether what a file of vLLM logs is about single requests."""
    return bool(_REQUEST_SITES.search(file))


def is_utility_call(block: Block) -> bool:
    """Return whether the engine core logged that a call from its front end failed: it answers with the error, and goes on."""
    return bool(_UTILITY_ANNOUNCED.search(block.announcement))


def is_transfer(block: Block) -> bool:
    """Return whether a connector logged that a peer or a transfer failed: the engine goes on, and computes again what did not come."""
    if not block.level:
        return False
    by_site = block.call_site is not None and _TRANSFER_SITES.search(block.call_site[0])
    return bool(by_site or _TRANSFER_ANNOUNCED.search(block.announcement))


def tells_of_transfer(record: Record) -> bool:
    """Return whether a connector logged in one line that a peer or a transfer failed."""
    site = record.call_site if record.level == "ERROR" else None
    return site is not None and bool(_TRANSFER_SITES.search(site[0]))


def is_of_stdin(block: Block) -> bool:
    """Return whether an error ended a program that a shell script handed to Python: the next one is another program's.

    File "<stdin>", line 4, in <module>
    """
    frames = [frame for one in block.raised for frame in one.frames]
    return not block.level and bool(frames) and all(frame.file == "<stdin>" for frame in frames)


def has_vllm(block: Block) -> bool:
    """Return whether vLLM's code is among the places of a traceback."""
    return any(is_file_of_vllm(frame.file) for one in block.raised for frame in one.frames)


def is_bare_line(block: Block) -> bool:
    """Return whether a block is an exception without a traceback, a logger and a process that it is of."""
    return not block.level and not block.process.name and not any(one.frames for one in block.raised)


def is_of_script(block: Block) -> bool:
    """Return whether a bare line speaks of nothing that an engine or a library below it can fail of.

    Error: input file not found: ./answers.json
    """
    return is_bare_line(block) and _OF_ENGINE.search(block.first.message[:400]) is None


def _is_test_check(block: Block) -> bool:
    """Return whether a test says that a result is not the expected one: E   AssertionError: assert '' == 'SELECT'"""
    bare = not any(one.frames for one in block.raised)
    last = block.last_raised
    return bare and last.name == "AssertionError" and last.record.message.startswith("E  ")


def _in_engine(block: Block) -> bool:
    """Return whether an exception was raised by the engine's step, which all requests share."""
    return any(_ENGINE_STEP.match(frame.function) for one in block.raised for frame in one.frames)


def _ends_script(block: Block, last: Raised) -> bool:
    """Return whether an exception left a program that calls the engine itself: nothing of it runs on, whatever was refused.

    File "batch.py", line 40, in <module>, then vllm/entrypoints/llm.py, then the error, and no logger printed it.
    """
    if block.level or not last.frames or last.frames[0].function != "<module>":
        return False
    return any(_OFFLINE_FRAMES.search(frame.file) for frame in last.frames)


def _is_noise(block: Block, last: Raised) -> bool:
    if _NOISE_EXCEPTION.search(last.statement.partition("\n")[0][:300]):
        return True
    return bool(last.frames) and last.frames[0].function in _NOISE_FUNCTIONS
