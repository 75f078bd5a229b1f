"""Fills the baseline document from a run and the files beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from msgspec import Struct
from msgspec.structs import replace

from vllm_logdoctor.baseline import commands
from vllm_logdoctor.knowledge.cards import card_for, variants_of
from vllm_logdoctor.report.escape import code, inline, prose
from vllm_logdoctor.report.figures import number, table
from vllm_logdoctor.report.model import Diagnosis
from vllm_logdoctor.rules.context import plural
from vllm_logdoctor.rules.equal_load import load_levels
from vllm_logdoctor.rules.model import Finding
from vllm_logdoctor.run.model import Run, Value
from vllm_logdoctor.run.observed import Group, Measured

# A group and the names in it, each of which will do.
_Wanted = tuple[Group, tuple[str, ...]]
_KERNEL_ROWS = (
    "MoE GEMM", "MoE routing", "attention", "GEMM", "norm and activation", "quantize", "communication", "KV cache write", "sampling", "copy", "other"
)  # fmt: skip
_NO_SHORT_NAME = 60
_UNITS = {"count": "", "as printed": "", "us": "µs"}
_FIRST_TOKEN: tuple[_Wanted, ...] = (("latency", ("TTFT mean",)), ("client", ("mean_ttft_ms", "Mean TTFT")))
_BETWEEN_TOKENS: tuple[_Wanted, ...] = (
    ("latency", ("ITL mean", "TPOT mean")),
    ("client", ("mean_itl_ms", "Mean ITL")),
)


class Entry(Struct, frozen=True):
    """One cell of the document: a value with its source, or the command that measures it.

    Example:
        >>> Entry("queue time", "0.65 s", "metrics.txt L427").command
        ''
    """

    name: str
    value: str = ""
    source: str = ""
    command: str = ""


def _without_card(name: str) -> Entry:
    """Return a cell that a run on the CPU has no value for."""
    return Entry(name, "none (CPU)", "log")


def render(diagnosis: Diagnosis) -> str:
    """Return the document of a run as Markdown."""
    run = diagnosis.run
    model = inline(str(run.model.value), 120) if run.model else "model not in the log"
    version = inline(str(run.version.value), 60) if run.version else "release not in the log"
    note = "Each value names its source. A gap names the one command that measures it; nothing is guessed."
    lines = [f"# Baseline: {model}, vLLM {version}", "", note, ""]
    for title, entries in _sections(diagnosis):
        rows = []
        for one in entries:
            source = one.source or code(commands.filled_command(one.command, run), 400)
            rows.append([inline(one.name, 120), one.value or "?", source])
        lines += [f"## {title}", "", *table(["", "value", "source, or what measures it"], rows), ""]
    return "\n".join(lines).rstrip() + "\n"


def _sections(diagnosis: Diagnosis) -> Iterator[tuple[str, list[Entry]]]:
    run = diagnosis.run
    yield "Configuration", list(_configuration(run))
    yield "Kernel breakdown", list(_kernels(run))
    yield "Memory bandwidth", list(_bandwidth(run))
    yield "CPU threads", list(_threads(run))
    yield "Asynchronous scheduling", list(_scheduling_modes(run))
    yield "Scheduler", list(_scheduler(run))
    yield "Launches", list(_launches(run))
    yield "Quantization", list(_quantization(run))
    yield "Decoding speed", list(_speed(run))
    yield "Findings", list(_findings(diagnosis))


def _configuration(run: Run) -> Iterator[Entry]:
    for name, value in (
        ("model", run.model),
        ("quantization", run.config.get("quantization")),
        ("dtype", run.config.get("dtype")),
        ("vllm_version", run.version),
        ("tensor_parallel_size", run.config.get("tensor_parallel_size")),
        ("max_num_seqs", run.config.get("max_num_seqs")),
    ):
        yield _of_value(name, value, commands.LOG)
    named = "npu-smi info > npu-smi.txt" if run.platform == "npu" else commands.CARD
    card = _measured(
        run, "card", named, ("gpus", ("name", "product", "market_name")), ("kernels", ("device",))
    )
    yield _without_card("card") if run.platform == "cpu" else card
    yield _measured(run, "processor", "lscpu > lscpu.txt", ("host", ("model",)))
    packages = tuple({one.name for one in run.observed.of("host", joined=False) if "flashinfer" in one.name})
    flashinfer = _measured(run, "flashinfer", commands.ENVIRONMENT, ("host", packages))
    yield _without_card("flashinfer") if run.platform == "cpu" else flashinfer


def _kernels(run: Run) -> Iterator[Entry]:
    """Yield share, time and launches of each class; MoE's two GEMMs share one name."""
    shares = {one.subject: one for one in _profile(run, "share")}
    times = {one.subject: one for one in _profile(run, "class time")}
    counts = {one.subject: one for one in _profile(run, "class launches")}
    of_step = {one.subject: one for one in _profile(run, "time per step")}
    of_layer = {one.subject: one for one in _profile(run, "time per layer")}
    steps, layers = _first(run, "steps"), _first(run, "layers")
    for kind in _KERNEL_ROWS:
        name = {"MoE GEMM": "MoE FC1 and FC2", "norm and activation": "LayerNorm and activation"}.get(
            kind, kind
        )
        if kind not in shares:
            if not shares:
                yield Entry(name, command=commands.PROFILE)
            continue
        share = shares[kind]
        each = _per(_positive(times.get(kind)), counts.get(kind))
        launches = _per(_positive(counts.get(kind)), steps)
        step, layer = of_step.get(kind), of_layer.get(kind)
        words = [
            f"{share.value} %",
            f"{each} µs each" if each else "",
            f"{launches} a step: {number(_positive(step))} µs" if launches and step else "",
            f"{number(_positive(layer))} µs a layer" if layer else "",
        ]
        yield Entry(name, ", ".join(filter(None, words)), _place(share))
    if layers is not None:
        yield Entry("layers", str(layers.value), f"{_place(layers)}, {layers.how}")
    if shares and steps is None:
        yield Entry("instances per token", command=commands.PROFILE)


def _bandwidth(run: Run) -> Iterator[Entry]:
    if run.platform == "cpu":
        yield _measured(run, "theoretical peak", commands.MODULES, ("host", ("memory bandwidth at most",)))
        processor = str(next((one.value for one in run.observed.of("host", "model", joined=False)), ""))
        traffic = commands.AMD_MEMORY if "AMD" in processor else commands.INTEL_MEMORY
        yield _measured(run, "measured during decoding", traffic, ("host", ("memory bandwidth",)))
        return
    peak, source = _peak(run)
    yield Entry("theoretical peak", peak, source, commands.CARD)
    active = _measured(run, "measured during decoding", commands.BANDWIDTH, ("gpus", ("memory active",)))
    of_peak = f" of {peak}" if active.value and peak else ""
    yield replace(active, value=active.value + of_peak)


def _peak(run: Run) -> tuple[str, str]:
    """Return the bandwidth of the card with its source: a range where the name leaves the variant open and no memory tells it."""
    named = (*run.observed.of("gpus", joined=False), *run.observed.of("kernels", joined=False))
    name = next((str(one.value) for one in named if one.name in ("name", "product", "device")), "")
    card = card_for(name, run.observed.card_memory(joined=False)) if name else None
    if card is None:
        return "", ""
    if card.bandwidth_gbs:
        return f"{number(card.bandwidth_gbs)} GB/s", f"data sheet: {inline(card.source, 80)}"
    variants = [one for one in variants_of(name) if one.bandwidth_gbs]
    rates = sorted({one.bandwidth_gbs or 0.0 for one in variants})
    if not rates:
        return "", ""
    names = ", ".join(one.name for one in variants)
    rate = f"{number(rates[0])} to {number(rates[-1])} GB/s"
    return rate, f"data sheets: {inline(f'{name} may be {names}', 160)}"


def _threads(run: Run) -> Iterator[Entry]:
    found = [one for one in run.observed.of("host", joined=False) if one.name.startswith("cpu of ")]
    files = list(dict.fromkeys(one.file for one in found))
    # What is called so was taken without requests, as the command for it says.
    idle = next((name for name in files if len(files) > 1 and "idle" in PurePath(name).name), None)
    busy = next((name for name in files if name != idle), None)
    known = {str(process.pid) for process in run.processes}
    # A machine may run several servers: main threads have the id of their process, which the log prints.
    threads = sorted((one for one in found if one.file == busy), key=lambda one: _id_of(one) not in known)
    joined = any(_id_of(one) in known for one in threads)
    for one in threads[:8]:
        name = one.name.removeprefix("cpu of ")
        other = ", no process of the log" if "VLLM" in name and joined and _id_of(one) not in known else ""
        yield Entry(f"{name} ({one.subject}{other})", f"{one.value} %", _place(one))
    if not threads:
        for name in ("main thread", "scheduler (EngineCore)", "ZMQ", "other"):
            yield Entry(name, command=commands.TOP)
    same = [one for one in found if one.file == idle and one.subject in {one.subject for one in threads}]
    for one in same:
        name = one.name.removeprefix("cpu of ")
        yield Entry(f"{name} ({one.subject}) without requests", f"{one.value} %", _place(one))
    if not same:
        yield Entry("the same without requests", command=commands.IDLE_TOP)


def _id_of(thread: Measured) -> str:
    return thread.subject.rpartition(" ")[2]


def _scheduling_modes(run: Run) -> Iterator[Entry]:
    mode = run.config.get("async_scheduling")
    yield _of_value("async_scheduling of this run", mode, commands.LOG)
    yield _measured(run, "time to first token, this mode", commands.METRICS, *_FIRST_TOKEN)
    other = "--no-async-scheduling" if mode is not None and mode.value else "--async-scheduling"
    launch = f"{commands.filled_command('{launch}', run)} {other} > other.log 2>&1"
    yield Entry("the other mode", command=f"{launch}; logdoctor compare vllm.log other.log")


def _scheduler(run: Run) -> Iterator[Entry]:
    yield _measured(run, "queue time of a request", commands.METRICS, ("latency", ("queue time mean",)))
    yield _measured(run, "prefill time", commands.METRICS, ("latency", ("prefill time mean",)))
    yield _measured(run, "decode time", commands.METRICS, ("latency", ("decode time mean",)))
    yield _measured(run, "inter-token latency", commands.METRICS, *_BETWEEN_TOKENS)
    yield _measured(run, "preemptions", commands.METRICS, ("scheduler", ("preemptions",)))
    between = _measured(
        run, "time between two kernels", commands.TRACE, ("kernels", ("time between kernels",))
    )
    computed = f"{between.source}, computed: idle time over kernels" if between.source else ""
    yield _without_card(between.name) if run.platform == "cpu" else replace(between, source=computed)
    works = {"scheduling": "decision of the scheduler", "serialization": "serialization between processes"}
    shares = {one.subject: one for one in reversed(run.observed.of("host", "share of a step", joined=False))}
    for work, title in works.items():
        share = shares.get(work)
        value = f"{share.value} % of the engine's step" if share else ""
        yield Entry(title, value, _place(share) if share else "", commands.STACKS)


def _launches(run: Run) -> Iterator[Entry]:
    steps = _first(run, "steps")
    name, whole = "launches a step, kernels and graphs", _positive(_first(run, "launches"))
    if run.platform == "cpu":
        name = "operators a step (no kernels on a CPU)"
        whole = sum(map(_positive, _profile(run, "class launches")))
    each = _per(whole, steps)
    yield Entry(
        name, each, f"{_place(steps)}, over {steps.value} steps" if each and steps else "", commands.PROFILE
    )
    overhead = _measured(run, "overhead of a launch", commands.NSYS, ("kernels", ("overhead of a launch",)))
    yield _without_card(overhead.name) if run.platform == "cpu" else overhead
    eager, captured = run.config.get("enforce_eager"), run.measured.get("graph_capture_seconds")
    if eager is not None and eager.value:
        yield Entry("CUDA graphs", "off (--enforce-eager)", _line(eager))
    elif captured is not None:
        yield Entry("CUDA graphs", f"captured in {number(captured.value)} s", _line(captured))
    else:
        yield Entry("CUDA graphs", command=commands.LOG)


def _quantization(run: Run) -> Iterator[Entry]:
    times = _profile(run, "class time")
    time = next((one for one in times if one.subject == "quantize"), None)
    each = _per(_positive(time), _first(run, "steps"))
    words = f"{number(_positive(time))} µs" + (f", {each} µs a step" if each else "")
    found = words if time else "none in the profile" if times else ""
    yield Entry(
        "time in quantize kernels", found, _place(time or times[0]) if times else "", commands.PROFILE
    )
    moved = [one for one in run.observed.of("kernels", joined=False) if one.name.startswith("dram__bytes_")]
    words = f"{number(sum(map(_positive, moved)) / 1e6)} MB in the profiled kernels" if moved else ""
    traffic = Entry(
        "memory traffic of conversions", words, _place(moved[0]) if moved else "", commands.TRAFFIC
    )
    yield _without_card(traffic.name) if run.platform == "cpu" else traffic


def _speed(run: Run) -> Iterator[Entry]:
    for level in load_levels(run.samples):
        running = f"{level.low}" if level.low == level.high else f"{level.low} to {level.high}"
        rate = f"{number(level.generation[1])} tokens/s, median of {plural(level.samples, 'sample')}"
        yield Entry(f"{running} running", rate, "log, statistics lines")
    span, steps = _first(run, "kernel span"), _first(run, "steps")
    if steps and (each := _per(_positive(span) / 1000, steps)):
        yield Entry(
            "a step while it was profiled", f"{each} ms", f"{_place(steps)}, over {steps.value} steps"
        )
    yield _measured(run, "tg32 of this engine and others", commands.BENCH, ("client", ("tg32",)))
    yield Entry("kernel and CPU shares of other engines", command=commands.OTHERS)


def _findings(diagnosis: Diagnosis) -> Iterator[Entry]:
    for found in diagnosis.findings[:5]:
        yield Entry(found.title, prose(found.explanation), _line(found) or "log")
    if not diagnosis.findings:
        yield Entry("bottlenecks", "none found", "log")


def _profile(run: Run, name: str) -> list[Measured]:
    """Return the values of the first profile: two profiles of one run are never added up."""
    found = run.observed.of("kernels", joined=False)
    chosen = next((one.file for one in found if one.name == "share"), None)
    return [one for one in found if one.name == name and one.file == chosen]


def _first(run: Run, name: str) -> Measured | None:
    return next(iter(_profile(run, name)), None)


def _measured(run: Run, title: str, command: str, *wanted: _Wanted) -> Entry:
    """Return the first value of the groups and names that are wanted."""
    for group, names in wanted:
        for one in run.observed.of(group, joined=False):
            if one.name in names:
                unit = _UNITS.get(one.unit, one.unit)
                if group == "client":
                    unit = f"{unit or 'ms'}, as the client saw it"
                plain = isinstance(one.value, int | float)
                shown = number(_positive(one)) if plain else inline(str(one.value), _NO_SHORT_NAME)
                return Entry(title, f"{shown} {unit}".rstrip(), _place(one))
    return Entry(title, command=command)


def _of_value(name: str, value: Value | None, command: str) -> Entry:
    if value is None:
        return Entry(name, command=command)
    return Entry(
        name, inline(str(value.value), 120), _line(value) or f"default {inline(value.note, 60)}".strip()
    )


def _line(said: Value | Finding) -> str:
    return next((f"{inline(one.file.rpartition('/')[2], 80)} L{one.line}" for one in said.evidence), "")


def _place(one: Measured) -> str:
    place = f"L{one.line}" if one.line is not None else inline(one.where, 40)
    return f"{inline(one.file.rpartition('/')[2], 100)} {place}".strip()


def _positive(one: Measured | None) -> float:
    return float(one.value) if one and isinstance(one.value, int | float) else 0.0


def _per(whole: float, parts: Measured | None) -> str:
    """Return what each of some parts has of a whole, "" where one of them is not known."""
    return number(whole / _positive(parts)) if whole and _positive(parts) else ""
