"""A finished builder becomes a Run: identity, configuration, figures, phases, outcome."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from vllm_logdoctor.knowledge.context import Context
from vllm_logdoctor.knowledge.defaults import default_of
from vllm_logdoctor.knowledge.flags import flag_for_field
from vllm_logdoctor.knowledge.versions import parse_version, release_number
from vllm_logdoctor.parse import Record, mask
from vllm_logdoctor.run.builder import RunBuilder
from vllm_logdoctor.run.builds import is_build
from vllm_logdoctor.run.clock import stamp_of_library
from vllm_logdoctor.run.configuration import effective_configuration
from vllm_logdoctor.run.identity import (
    engine_generation,
    has_api_server,
    is_same_model,
    kind_of_run,
    model_of,
    platform_of,
    version_of,
)
from vllm_logdoctor.run.lifecycle import trail_of
from vllm_logdoctor.run.measured import block_size_of, measured_of
from vllm_logdoctor.run.metrics import end_with_batches
from vllm_logdoctor.run.minutes import AccessesByMinute
from vllm_logdoctor.run.model import Kind, Run, Sample
from vllm_logdoctor.run.other_programs import failed_requests, failed_tests, is_of_pytest, refused_start
from vllm_logdoctor.run.phases import phases_of
from vllm_logdoctor.run.servers import VLLM, is_of_router
from vllm_logdoctor.run.source_calls import settings_in_calls
from vllm_logdoctor.run.year import dated

DEFAULTED = (
    "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "gpu_memory_utilization", "enforce_eager",
    "kv_cache_dtype", "block_size", "max_num_seqs", "max_num_batched_tokens", "enable_prefix_caching", "enable_chunked_prefill",
    "dtype", "quantization", "async_scheduling", "enable_expert_parallel", "swap_space", "seed", "load_format",
)  # fmt: skip


# Without its arguments a run may have set anything; these are seldom set where the engine does not print them.
SELDOM_SET = ("block_size", "data_parallel_size", "pipeline_parallel_size", "tensor_parallel_size")
_WITHOUT_CACHE = "disabling-chunked-prefill-model-without-kvcache"
_OFFLINE_READY = ("engine-initialised", "offline-progress", "spyre-warmups-finished")
_SAME_ZONE = 1800.0
"""Seconds: clocks of two zones are further apart."""


def finished(builder: RunBuilder, tail: Sequence[Record]) -> Run:
    """Make the run of a builder; `tail` holds the last lines of the file for the run that reaches them."""
    builder.flush()
    _note_end(builder, tail)
    builder.date_accesses()
    run = Run(server=builder.server)
    tail = [dated(record, builder.year_shift) for record in tail] if builder.year_shift else tail
    _place(run, builder, tail)
    run.messages = builder.messages
    run.processes = list(builder.processes)
    for (method, path, status), number in builder.accesses.items():
        run.accesses[method, mask(path).text, status] += number
    run.other_server = builder.other_server
    run.requests_by_minute = builder.requests_by_minute
    run.accesses_by_minute = AccessesByMinute(builder.requests_by_minute)
    run.speculation, run.transfers, run.progress = builder.speculation, builder.transfers, builder.progress
    run.benchmarks = builder.benchmarks.results(builder.launches.loads)
    run.call_sites = builder.call_sites
    run.records = builder.keeper.records()
    run.records_left_out = builder.keeper.left_out
    run.tail = list(tail)
    run.last_of_file = bool(tail)
    run.unknown = list(builder.unknown.values())
    # Where vLLM names the call site in every line, those without one are of programs beside it.
    beside = builder.unframed if builder.continuations.names_call_sites else 0
    run.vllm_records = builder.vllm_records - beside
    run.recognised_records = builder.recognised
    run.tracebacks = builder.tracebacks
    _take_command(run, builder)
    run.engine_config, run.arguments = builder.stated.engine, builder.stated.arguments
    _identify(run, builder)
    in_program = run.kind == "offline" or (run.kind == "unknown" and has_api_server(builder))
    run.startup_complete = builder.ready or (in_program and _engine_is_ready(run, builder))
    run.environment = builder.environment.values
    run.config = _configuration(run, builder)
    size = run.config.get("block_size")
    if size is None or size.value is None or size.provenance == "default":
        derived = block_size_of(run, builder)
        run.config |= {"block_size": derived} if derived is not None else {}
    run.ended = end_with_batches(run)
    run.measured = measured_of(run, builder)
    run.phases = phases_of(run, builder)
    _take_engine_log(run, builder)
    run.samples = builder.series.samples()
    run.sample_count = builder.series.count
    run.extremes = builder.series.extremes
    if _WITHOUT_CACHE in run.messages:
        # An encoder keeps no KV cache: its one block is always taken. What was printed stays in the extremes.
        run.samples = [replace(sample, kv_usage=None) for sample in run.samples]
    return run


def _engine_is_ready(run: Run, builder: RunBuilder) -> bool:
    """Return whether an engine in a program came up. V0 prints no line of it to 0.6.4; the last work of its start is the capture of each rank."""
    if any(name in builder.messages for name in _OFFLINE_READY):
        return True
    begun, ended = (builder.messages.get(name) for name in ("graph-capture-started", "graphs-captured"))
    return run.engine == "V0" and bool(begun and ended and ended.count >= begun.count)


def _take_engine_log(run: Run, builder: RunBuilder) -> None:
    """Take the facts of another engine's log, and its decode rates as samples."""
    if builder.engine_reader is None:
        return
    run.engine_log = builder.engine_reader.result()
    for rate in run.engine_log.rates if not builder.series.count else ():
        builder.series.add(
            Sample(rate.time, rate.line, rate.rank, 0.0, rate.tokens_per_second, rate.running, rate.waiting)
        )


def _note_end(builder: RunBuilder, tail: Sequence[Record]) -> None:
    """Take the end of a run from its last lines, whether or not a pattern wants them."""
    last = builder.last
    for record in tail:
        beyond = last is not None and record.file == last.file and record.line > last.line
        if beyond and record.outer_time is not None:
            builder.outer_clock.at_time(record.outer_time, record.year_known)
        if beyond and record.level and record.time is not None:
            builder.now = builder.clock.at_time(record.time, record.year_known)
        elif beyond and (stamp := stamp_of_library(record)) is not None:
            builder.now = builder.clock.follow(*stamp) or builder.now


def _place(run: Run, builder: RunBuilder, tail: Sequence[Record]) -> None:
    clock = builder.clock if builder.clock.first is not None else builder.outer_clock
    run.files = tuple(builder.files)
    run.started, run.ended, run.year_known = clock.oldest, clock.end, clock.year_known
    outer = None if clock.backwards else builder.outer_clock.end
    if outer is not None and run.ended is not None and run.year_known:
        # Ray, or a wrapper that stamps every line, goes on where vLLM's loggers are silent. It may be in another zone, or of other
        # programs after this one's end.
        later = outer + (builder.ahead_of_wrapper or 0.0) - run.ended
        lives = builder.ahead_of_wrapper is not None and not (builder.troubled or builder.ended)
        run.ended += later if later > 0 and (later < _SAME_ZONE or lives) else 0.0
    if builder.first is not None and builder.last is not None:
        run.first_line, run.last_line = builder.first.line, builder.last.line
        run.first_file, run.last_file = builder.files[builder.first.file], builder.files[builder.last.file]
        # The last run of a file goes on to its end, whether or not its last lines say anything.
        run.last_line = max([run.last_line, *(one.line for one in tail if one.file == builder.last.file)])


def _take_command(run: Run, builder: RunBuilder) -> None:
    """Take the launch command for the arguments where the server printed none, else for what they leave at its default."""
    command, stated = builder.launches.own, builder.stated
    run.load_commands = tuple(builder.launches.loads)
    if command is None or not command.arguments.get("model"):
        _take_call(run, builder)
        return
    served = model_of(builder)
    names = {str(name) for name in (served and served.value, stated.arguments.get("model")) if name}
    if names and not any(is_same_model(name, str(command.arguments["model"])) for name in names):
        return
    if stated.arguments:
        stated.command, stated.command_evidence = dict(command.arguments), command.evidence
        return
    stated.arguments, stated.arguments_evidence = dict(command.arguments), command.evidence
    run.launched_by = command.evidence


def _take_call(run: Run, builder: RunBuilder) -> None:
    """Take the call of the program that makes the engine, in a line of a traceback, for arguments that nothing printed."""
    if builder.stated.arguments or not builder.tracebacks:
        return
    found = settings_in_calls(run.records)
    if found is not None:
        builder.stated.arguments, record = found
        builder.stated.arguments_evidence = (builder.evidence(record),)
        builder.stated.arguments_text = record.message
        builder.stated.arguments_call = record.message


def _identify(run: Run, builder: RunBuilder) -> None:
    run.version = version_of(builder)
    run.platform, run.platform_evidence = platform_of(builder, run.version)
    run.engine, run.engine_evidence = engine_generation(builder, run.version)
    command = builder.launches.own if run.launched_by else None
    run.kind = kind_of_run(builder) if command is None else "offline" if command.offline else "server"
    unnamed = run.kind == "unknown" or (run.launched_by and not run.accesses)
    if unnamed and run.server == VLLM and not run.vllm_records:
        # A launch command above the output of a client or a build is no line of the server.
        others = _kind_of_others(run)
        run.kind = run.kind if others == "unknown" else others
    elif unnamed and "benchmark-arguments" in run.messages and not (builder.openers or builder.ready):
        # A benchmark's client imports vLLM, which logs its platform.
        run.kind = "client" if _is_failed_client(run) else run.kind
    if run.kind in ("offline", "unknown") and _is_of_tests(trail_of(run)):
        run.kind = "test"
    run.model = model_of(builder)
    run.router = not (builder.openers or run.samples) and is_of_router(trail_of(run))


_OF_SERVER = "Exception in ASGI application"
"""Beside the output of a test that asks a server, somebody pasted the server's own lines."""


def _is_of_tests(trail: Sequence[Record]) -> bool:
    """Return whether pytest wrote the lines of a failure, and no server between them."""
    return bool(failed_tests(trail)) or (
        is_of_pytest(trail) and not any(_OF_SERVER in one.message for one in trail)
    )


def _kind_of_others(run: Run) -> Kind:
    """Return what wrote a log without an engine's lines: a build, tests, a container, a client that failed, an offline engine's bar, or unknown."""
    trail = trail_of(run)
    if is_build(trail):
        return "build"
    if _is_of_tests(trail):
        return "test"
    if refused_start(trail) is not None:
        return "container"
    if _is_failed_client(run):
        return "client"
    return "offline" if any(one.message.startswith("Processed prompts: ") for one in trail) else "unknown"


def _is_failed_client(run: Run) -> bool:
    """Return whether a client's request failed, and no result of a benchmark follows that counts it beside others."""
    results = [one.evidence[-1].line for one in run.benchmarks if one.figures.get("Successful requests")]
    return any(one.line > max(results, default=0) for one in failed_requests(trail_of(run))[1])


def _configuration(run: Run, builder: RunBuilder) -> dict[str, Any]:
    context = _context(run, builder)
    version = run.release

    def default(name: str) -> tuple[Any, str] | None:
        found = default_of(name, version, context) if version else None
        if found is not None:
            return found.value, found.basis
        flag = flag_for_field(name, version) if version and builder.stated.arguments_complete else None
        static = flag.default if flag is not None else None
        return (static, "the parser's default") if static is not None and name not in DEFAULTED else None

    stated = builder.stated
    wanted = (
        ()
        if stated.arguments_cut
        else DEFAULTED
        if stated.arguments and not stated.arguments_call
        else SELDOM_SET
        if stated.engine
        else ()
    )
    number = parse_version(version) if version else None
    untagged = number is None or number.dev is not None or release_number(number) is None
    return effective_configuration(stated, default, wanted, untagged)


def _context(run: Run, builder: RunBuilder) -> Context:
    engine, arguments = builder.stated.engine, builder.stated.arguments

    def size(name: str) -> int | None:
        return _whole(engine.get(name, arguments.get(name)))

    return Context(
        engine=run.engine if run.engine in ("V0", "V1") else None,  # type: ignore[arg-type]
        platform=run.platform,  # type: ignore[arg-type]
        kind=run.kind if run.kind in ("server", "offline") else None,
        world_size=(size("tensor_parallel_size") or 1) * (size("pipeline_parallel_size") or 1),
        pipeline_parallel_size=size("pipeline_parallel_size"),
        data_parallel_size=size("data_parallel_size"),
        max_model_len=size("max_seq_len") or size("max_model_len"),
        max_num_seqs=size("max_num_seqs"),
        max_num_batched_tokens=size("max_num_batched_tokens"),
        enforce_eager=_switch(engine.get("enforce_eager")),
        enable_prefix_caching=_switch(engine.get("enable_prefix_caching")),
        enable_chunked_prefill=_switch(
            engine.get("enable_chunked_prefill", engine.get("chunked_prefill_enabled"))
        ),
    )


def _whole(value: Any) -> int | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and math.isfinite(value) else None


def _switch(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None
