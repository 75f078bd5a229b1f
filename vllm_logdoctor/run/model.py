"""What is known of one run: one life of one server or offline engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from vllm_logdoctor.engines.model import EngineLog
from vllm_logdoctor.events import Event
from vllm_logdoctor.parse import Process, Record
from vllm_logdoctor.run.job import JobEnd
from vllm_logdoctor.run.observed import Observed
from vllm_logdoctor.scan import AccessKey

Provenance = Literal["explicit", "reported", "adjusted", "default", "derived"]
Outcome = Literal[
    "running",
    "clean_shutdown",
    "crashed_at_startup",
    "crashed_while_serving",
    "killed",
    "truncated",
    "unknown",
]
Kind = Literal["server", "offline", "build", "test", "client", "container", "unknown"]


class Evidence(Struct, frozen=True):
    """The line that proves a statement: file name, 1-based line number, the line with secrets masked.

    Example:
        >>> Evidence("vllm.log", 17, "INFO ...").line
        17
    """

    file: str
    line: Annotated[int, Meta(description='1-based; only "\\n" ends a line')]
    text: Annotated[str, Meta(description="the line, secrets masked, at most 600 characters")]


class Value(Struct, frozen=True):
    """A value with where it comes from.

    Attributes:
        value: the value; None is a value ("quantization=None").
        provenance: explicit (the user set it), reported (the engine printed it), adjusted (vLLM changed it and said so),
            default (known for that version, not printed), derived (computed).
        evidence: lines that prove it; empty for defaults.
        note: for defaults and derived values, from what.
        resolved: what the engine chose for a value that is left open ("auto"), or "".

    Example:
        >>> Value(256, "default", note="of 0.11.2").provenance
        'default'
    """

    value: Any
    provenance: Provenance
    evidence: tuple[Evidence, ...] = ()
    note: str = ""
    resolved: str = ""


class Phase(Struct, frozen=True):
    """A named span of a run.

    Attributes:
        name: "imports", "engine-start", "download", "load-weights", "dynamo", "inductor", "compile", "profiling", "encoder-profiling", "kv-cache",
            "graph-capture", "kernel-build", "autotune", "engine-init", "engine-load", "warm-up", "api-server", "startup", "serving",
            "idle", "shutdown", "unexplained".
        process: name of the process, "" where the log does not say.
        start, end: seconds on the run's clock, or None.
        seconds: length; the engine's own figure where it printed one.
        evidence: lines that prove it.
        parent: name of the phase that it is a part of, or "".
        ends: whether a line shows its end; else its length is the time until the failure, or until the log ends.

    Example:
        >>> Phase("load-weights", "EngineCore", 10.0, 12.5, 2.5).seconds
        2.5
    """

    name: str
    process: str
    start: float | None
    end: float | None
    seconds: float | None
    evidence: tuple[Evidence, ...] = ()
    parent: str = ""
    ends: bool = True


class Sample(Struct, frozen=True):
    """One statistics line, or the mean of neighbours where a long run was thinned out.

    Attributes:
        time: seconds on the run's clock, or None.
        line: line number of the first line in it.
        engine: engine number ("Engine 001"); -1 for an aggregate, 0 where not printed.
        prompt, generation: tokens per second.
        running, waiting: requests; waiting is V0's Pending.
        swapped: requests, V0 only.
        kv_usage: percent.
        prefix_hit, external_hit, mm_hit: percent, or None where not printed.
        preemptions: in this interval, or None where not printed.
        count: how many lines it represents.
        file: number of the file of that line.
        text: that line, secrets masked.

    Example:
        >>> Sample(time=10.0, line=5, engine=0, prompt=0.0, generation=245.0, running=3).running
        3
    """

    time: float | None
    line: int
    engine: int
    prompt: float
    generation: float
    running: int | None = None
    waiting: int | None = None
    swapped: int | None = None
    kv_usage: float | None = None
    prefix_hit: float | None = None
    external_hit: float | None = None
    mm_hit: float | None = None
    preemptions: int | None = None
    count: int = 1
    file: int = 0
    text: str = ""


class Extremes(Struct):
    """Exact figures over all samples, whether the series was thinned out or not."""

    prompt: float = 0.0
    generation: float = 0.0
    running: int | None = None
    waiting: int | None = None
    kv_usage: float | None = None
    prefix_hit_last: float | None = None
    preemptions: int = 0


class Speculation(Struct, frozen=True):
    """One line on speculative decoding.

    Attributes:
        time: seconds on the run's clock, or None.
        evidence: the line.
        accepted, drafted: tokens; since the line before in V1, since the start in V0. None where not printed.
        acceptance: accepted of the drafted tokens in percent, or None.
        mean_length: tokens per step with the bonus token, or None.
        per_position: acceptance by position of the draft, 0 to 1.
        efficiency: V0's system efficiency, 0 to 1, or None.
    """

    time: float | None
    evidence: Evidence
    accepted: int | None
    drafted: int | None
    acceptance: float | None
    mean_length: float | None = None
    per_position: tuple[float, ...] = ()
    efficiency: float | None = None


class Transfer(Struct, frozen=True):
    """One line of a KV connector: its figures as it names them ("Throughput (MB/s)")."""

    time: float | None
    evidence: Evidence
    figures: Mapping[str, float]


class Progress(Struct, frozen=True):
    """One state of the offline engine's progress bar: prompts done of how many, seconds, tokens/s where printed.

    `time` is that of the last line with one before the bar, or None.
    """

    evidence: Evidence
    done: int
    total: int
    seconds: float | None
    input: float | None = None
    output: float | None = None
    time: float | None = None


class Benchmark(Struct, frozen=True):
    """A result that `vllm bench` printed into the same file.

    Attributes:
        kind: "serve", "throughput" or "latency".
        figures: value by the name that the benchmark prints ("Mean TTFT (ms)", "Successful requests").
        evidence: first and last line of the result.
        asked: the load that the client was configured to send, by argument: model, prompts, lengths, rate; its line is the first of `evidence`.
    """

    kind: Literal["serve", "throughput", "latency"]
    figures: Mapping[str, float]
    evidence: tuple[Evidence, ...]
    asked: Mapping[str, str | float] = {}


class Occurrences(Struct):
    """How often one message was seen: first three events, the last one, the count, the processes."""

    first: list[Event] = field(default_factory=list)
    last: Event | None = None
    count: int = 0
    processes: set[Process] = field(default_factory=set)


class Unknown(Struct):
    """Records of one template that no pattern knows."""

    level: str
    template: str
    count: int
    first: Evidence


class Run(Struct):
    """One life of one server or offline engine.

    Attributes:
        number: 1-based position among the runs.
        server: the engine that wrote the log (`run.servers`); only "vllm" is judged.
        engine_log: what the log of another engine says, or None.
        kind: "server" (an API server), "offline" (LLM class, batch), "build" (of vLLM, or an installation), "test" (pytest),
            "client" (a program that asks a server), "container" (a runtime that did not start one) or "unknown".
        router: whether a router before servers of vLLM wrote the log, in which no engine runs.
        engine: "V0", "V1" or None.
        engine_evidence: the line that shows it, where the release alone does not.
        version: vLLM version; provenance "derived" where worked out from call sites.
        model: model name or path.
        platform: "cuda", "rocm", "tpu", "xpu", "cpu", "hpu", "npu", "neuron" or None.
        first_line, last_line: 1-based, in the file that holds each.
        first_file, last_file: names of the files.
        files: names of all files read, by number.
        started, ended: seconds on the run's clock (see `year_known`), or None.
        year_known: whether times hold a printed year.
        config: effective configuration by EngineArgs field.
        environment: variables that the log shows: "explicit" where the launch set them, "adjusted" where vLLM did.
        measured: what the engine printed of itself (names of the JSON contract).
        processes: every process that wrote, in order.
        messages: events by pattern id.
        samples: statistics series, thinned out beyond a bound, in order.
        sample_count: statistics lines in all.
        extremes: exact maxima over all samples.
        accesses: access lines by (method, path, status).
        other_server: first line of a server before this one that may have written some of them: another port, no end in the log.
        accesses_by_minute: minute (seconds // 60 of the run's clock, -1 unknown) -> requests by status.
        requests_by_minute: the same minutes -> requests by (method, path, status).
        speculation, transfers, progress: lines on speculative decoding, of a KV connector, of the offline progress bar;
            thinned out beyond a bound, the last one kept.
        benchmarks: results of `vllm bench` in the same file.
        counters: what a /metrics beside the log counted that surely is this run's: "preemptions", "prompt tokens" ...
        observed: what files beside the log measured of it.
        records: what is worth a second look, in order: start, errors, blocks, end (bounded, see `records_left_out`).
        tail: the last lines of the file, for a run that reaches its end.
        launched_by: lines of the command whose words replace the arguments, which the server did not print.
        load_commands: commands of benchmark clients in the log, with their lines.
        newest_first: whether the lines of its file run backwards in time: what depends on their order is not known.
        startup_complete: whether the server answered or the offline engine was ready.
        outcome: how it ended.
        job: how the batch job ended that the run was a part of, or None.
        followed: whether another run begins behind its last line in the same file.
    """

    number: int = 1
    server: str = "vllm"
    engine_log: EngineLog | None = None
    kind: Kind = "unknown"
    engine: str | None = None
    engine_evidence: tuple[Evidence, ...] = ()
    version: Value | None = None
    model: Value | None = None
    platform: str | None = None
    platform_evidence: tuple[Evidence, ...] = ()
    router: bool = False
    first_line: int = 1
    last_line: int = 1
    first_file: str = ""
    last_file: str = ""
    files: tuple[str, ...] = ()
    started: float | None = None
    ended: float | None = None
    year_known: bool = False
    config: dict[str, Value] = field(default_factory=dict)
    environment: dict[str, Value] = field(default_factory=dict)
    measured: dict[str, Value] = field(default_factory=dict)
    engine_config: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)
    messages: dict[str, Occurrences] = field(default_factory=dict)
    phases: list[Phase] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    sample_count: int = 0
    extremes: Extremes = field(default_factory=Extremes)
    accesses: Counter[AccessKey] = field(default_factory=Counter)
    other_server: Evidence | None = None
    accesses_by_minute: Mapping[int, Counter[int]] = field(default_factory=dict)
    requests_by_minute: Mapping[int, Counter[AccessKey]] = field(default_factory=dict)
    speculation: list[Speculation] = field(default_factory=list)
    transfers: list[Transfer] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)
    benchmarks: list[Benchmark] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    observed: Observed = field(default_factory=Observed)
    records: list[Record] = field(default_factory=list)
    records_left_out: int = 0
    tail: list[Record] = field(default_factory=list)
    unknown: list[Unknown] = field(default_factory=list)
    call_sites: dict[tuple[str, int], str] = field(default_factory=dict)
    secrets: list[tuple[Evidence, tuple[str, ...]]] = field(default_factory=list)
    launched_by: tuple[Evidence, ...] = ()
    load_commands: tuple[Evidence, ...] = ()
    newest_first: bool = False
    startup_complete: bool = False
    outcome: Outcome = "unknown"
    job: JobEnd | None = None
    last_of_file: bool = False
    followed: bool = False
    vllm_records: int = 0
    recognised_records: int = 0
    tracebacks: int = 0

    @property
    def has_unstated_engines(self) -> bool:
        """True if more engine cores wrote than the data-parallel size says: how many there are is not known then."""
        cores = {(one.host, one.pid, one.name) for one in self.processes if one.role == "engine-core"}
        return len(cores) > self._replicas

    @property
    def may_have_several_engines(self) -> bool:
        """True unless the log shows one engine: by the data-parallel size, or by the engine cores that wrote."""
        return self.has_unstated_engines or self._replicas != 1

    @property
    def _replicas(self) -> int:
        size = self.setting("data_parallel_size")
        return size if isinstance(size, int) and size else 1  # A damaged line can hold any text.

    @property
    def startup(self) -> Phase | None:
        """The whole start-up as far as the log shows it, or None."""
        return next((phase for phase in self.phases if phase.name == "startup"), None)

    @property
    def startup_seconds(self) -> float | None:
        """Seconds from launch to ready, as far as the log goes, or None."""
        return self.startup.seconds if self.startup is not None else None

    @property
    def release(self) -> str | None:
        """The version of vLLM as the log prints it, or None."""
        return str(self.version.value) if self.version else None

    def seen(self, pattern_id: str) -> Occurrences | None:
        """Return how often a message was seen, or None."""
        return self.messages.get(pattern_id)

    def setting(self, field_name: str) -> Any:
        """Return the effective value of an EngineArgs field, or None where it is not known."""
        value = self.config.get(field_name)
        return value.value if value else None

    def in_effect(self, field_name: str) -> Any:
        """Return what the engine chose where a setting is left open ("auto"), else the setting."""
        value = self.config.get(field_name)
        return (value.resolved or value.value) if value else None

    def evidence(self, record: Record) -> Evidence:
        """Return a record of this run as evidence."""
        return evidence_of(record, self.files or (self.first_file,) * (record.file + 1))

    def measure(self, name: str) -> float | None:
        """Return a measured figure, or None."""
        value = self.measured.get(name)
        return float(value.value) if value and isinstance(value.value, int | float) else None


class SourceSummary(Struct, frozen=True):
    """What was read of one file.

    Attributes:
        file: its name.
        bytes, lines: read as a log; of a file that was skipped its size, and no line.
        note: why reading stopped early, or why the file was skipped.
        kind: "log", or the kind of a file that is none.
    """

    file: str
    bytes: int
    lines: int
    note: str = ""
    kind: str = "log"


class Coverage(Struct, frozen=True):
    """How much was understood: lines read, records that vLLM wrote, how many of them a pattern knows."""

    lines: int
    vllm_lines: int
    recognised: int
    cut_characters: int
    unknown: tuple[Unknown, ...]
    notes: tuple[str, ...] = ()
    tracebacks: int = 0


def evidence_of(record: Record, files: Mapping[int, str] | Sequence[str]) -> Evidence:
    """Return a record as evidence; its text is cut to 600 characters."""
    text = record.text if len(record.text) <= 600 else record.text[:597] + "..."
    return Evidence(files[record.file], record.line, text)
