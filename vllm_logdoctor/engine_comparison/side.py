"""One side of a comparison of engines: a run of vLLM, a log of SGLang or llama.cpp, or a benchmark without a server."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from msgspec import Struct, convert

from vllm_logdoctor.evidence.model import EvidenceFile
from vllm_logdoctor.rules.equal_load import LoadLevel
from vllm_logdoctor.run.servers import NAMES, VLLM
from vllm_logdoctor.texts import gib_of

Node = Mapping[str, Any]
_ALL_NAMES = {VLLM: "vLLM", **NAMES}


class Cell(Struct, frozen=True):
    """A value with the line that prints it.

    Example:
        >>> Cell(950420, 100).line
        100
    """

    value: float | str
    line: int | None = None
    note: str = ""


class Side(Struct, frozen=True):
    """What is known of one side; None is not known, never assumed equal.

    Attributes:
        engine: as in `run.servers`.
        label: engine and release for the head of a column.
        file: file that it was read from.
        model: name of the model.
        weights: format of the weights: "bf16", "q4_k_m", "compressed-tensors".
        weight_gib: size of the weights on one device.
        kv_dtype: type of the KV cache.
        devices: tensor-parallel times data-parallel ranks.
        part: "prefill" or "decode" where the server is one half of a disaggregated pair.
        card: device that the file names.
        drafts: method of speculative decoding; "" for none, None where not known.
        acceptance: median tokens per step.
        hit_rate: prompt tokens that came from a prefix cache, in percent.
        handicaps: settings that slow an engine down.
        levels, step_levels: tokens/s and steps/s by running requests.
        single: cells by name: "ready", "kv tokens", "context per request", "decode tok/s per request".
        tests: benchmarks without a server, by name.
        shares: percent of kernel time by class, and "CPU" of the busiest thread, with the file.
    """

    engine: str
    label: str
    file: str
    model: str | None
    weights: str | None
    weight_gib: float | None = None
    kv_dtype: str | None = None
    devices: int | None = None
    part: str = ""
    card: str | None = None
    drafts: str | None = None
    acceptance: float | None = None
    hit_rate: float | None = None
    handicaps: tuple[str, ...] = ()
    levels: tuple[LoadLevel, ...] = ()
    step_levels: tuple[LoadLevel, ...] = ()
    single: Mapping[str, Cell] = {}
    tests: Mapping[str, Cell] = {}
    shares: Mapping[str, Cell] = {}


def side_of_run(run: Node, shares: Mapping[str, Cell] | None, card: str | None) -> Side:
    """Return the side of a run in the JSON document of a report."""
    return (_of_vllm if run["server"] == VLLM else _of_engine)(run, shares or {}, card)


def _of_vllm(run: Node, shares: Mapping[str, Cell], card: str | None) -> Side:
    config = {name: one["value"] for name, one in run["config"].items()}
    serving, version = run["serving"], (run["vllm_version"] or {}).get("value")
    weights = config.get("quantization") or config.get("dtype")
    drafts = config.get("speculative_config")
    ranks = [
        config.get(name) for name in ("tensor_parallel_size", "data_parallel_size", "pipeline_parallel_size")
    ]
    single = {}
    if one := run["measured"].get("kv_cache_tokens"):
        single["kv tokens"] = Cell(one["value"], _line(one))
    if config.get("max_model_len"):
        single["context per request"] = Cell(config["max_model_len"], _line(run["config"]["max_model_len"]))
    start = next((one for one in run["phases"] if one["name"] == "startup" and one["seconds"]), None)
    if start and run["startup_complete"]:
        single["ready"] = Cell(round(start["seconds"], 1), _line(start))
    weight = run["measured"].get("model_weights_gib")
    return Side(
        VLLM,
        f"vLLM {version}" if version else "vLLM (release not in the log)",
        run["files"][0],
        _text((run["model"] or {}).get("value")),
        weight_format(_text(weights)),
        weight["value"] if weight else None,
        _text(config.get("kv_cache_dtype")),
        _product(ranks),
        card=card,
        drafts=_drafts(drafts) if "model" in config else None,
        acceptance=serving["acceptance_length"],
        hit_rate=serving["prefix_cache_hit_rate"]["last"],
        handicaps=("--enforce-eager",) if config.get("enforce_eager") else (),
        levels=convert(serving["levels"], tuple[LoadLevel, ...]),
        step_levels=convert(serving["step_levels"], tuple[LoadLevel, ...]),
        single=single,
        shares=shares,
    )


def _of_engine(run: Node, shares: Mapping[str, Cell], card: str | None) -> Side:
    facts = {one["name"]: one for one in (run["engine_log"] or {"facts": ()})["facts"]}
    serving = run["serving"]

    def value(*names: str) -> Any:
        return next((facts[name]["value"] for name in names if name in facts), None)

    single = {
        name: Cell(facts[fact]["value"], facts[fact]["line"], note)
        for name, fact, note in (
            ("kv tokens", "kv tokens", ""),
            ("kv tokens", "kv cells", ""),
            ("context per request", "context", ""),
            ("context per request", "context per slot", ""),
            ("ready", "ready s", ""),
            ("decode tok/s per request", "decode tok/s per request", str(facts.get("decode tok/s per request", {}).get("unit", ""))),
        )
        if fact in facts
    }  # fmt: skip
    name = _ALL_NAMES.get(run["server"], run["server"])
    build, known = value("build"), "model_path" in facts
    return Side(
        run["server"],
        f"{name} {build}" if build else f"{name} (release not in the log)",
        run["files"][0],
        _text(value("model_path", "model", "model file")),
        weight_format(_text(value("weights quant", "quantization", "weights dtype", "dtype")))
        or _format_in(_text(value("model file"))),
        gib_of(str(value("size") or f"{value('weights mem usage')} GiB")),
        _text(value("kv_cache_dtype", "kv type")),
        _product([value("tp_size"), value("dp_size") or 1]) if known else None,
        part=str(value("disaggregation_mode") or "").replace("null", ""),
        card=card or _text(value("device")),
        drafts=str(value("speculative_algorithm") or "") if known else ("" if run["server"] == "llama.cpp" else None),
        acceptance=serving["acceptance_length"],
        hit_rate=_hits(facts.get("prefix hits")),
        handicaps=_handicaps(value),
        levels=convert(serving["levels"], tuple[LoadLevel, ...]),
        step_levels=convert(serving["step_levels"], tuple[LoadLevel, ...]),
        single=single,
        shares=shares,
    )  # fmt: skip


def side_of_benchmark(found: EvidenceFile) -> Side:
    """Return the side of a benchmark that runs without a server."""
    engine = "sglang" if found.kind.startswith("sglang") else "llama.cpp"
    spreads = {
        (one.name.removesuffix(" spread"), one.subject): one.value
        for one in found.readings
        if one.name.endswith(" spread")
    }
    tests: dict[str, Cell] = {}
    for one in found.readings:
        if one.unit != "tok/s" or one.name.endswith(" spread") or not isinstance(one.value, int | float):
            continue
        name = {"Decode throughput": "decode, one batch"}.get(one.name, one.name)
        if found.kind == "llama-batched-bench":
            name = f"{one.name}, {one.subject}"
        spread = spreads.get((one.name, one.subject))
        line = one.line if isinstance(one.line, int) else None
        note = f"± {spread:g}" if isinstance(spread, int | float) else ""
        tests.setdefault(name, Cell(float(one.value), line, note))
    values = {one.name: one.value for one in found.readings}
    model = next(
        (one.subject for one in found.readings if one.subject and found.kind != "llama-batched-bench"), ""
    )
    build = values.get("build")
    # llama-bench names architecture and size ("qwen2 1.5B"), which many models share.
    return Side(
        engine,
        f"{_ALL_NAMES[engine]} {build} (benchmark)" if build else f"{_ALL_NAMES[engine]} (benchmark)",
        found.file,
        _text(values.get("model_filename")),
        weight_format(model.partition("B ")[2] or None),
        gib_of(str(values.get("size"))),
        card=_text(values.get("device") or values.get("gpu_info")),
        drafts="",
        devices=1,
        tests=tests,
    )


def weight_format(text: str | None) -> str | None:
    """Return the format of weights under one name for all engines; None for "auto", which names none.

    Example:
        >>> weight_format("Q4_K - Medium"), weight_format("torch.bfloat16"), weight_format("mostly Q8_0"), weight_format("auto")
        ('q4_k_m', 'bf16', 'q8_0', None)
    """
    if not text or text in ("auto", "None", "none"):
        return None
    plain = text.lower().removeprefix("torch.").removeprefix("mostly ").replace(" - ", "_").replace(" ", "_")
    for long, short in (
        ("_medium", "_m"),
        ("_small", "_s"),
        ("_large", "_l"),
        ("bfloat16", "bf16"),
        ("float16", "f16"),
        ("half", "f16"),
        ("float32", "f32"),
    ):
        plain = plain.replace(long, short)
    return plain


# qwen2.5-1.5b-instruct-q4_k_m.gguf
_FORMAT = re.compile(r"[-._]((?:i?q\d(?:_\w{1,4})*)|bf16|f16|f32|mxfp4)\.gguf$", re.IGNORECASE)


def _format_in(file: str | None) -> str | None:
    """Return the format of the weights that a GGUF file is named after, or None."""
    found = _FORMAT.search(file or "")
    return found[1].lower() if found else None


def _drafts(config: Any) -> str:
    if not config:
        return ""
    named = config.get("method") or config.get("model") or "on" if isinstance(config, Mapping) else config
    return str(named)


def _handicaps(value: Any) -> tuple[str, ...]:
    found = []
    if str(value("disable_cuda_graph")) == "True":
        found.append("--disable-cuda-graph")
    layers, _, whole = str(value("offload") or "").partition("/")
    if layers != whole:
        found.append(f"{layers} of {whole} layers on the GPU")
    return tuple(found)


def _hits(fact: Node | None) -> float | None:
    """Return SGLang's share of cached prompt tokens: "of 783300 prompt tokens" is its unit."""
    if fact is None:
        return None
    whole = int(str(fact["unit"]).split()[1])
    return round(100 * float(fact["value"]) / whole, 1) if whole else None


def _line(one: Node) -> int | None:
    lines = one.get("evidence") or ()
    return int(lines[0]["line"]) if lines else None


def _text(value: object) -> str | None:
    return str(value) if value not in (None, "") else None


def _product(ranks: Sequence[object]) -> int | None:
    whole = 1
    for one in ranks:
        if one is None:
            continue
        try:
            whole *= int(str(one))
        except ValueError:
            return None
    return whole


def same_model(one: str, other: str) -> bool:
    """Return whether two names may be of one model: the words of the shorter one are all in the longer one.

    Example:
        >>> same_model("Qwen/Qwen2.5-1.5B-Instruct", "/models/qwen2.5-1.5b-instruct-q4_k_m.gguf")
        True
        >>> same_model("Qwen/Qwen3-8B", "Qwen/Qwen3-14B")
        False
    """
    words = [_words(name) for name in (one, other)]
    shorter, longer = sorted(words, key=len)
    return bool(shorter) and shorter <= longer


_FORMAT_WORDS = frozenset((
    "gguf", "q2", "q3", "q4", "q5", "q6", "q8", "0", "1", "k", "m", "s", "l", "small", "medium", "large", "bf16", "f16", "f32", "fp16",
    "fp8", "it"
))  # fmt: skip


def _words(name: str) -> frozenset[str]:
    plain = PurePath(name.lower().rstrip("/")).name
    for sign in "-_ ":
        plain = plain.replace(sign, " ")
    plain = plain.removesuffix(".gguf")
    return frozenset(word for word in plain.split() if word not in _FORMAT_WORDS)
