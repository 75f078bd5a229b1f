"""Signs of life and death of a run in its records: ready, serving, done, dead."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record
from vllm_logdoctor.run.blockkinds import WRAPPER
from vllm_logdoctor.run.blocks import Block, is_bar, is_of_other_program
from vllm_logdoctor.run.model import Run
from vllm_logdoctor.run.tracelines import OPENING, without_numbers
from vllm_logdoctor.texts import asked_once

Place = tuple[int, int]
"""Where something is: file and line, or the position among files that were read together."""

_LAST_LINES = 12
_AS_USUAL = 3
"""Lines that vLLM logs behind an error that a library printed, after which its start is taken to go on."""
# Lines that say that a process of the run is dead, whatever printed them.
_DEATH = lazy_pattern(
    WRAPPER.pattern + r"|died unexpectedly|exited unexpectedly|Engine process \(pid \d+\) died"
    r"|terminating server process|EngineCore (?:encountered a fatal error|failed to start)"
    r"|WorkerProc (?:failed to start|hit an exception)"
    r"|Worker proc \S+ died|Engine iteration timed out"
    # NCCL's own word on a port is a warning: [0] ras/client_support.cc:160 NCCL WARN Call to bind failed: Address already in use
    r"|(?<!bind failed: )[Aa]ddress already in use"
    r"|error: (?:unrecognized arguments|argument |the following arguments)"
    # Synapse detected a device critical error that requires a restart. Killing process in 5 seconds (hl: 6) 10:29:11 [No progress error]
    r"|Synapse detected a device critical error"
    # ./serve.sh: line 9: 124064 Segmentation fault      (core dumped) vllm serve ...      Fatal Python error: Aborted
    # [1]    31046 segmentation fault (core dumped)  python bench.py      (zsh)      ./serve.sh: line 9: 124064 Segmentation fault      vllm serve
    r"|(?:[Ss]egmentation fault|[Aa]borted|[Bb]us error|[Ii]llegal (?:hardware )?instruction) +\(core dumped\)|Fatal Python error: "
    r"|: line \d+: +\d+ (?!Killed|Terminated|Hangup|Interrupt|Quit|Alarm|User|Stopped)[A-Z][a-z]+ "
    r"|\*\*\* SIG(?:SEGV|ABRT|BUS|ILL|FPE) received at|Segfault encountered"
    # [node1:7:0:7] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x8)      (UCX)
    r"|Caught signal (?:4|6|7|8|11)\b"
    r"|(?:exited with|exit) code:? (?:139|134)\b|code=dumped, status=\d+|died with <Signals\.SIG(?:SEGV|ABRT|BUS)"
    # [Rank 4] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, ...) ran for 1800270 milliseconds
    r"|Watchdog caught collective operation timeout|watchdog got stuck for \d+ seconds"
    # terminate called after throwing an instance of 'c10::DistBackendError'
    r"|^terminate called (?:after throwing|without an active exception|recursively)"
    # [rank3]:[E716 19:47:26.324588983 shim_common.cpp:523] Exception in aoti_torch: CUDA out of memory. Tried to allocate 2.00 GiB.
    r"|\[E\d{3,4} [^\]\n]{1,80}\] [^\n]{0,120}(?:CUDA|HIP) (?:out of memory|error: )"
    # gcs_rpc_client.h:196: Failed to connect to GCS within 60 seconds. GCS may have been killed. ... The program will terminate.
    # What the engine core prints of the step that raised: Dumping scheduler output for model execution: ...
    r"|^Dumping (?:input data|scheduler output)"
    r"|Failed to connect to GCS within \d+ seconds\. GCS may have been killed|worker died or was killed while executing a task"
)
# Each line that says so holds one of these words; nearly every line holds none.
_DEATH_WORDS = (
    "ailed", "died", "See ", "EngineDeadError", "Background loop", "not running", "already dead", "Task finished unexpectedly",
    "ProcessExitedException", "unhandled errors", "cancelled", "is dead", "exited", "EngineGenerateError", "server process",
    "fatal error", "hit an exception", "timed out", "ddress already in use", "error: ", "Synapse", "core dumped",
    "*** SIG", "Segfault", "Caught signal", "code", "timeout", "got stuck", "terminate called",
    "GCS may", "[E", "Dumping ", "was killed while", ": line ",
)  # fmt: skip
# *** SIGSEGV received at time=1722289279 on cpu 61 ***      Fatal Python error: Segmentation fault      Aborted (core dumped)
_NATIVE = lazy_pattern(r"Fatal Python error: |\*\*\* SIG(?:SEGV|ABRT|BUS|ILL|FPE) received|\(core dumped\)")
_READY = lazy_pattern(
    r"Application startup complete|Uvicorn running on|Processed prompts: +\d|Avg prompt throughput: "
    r"|^It took [\d.]+ seconds to (?:fall asleep|wake up)|^Sleep mode freed |^EngineCore (?:loop active|waiting for work)\."
)
# http response sent status=200 latency_ms=1498 method=POST uri=/v1/chat/completions      (front ends of other programs)
# 10.0.0.9 - - [01/May/2026:10:00:09 +0000] "POST /v1/completions HTTP/1.1" 200 512
# Only an engine answers on these paths; on others a front end may answer before there is one.
_GENERATES = r"/v1/(?:chat/completions|completions|responses|messages|embeddings|rerank|score)\b"
_SUCCESS = r"\bstatus(?:_code)?[\"']?[=: ] ?\"?2\d\d\b"
_ANSWERED = lazy_pattern(
    rf"{_SUCCESS}.*{_GENERATES}|{_GENERATES}.*{_SUCCESS}|\"POST [^\s\"]{{0,200}}{_GENERATES}\S* HTTP/[\d.]+\" 2\d\d\b"
)
# [shutdown] MPClient: start      EngineCore interrupted. (to 0.8.4)      EngineCore exiting.
OWN_SHUTDOWN = lazy_pattern(
    r"\[shutdown\] (?:MPClient|LLMEngine|LLM|Process manager)|^EngineCore (?:interrupted|exiting)\.$"
    r"|destroy_process_group\(\) was not called before program exit"
)
_PROGRESS_OPEN = lazy_pattern(r"Processed prompts: +\d{1,2}%")
_PROGRESS_END = lazy_pattern(r"(?:Processed prompts|Adding requests): +100%|generated \d+ outputs")
# The offline engine's client says this while Python exits, when all work is done.
CLIENT_GONE = lazy_pattern(
    r"Engine core proc(?:ess)? \S+ died unexpectedly|Engine core process(?:es)? .{0,80}died unexpectedly"
)
# ERROR 10-15 02:47:20 multiproc_worker_utils.py:117] Worker VllmWorkerProcess pid 1017165 died, exit code: -15
OF_CHILD = lazy_pattern(r"^Worker \S+ pid \d+ died, exit code")
_TERMINATED = ": -15"
_ENDS_WORKERS = "Terminating local vLLM worker processes"
# Output of launchers and notebooks that go on after the engine left.
_AFTERWARDS = lazy_pattern(r"\[NbConvertApp\]|Exiting|Job finished|Done\b|All done|Finished processing")
# Completed successfully.      Evaluation finished successfully in 12 min      python bench.py exited with code 0
_SUCCEEDED = lazy_pattern(
    r"(?i)\b(?:completed|finished|ended|exited) successfully\b|\bsuccessfully (?:completed|finished)\b"
    r"|\bexit(?:ed with)?(?: code| status):? 0\b(?!\.)"
)


# AsyncLLM output_handler failed.      Engine background task failed      Exception in callback ... _log_task_completion
_WITHIN_ENGINE = lazy_pattern(
    r"AsyncLLM output_handler failed|Engine background task failed|Exception in callback|handle: <Handle"
    r"|EngineCore|WorkerProc|Exception in worker|Error executing method"
)


# What leaves one of these loops ends the engine, whoever printed it.
_ENGINE_LOOP = lazy_pattern(
    r"(?:\w+\.)?(?:run_engine_loop|run_engine_core|run_busy_loop|worker_busy_loop|run_mp_engine"
    r"|start_worker_execution_loop)\b"
)
ENGINE_SITES = lazy_pattern(
    r"(?:^|/)(?:core|engine|async_llm_engine|async_llm|llm_engine|core_client|multiproc_\w+|worker\w*"
    r"|ray_\w+|client)\.py$"
)
BIND = lazy_pattern(r"(?<!bind failed: )[Aa]ddress already in use")
# What only a process that has not come up says.
START_FAILED = lazy_pattern(
    r"(?:EngineCore|WorkerProc) failed to start|[Ee]ngine core initialization failed|WorkerProc initialization failed"
    r"|(?:died|exited) (?:during|before|in) (?:the )?(?:handshake|start-?up)"
    r"|[Ff]ailed to start (?:GCS|model server)|[Ee]ngine process failed to start"
    r"|error: (?:unrecognized arguments|argument |the following arguments)|No module named 'vllm[.']|Could not import vllm\b"
)
# What only an engine that had started can say.
SERVED = lazy_pattern(
    r"EngineDeadError|Background loop has errored|EngineGenerateError|Engine iteration timed out"
    r"|No heartbeat received|^Dumping (?:input data|scheduler output)"
)


def within_engine(block: Block) -> bool:
    """Return whether a block is the engine's own, also where its process has no name."""
    if block.process.role in ("engine-core", "worker") or _WITHIN_ENGINE.search(block.announcement):
        return True
    if any(_ENGINE_LOOP.match(frame.function) for one in block.raised for frame in one.frames):
        return True
    return bool(block.call_site and ENGINE_SITES.search(block.call_site[0]))


# What handles requests writes only when there are requests, or when the server warms up to them.
_SERVING_SITES = lazy_pattern(r"(?:^|/)(?:serving(?:_\w+)?|loggers|request_logger)\.py$")


# What the interpreter prints of an exception that ends a program or a process begins there; a caught one begins in a function.
_OUTERMOST = lazy_pattern(r"<|_run_module_as_main$|_bootstrap$")
_OF_FAILURE = lazy_pattern(
    r"(?i)error|exception|fail|fatal|crash|abort|exit|died|dead|killed|traceback|terminat|resource_tracker|warn"
)


def was_caught(block: Block) -> bool:
    """Return whether a program printed an exception that it had caught: no traceback of the interpreter begins in a function."""
    outermost = block.last_raised.frames[:1]
    begins = OPENING in block.first.message and not block.level
    return begins and any(not _OUTERMOST.match(frame.function) for frame in outermost)


def actor_writes_on(block: Block, trail: Sequence[Record], inside: Collection[int]) -> bool:
    """Return whether the actor that printed an exception wrote something else behind it, or the others wrote on as usual."""
    behind = [one for one in trail if _is_behind(one, block, inside)]
    return any(one.process == block.process for one in behind) or sum(map(_is_usual, behind)) >= _AS_USUAL


def program_writes_on(block: Block, trail: Sequence[Record], inside: Collection[int]) -> bool:
    """Return whether a program wrote on behind an exception that it had caught, or lines alike those before it behind any other."""
    own = [one for one in trail if one.process == block.process and not one.call_site]
    behind = [one for one in own if _is_behind(one, block, inside)]
    if was_caught(block):
        return any(map(_is_usual, behind))
    began = next((one.line for one in trail if one.call_site), block.first.line)
    above = (one for one in own if began < one.line < block.first.line and id(one) not in inside)
    said = {without_numbers(one.message) for one in above if not is_bar(one.message)}
    return any(without_numbers(one.message) in said for one in behind)


def _is_behind(record: Record, block: Block, inside: Collection[int]) -> bool:
    return record.line > block.records[-1].line and id(record) not in inside and bool(record.message.strip())


def _is_usual(record: Record) -> bool:
    """Return whether a line is of no failure, and of no shell, launcher or interpreter."""
    return not _OF_FAILURE.search(record.message) and not is_of_other_program(record.message)


def logs_on(blocks: Sequence[Block], trail: Sequence[Record]) -> bool:
    """Return whether vLLM logged as usual before the first and behind the last of some blocks.

    AttributeError: module 'registry' has no attribute 'lookup'
    (EngineCore pid=237) INFO 06-06 01:16:19 [gpu_model_runner.py:4118] Starting to load model
    """
    own = [one.line for one in trail if one.call_site and one.level in ("INFO", "WARNING")]
    first, last = blocks[0].first.line, blocks[-1].first.line
    return bool(own) and min(own) < first and sum(line > last for line in own) >= _AS_USUAL


def has_no_server(run: Run, trail: Sequence[Record]) -> bool:
    """Return whether a run that looks like a server is a program of its own: a batch run has the server's arguments too."""
    if run.accesses or any(process.role == "api-server" for process in run.processes):
        return False
    return any(process.name == "MainProcess" for process in run.processes) and not any(
        "server process" in one.message or "startup complete" in one.message for one in trail
    )


def serves(record: Record) -> bool:
    """Return whether a record shows that requests are handled: by vLLM, or by a front end that passed one on and got an answer."""
    if record.call_site is None:
        return "/v1/" in record.message and _ANSWERED.search(record.message[:1000]) is not None
    words = ("request", "prompt", "throughput", "template")
    handles = record.level in ("ERROR", "INFO") and _SERVING_SITES.search(record.call_site[0])
    return bool(handles) and any(word in record.message for word in words)


@asked_once
def is_up(message: str) -> bool:
    """Return whether a message is one that only an engine or a server that is up writes."""
    return _READY.search(message) is not None


def program_left_engine(trail: Sequence[Record], offline: bool) -> bool:
    """Return whether a launcher goes on after the engine left, or the program around an offline engine says that it succeeded."""
    if any(_AFTERWARDS.search(one.message) for one in trail[-_LAST_LINES:]):
        return True
    own = (number for number, one in enumerate(trail, start=1) if one.level or one.process.role)
    return offline and any(_SUCCEEDED.search(one.message) for one in trail[max(own, default=0) :])


def ends_progress(message: str) -> bool:
    """Return whether an offline run has answered all its prompts."""
    may_end = "100%" in message or "generated " in message
    return may_end and _PROGRESS_END.search(message) is not None


def ends_engine(message: str) -> bool:
    """Return whether an engine is shut down, or its workers end (V0) with the program that they are children of."""
    if message.startswith(_ENDS_WORKERS) or OWN_SHUTDOWN.search(message):
        return True
    return message.rstrip().endswith(_TERMINATED) and OF_CHILD.search(message) is not None


def batch_is_open(run: Run, trail: Sequence[Record]) -> bool:
    """Return whether a batch had prompts left when its progress was last printed, whoever wrote behind it."""
    left = any(one.done < one.total for one in run.progress[-1:])
    return left or (bool(trail) and _PROGRESS_OPEN.search(trail[-1].message) is not None)


def says_death(record: Record) -> bool:
    if record.level == "WARNING":
        return "exited unexpectedly" in record.message
    return record.level not in ("INFO", "DEBUG") and _tells_of_death(record.message[:400])


def _tells_of_death(text: str) -> bool:
    return _may_tell_of_death(text) and bool(_DEATH.search(text))


@asked_once
def _may_tell_of_death(text: str) -> bool:
    return any(map(text.__contains__, _DEATH_WORDS))


def trail_of(run: Run) -> list[Record]:
    """Return the kept records and the last lines of the file, each once, in order."""
    if not run.records:
        return list(run.tail)
    first, last = run.records[0], run.records[-1]
    near = last.line - 200
    kept = {(record.file, record.line) for record in run.records if record.line > near}
    extra = [one for one in run.tail if one.line > near and (one.file, one.line) not in kept]
    if len({record.file for record in (*run.records, *extra)}) > 1:
        ends = [one for one in extra if one.file == last.file and one.line > last.line]
        return _by_time([*run.records, *ends])
    extra = [one for one in extra if one.line >= first.line]
    return sorted([*run.records, *extra], key=lambda one: one.line) if extra else list(run.records)


def crashed_natively(record: Record) -> bool:
    """Return whether a line says that a process crashed outside of Python: it ended, whatever it did."""
    return _NATIVE.search(record.message) is not None


def names_vllm(run: Run) -> bool:
    """Return whether vLLM wrote a line of a run, or one of those kept speaks of it."""
    return run.vllm_records > 0 or any("vllm" in one.message.lower() for one in trail_of(run))


def _by_time(records: list[Record]) -> list[Record]:
    """Return the records of several files in order of time; as they are where a file has no times."""
    first: dict[int, float] = {}
    for record in records:
        if record.time is not None:
            first.setdefault(record.file, record.time)
    if any(record.file not in first for record in records):
        return records
    now = dict(first)
    timed: list[tuple[float, int]] = []
    for position, record in enumerate(records):
        if record.time is not None:
            now[record.file] = record.time
        timed.append((now[record.file], position))
    return [records[position] for _, position in sorted(timed)]


class Order:
    """Order of the records of a run: by line in one file, by position where several files were read together.

    Attributes:
        several: whether several files were read together.
    """

    def __init__(self, trail: Sequence[Record]) -> None:
        self.several = len({record.file for record in trail}) > 1
        places = enumerate(trail) if self.several else ()
        self._places = {(record.file, record.line): position for position, record in places}

    def place(self, record: Record) -> Place:
        """Return the position of a record among the others."""
        if not self.several:
            return record.file, record.line
        return 0, self._places.get((record.file, record.line), len(self._places))
