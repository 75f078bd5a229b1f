"""Figures that words and changes of failure pages name, computed from what the log says."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from vllm_logdoctor.knowledge.history import facts_at, names
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.rules.attention_backends import shared_reason
from vllm_logdoctor.rules.cache_to_give import LITTLE_GIB, spare
from vllm_logdoctor.rules.failure.kernels import failed_kernel
from vllm_logdoctor.rules.release_terms import options_of_fork
from vllm_logdoctor.run.model import Run
from vllm_logdoctor.texts import gib_of

Values = dict[str, Any]
_DRAFTER = lazy_pattern(r"spec_decode/|speculat|ngram|eagle|medusa|suffix_decoding|propose_draft|_mtp")
_LITTLE_CACHE_GIB = 1.0
_FEW_SETTINGS = 2
_NAME_WORD = lazy_pattern(r"[a-z]{5,}")
_WITH_COMMAS = lazy_pattern(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_WHOLE = lazy_pattern(r"-?\d+")
_REAL = lazy_pattern(r"-?\d+\.\d+")


def values_of(rule_id: str, groups: Mapping[str, str], facts: Mapping[str, Any], run: Run) -> Values:
    """Return facts of the run, groups of the match as numbers where they are, and what can be computed from both."""
    values: Values = {**facts, **{name: number(text) for name, text in groups.items()}}
    values["weights_share"] = _weights_share(values)
    values["named_settings"], values["fork_settings"] = _settings_named(str(values.get("what") or ""), run)
    tried, left = gib_of(str(values.get("tried"))), gib_of(str(values.get("left")))
    if tried and left and left >= tried:
        values["left_unused"] = values.pop("left")
    compute = _COMPUTED.get(rule_id)
    if compute is not None:
        values.update({name: value for name, value in compute(values).items() if value is not None})
    return {name: value for name, value in values.items() if value is not None}


def number(text: str) -> Any:
    """Return a number for text that is one (thousands separators allowed), else the text.

    >>> number("32,768"), number("0.95"), number("auto")
    (32768, 0.95, 'auto')
    """
    if not text or not text[-1].isdigit():
        return text
    plain = text.replace(",", "") if _WITH_COMMAS.fullmatch(text) else text
    if _WHOLE.fullmatch(plain):
        return int(plain)
    return float(plain) if _REAL.fullmatch(plain) else text


def _settings_named(message: str, run: Run) -> tuple[str | None, str | None]:
    """Return the given arguments that a message speaks of, by name or by a word that few settings of vLLM have; those of a fork apart.

    Tiered cache requires 78 main specs: enable_tiered_cache, tiered_cache_path
    """
    words = {word for word in _NAME_WORD.findall(message.lower()) if _settings_with(word) <= _FEW_SETTINGS}
    named = [
        name
        for name in map(str, run.arguments)
        if "_" in name and (name in message or words.intersection(name.split("_")))
    ]
    forked = [name for name in named if f"--{name.replace('_', '-')}" in options_of_fork(run)]
    known = [name for name in named if name not in forked]
    return _in_code(known), _in_code(forked)


def _in_code(names: Sequence[str]) -> str | None:
    return ", ".join(f"`{name}`" for name in names) or None


@cache
def _settings_with(word: str) -> int:
    return sum(word in name.split("-") for name in names("flags"))


def _weights_share(values: Mapping[str, Any]) -> float | None:
    """Return which part of the card the weights take, where the log says both."""
    weights, total = values.get("model_weights_gib"), values.get("total")
    if isinstance(weights, int | float) and isinstance(total, int | float) and total > 0:
        return round(weights / total, 3)
    return None


_HELD = lazy_pattern(
    r"(?:Process (?P<process>\d{1,10}) )?has (?P<held>\d+(?:\.\d+)?) (?P<unit>[GM])iB memory in use"
)


def _held_by_others(values: Mapping[str, Any]) -> Values:
    """Return what the processes that an out-of-memory text lists beside this one hold: Process 7 has 8.75 GiB memory in use."""
    total = _real(values.get("total"))
    found = list(_HELD.finditer(str(values.get("others") or "")))
    sizes = [float(one["held"]) / (1 if one["unit"] == "G" else 1024) for one in found]
    held = sum(sizes)
    if not held or not total:
        return {}
    size, process = max((size, one["process"]) for size, one in zip(sizes, found, strict=True))
    named = {"largest": process, "largest_gib": round(size, 2)} if process and len(found) > 1 else {}
    return {"others_gib": round(held, 2), "others_share": round(held / total, 3), **named}


MOSTLY_FREE = 0.8
"""Share of a card that is free where what others hold is a desktop's, and no other server's."""
_DESKTOP = 1.5
"""GiB that a desktop holds at most: on a small card it is a larger share."""
LEAST_SHARE = 0.2
"""Share of a card below which there is no place for a model."""


def _free_at_start(values: Mapping[str, Any]) -> Values:
    if values.get("others"):
        return _held_by_others(values)
    free, total, utilization = (_real(values.get(name)) for name in ("free", "total", "utilization"))
    if not free or not total:
        return {}
    fitting = round(math.floor(100 * free / total) / 100 - 0.01, 2)
    stays = fitting >= MOSTLY_FREE or total - free < _DESKTOP
    missing = round(utilization * total - free, 2) if utilization else None
    return {
        "fitting_utilization": fitting if stays else None,
        "shared_utilization": fitting if fitting >= LEAST_SHARE and not stays else None,
        "missing": missing,
        "used": round(total - free, 2),
    }


def _kv_too_small(values: Mapping[str, Any]) -> Values:
    estimate = values.get("estimate")
    if not isinstance(estimate, int) or estimate <= 0:
        stored, wanted, needed, available = (
            _real(values.get(name)) for name in ("stored", "wanted", "needed", "available")
        )
        estimate = (
            int(stored)
            if stored
            else int(wanted * available / needed)
            if wanted and needed and available and available > 0
            else None
        )
    if not estimate or estimate <= 0:
        return {}
    step = 1024 if estimate > 4096 else 16
    return {"estimate": estimate, "fitting_length": max(16, estimate // step * step)}


def _divisors(values: Mapping[str, Any]) -> Values:
    heads, size = _real(values.get("heads")), _real(values.get("size"))
    if not heads or not size:
        return {}
    fitting = [n for n in range(1, int(heads) + 1) if heads % n == 0 and n <= 64]
    below = [n for n in fitting if n < size]
    if values.get("platform") == "cpu":
        # The CPU backend binds each rank to a NUMA node of its own; that there are several shows in no log.
        below = below[:1]
    return {"fitting_size": below[-1] if below else None, "fitting_sizes": ", ".join(map(str, fitting))}


def _block_divisors(values: Mapping[str, Any]) -> Values:
    part, block, size = (
        _real(values.get("part")),
        _real(values.get("block")),
        _real(values.get("tensor_parallel_size")),
    )
    if not part or not block or not size:
        return {}
    whole = int(part * size)
    # Heads are a multiple of the size that was asked for: they are one of its divisors too, and not of 7 below 8.
    smaller = [n for n in range(2, int(size)) if int(size) % n == 0]
    fitting = [n for n in smaller if whole % n == 0 and (whole // n) % int(block) == 0]
    return {"fitting_size": fitting[-1], "pipeline": int(size) // fitting[-1]} if fitting else {}


def _other_build(values: Mapping[str, Any]) -> Values:
    """Return the temporary environment that a build runs in, where a tool is looked for in that of another build."""
    own = values.get("build_environments") or ()
    looked_in = str(values.get("what")).partition("/bin/")[0]
    return {"own_environment": own[0]} if own and looked_in not in own else {}


def _rank_limit(values: Mapping[str, Any]) -> Values:
    needed = _real(values.get("needed"))
    if not needed:
        return {}
    allowed = (8, 16, 32, 64, 128, 256, 320, 512)
    return {"fitting_rank": next((n for n in allowed if n >= needed), int(needed))}


def _seqs_that_fit(values: Mapping[str, Any]) -> Values:
    seqs = _real(values.get("seqs")) or _real(values.get("max_num_seqs"))
    return {"half_seqs": max(1, int(seqs) // 2)} if seqs else {}


def _room(values: Mapping[str, Any]) -> Values:
    utilization = _real(values.get("gpu_memory_utilization"))
    found: Values = _seqs_that_fit(values)
    if utilization and utilization > 0.55:
        found["lower_utilization"] = round(utilization - 0.05, 2)
    if utilization and utilization < 0.94:
        found["higher_utilization"] = round(min(0.95, utilization + 0.05), 2)
    tokens = _real(values.get("max_num_batched_tokens"))
    if tokens and tokens > 2048:
        found["half_tokens"] = int(tokens) // 2
    return found


_MOST_OF_SHARE = 0.85
"""Part of an engine's share of the card above which the weights leave no room for the cache and a step."""
_USUAL_UTILIZATION = 0.9


def _loading_room(values: Mapping[str, Any]) -> Values:
    """Return the number of cards over which the weights leave room for the cache: twice as many, or more where these are too few."""
    size, weights, total = (
        _real(values.get(name)) for name in ("tensor_parallel_size", "weights_each", "total")
    )
    if not size:
        return {}
    share = (
        (_real(values.get("gpu_memory_utilization")) or _USUAL_UTILIZATION) * (total or 0) * _MOST_OF_SHARE
    )
    larger = 2
    while weights and share and weights / larger > share:
        larger *= 2
    return {"larger_size": int(size) * larger}


def _serving_room(values: Mapping[str, Any]) -> Values:
    """Return what makes room for a step: at least the share of the card that the failed allocation needs beside what is free."""
    found = _room(values)
    tried, total, reserved = (
        gib_of(str(values.get("tried"))),
        _real(values.get("total")),
        gib_of(str(values.get("reserved"))),
    )
    if tried and reserved and reserved >= tried:
        found["fragmented"] = values["reserved"]
    if tried and total:
        share = math.ceil(100 * tried / total) / 100
        found["failed_share"] = f"{share:g} or more, the share of the card that the failed allocation needs"
        utilization = _real(values.get("gpu_memory_utilization"))
        if utilization and "lower_utilization" in found and utilization - share > LEAST_SHARE:
            found["lower_utilization"] = round(min(found["lower_utilization"], utilization - share), 2)
    else:
        found["failed_share"] = "more than the failed allocation's share of the card's memory"
    return found


def _capture_room(values: Mapping[str, Any]) -> Values:
    """Return what makes room for CUDA graphs: a cache that holds hardly anything has none to give."""
    found = _room(values)
    cache = _real(values.get("available_kv_cache_gib"))
    if cache is not None and cache < _LITTLE_CACHE_GIB:
        found.pop("lower_utilization", None)
    tokens, longest = _real(values.get("kv_cache_tokens")), _real(values.get("max_model_len"))
    if cache and tokens and longest and 0 <= (left := spare(cache, tokens, longest)) < LITTLE_GIB:
        found["spare_gib"] = left
    return found


_STEP_GIB = 1.0
"""What a step of gpu_memory_utilization brings on a small card: it does not help where more is missing."""


def _cache_room(values: Mapping[str, Any]) -> Values:
    """Return the size of a cache that the host has room for, where the CPU backend names what is free; else room on a card."""
    free = _real(values.get("host_free"))
    if free is not None:
        return {"host_cache": int(free / 2) or None}
    room = _room(values)
    if float(values.get("available_kv_cache_gib") or 0) < -_STEP_GIB:
        room.pop("higher_utilization", None)
    left = "nothing" if values.get("available_kv_cache_gib") is None else None
    return {**room, "device_share": values.get("gpu_memory_utilization"), "left_for_cache": left}


def _next_port(values: Mapping[str, Any]) -> Values:
    """Return a port for the server, where what is in use is its port and no other socket."""
    port = _real(values.get("port")) if not values.get("socket") else None
    return {"other_port": int(port) + 1} if port and port < 65535 else {}


def _split_sizes(values: Mapping[str, Any]) -> Values:
    """Return whether two sizes differ by the number of ranks: one side was split and the other was not."""
    one, other = _real(values.get("a")), _real(values.get("b"))
    ranks = {_real(values.get("tensor_parallel_size")), _real(values.get("ranks"))} - {None, 0, 1}
    split = one and other and max(one, other) / min(one, other) in ranks
    return {"sizes_differ_by": "ranks" if split else None}


_FEATURES = {
    "enable_chunked_prefill": "chunked prefill",
    "enable_prefix_caching": "prefix caching",
    "speculative_config": "speculative decoding",
    "async_scheduling": "async scheduling",
}


def _drafting(values: Mapping[str, Any]) -> Values:
    """Return whether an error was raised in or below code of speculative decoding, its options to leave out first, and which
    features a server can do without.

    vllm/v1/spec_decode/ngram_proposer.py:propose
    """
    on = [words for name, words in _FEATURES.items() if values.get(name)]
    serving = "serving" in str(values.get("phase_words"))
    drafts = _DRAFTER.search(f"{values.get('raised_in')} {values.get('passes_through')}") is not None
    given = values.get("speculative_config")
    switched = _switched_on(given, values.get("version")) if drafts and isinstance(given, dict) else ()
    return {
        "in_drafter": True if drafts and not switched else None,
        "drafter_switches": ", ".join(f"`{name}`" for name in switched) or None,
        "usual_drafter": {name: value for name, value in given.items() if name not in switched}
        if switched and isinstance(given, dict)
        else None,
        "features_on": ", ".join(on) if on and serving else None,
    }


def _switched_on(given: Mapping[str, Any], version: Any) -> tuple[str, ...]:
    """Return the options of speculative decoding that are switched on and off by default: their code is rarely run."""
    return tuple(
        name
        for name, value in given.items()
        if value is True
        and (known := facts_at("fields", f"SpeculativeConfig.{name}", version)) is not None
        and known.get("default") == "False"
    )


def _offered_cuda(values: Mapping[str, Any]) -> Values:
    """Return the CUDA release of a driver: torch says 12020 for 12.2."""
    driver = values.get("driver")
    return {"offered": f"{driver // 1000}.{driver % 1000 // 10}"} if isinstance(driver, int) else {}


# {"CPU": 1.0, 'GPU': 0.1}
_RESOURCE = lazy_pattern(r"[\"'](?P<name>[\w:.-]{1,60})[\"']: (?P<amount>\d{1,18}(?:\.\d{1,18})?)")


def _lacking_resources(values: Mapping[str, Any]) -> Values:
    """Return what Ray does not have of what is asked for: {"CPU": 1.0, "GPU": 0.1} where {"CPU": 8.0} is offered lacks a GPU."""
    offered = defaultdict[str, float](float)
    for name, amount in _RESOURCE.findall(str(values.get("offered") or "")):
        offered[name] += float(amount)
    needed = defaultdict[str, float](float)
    for name, amount in _RESOURCE.findall(str(values.get("needed") or "")):
        needed[name] += float(amount)
    lacking = [
        f"{name} (needs {needed[name]:g}, has {offered[name]:g})"
        for name in needed
        if needed[name] > offered[name]
    ]
    return {"lacking": ", ".join(lacking) or None}


def _item_budget(values: Mapping[str, Any]) -> Values:
    needed = _real(values.get("needed"))
    return {"enough_tokens": int(math.ceil(needed / 1024) * 1024)} if needed else {}


def _real(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _trial_inputs(values: Mapping[str, Any]) -> Values:
    """Return what makes the trial smaller; V0 takes one item a request unless more are asked for."""
    asked = values.get("limit_mm_per_prompt")
    most = (
        max((n for n in asked.values() if isinstance(n, int)), default=0) if isinstance(asked, dict) else None
    )
    several = most > 1 if most is not None else values.get("engine") == "V1"
    return {**_room(values), **({"item_limit": '{"image": 1}'} if several else {})}


# Value error, Tiered MoE requires kv_cache_dtype=fp8_ds_mla
_SUBJECT = lazy_pattern(
    r"(?:^|[:,] )(?!(?:This|The|It|You|Please|Model)\b)(?P<name>[A-Z]\w*(?: \w+){0,3}) (?:requires|needs) "
)


def _flag_of_setting(values: Mapping[str, Any]) -> Values:
    """Return the flag of a setting that a check asks for, kv_cache_dtype=fp8 is --kv-cache-dtype fp8, and the feature that needs it.

    A check of the draft model's configuration asks for what the launch may give the served model already. Without a setting, and
    without a step that the message states, its condition is all that it says.
    """
    setting, wanted = values.get("setting"), values.get("wanted")
    if not setting:
        said = any(values.get(name) for name in ("stated", "named_settings", "fork_settings"))
        return {} if said else {"condition": values.get("what")}
    subject = _SUBJECT.search(str(values.get("what")))
    found: Values = {"feature": subject["name"] if subject else "the feature that asks for it"}
    if str(values.get(str(setting))) != str(wanted):
        return {**found, "flag": f"--{str(setting).replace('_', '-')}"}
    draft = values.get("speculative_config")
    own = draft.get(setting) if isinstance(draft, dict) else None
    return {**found, "given": wanted if draft else None, "of_draft": own if own != wanted else None}


def _visible_devices(values: Mapping[str, Any]) -> Values:
    """Return how many devices a process sees: torch prints a number of 8 bits as the character of that code."""
    gpus = values.get("gpus")
    return {"seen": ord(gpus)} if isinstance(gpus, str) and len(gpus) == 1 else {}


def _refused_by_backends(values: Mapping[str, Any]) -> Values:
    """Return the type of a KV cache that has one of its own, the reason that all attention backends give, and the setting that it names."""
    kind, why = values.get("kv_cache_dtype"), str(values.get("why") or "")
    shared = shared_reason(why)
    name = shared.partition(" ")[0] if shared else ""
    return {
        "cache_type": kind if kind not in (None, "auto") else None,
        "shared": shared,
        "reasons": None if shared else why or None,
        "refused": f"{name}={values[name]}" if values.get(name) not in (None, "auto") else None,
    }


def _path_of_model(values: Mapping[str, Any]) -> Values:
    """Return whether a file that was not found is in the directory of the served model, and not in a drafter's or a tokenizer's."""
    path, model = str(values.get("path") or ""), str(values.get("model") or "").rstrip("/")
    return {"in_model": "yes" if model and path.startswith(f"{model}/") else "no"}


_CACHES = (
    (
        lazy_pattern(r"torch_compile_cache|/\.cache/vllm\b|torch_aot_compile"),
        "`VLLM_CACHE_ROOT`",
        "the compile cache",
    ),
    (lazy_pattern(r"huggingface|/hub/"), "`HF_HOME`", "the incomplete model download"),
    (lazy_pattern(r"torchinductor"), "`TORCHINDUCTOR_CACHE_DIR`", "the compile cache"),
    (lazy_pattern(r"\.triton\b"), "`TRITON_CACHE_DIR`", "the compile cache"),
    (lazy_pattern(r"^/tmp/"), "`TMPDIR`", "the incomplete files"),
)
_ALL_CACHES = (
    "`HF_HOME` (downloads), `VLLM_CACHE_ROOT`, `TORCHINDUCTOR_CACHE_DIR`, `TRITON_CACHE_DIR` and `TMPDIR`"
)


def _variables_of_path(values: Mapping[str, Any]) -> Values:
    """Return the variable that moves the cache which a path belongs to, and what is unfinished there; all of them for another path."""
    path = str(values.get("path") or "")
    found = ((name, what) for known, name, what in _CACHES if known.search(path))
    name, what = next(found, (_ALL_CACHES, "an incomplete model download, a compile cache"))
    return {"variables": name, "unfinished": what}


_LEAST_ROW = 16
"""Placeholders in a row of an image: fewer for each missing one are whole items."""


def _placeholder_gap(values: Mapping[str, Any]) -> Values:
    """Return how many placeholders are without an embedding, or how many embeddings without a placeholder.

    One embedding more for each row of an image, 34 of 2,074 for 2,040, is no item that a step cuts.
    """
    places = _real(values.get("places")) or 0
    gap = (_real(values.get("embeddings")) or 0) - places
    of_rows = gap > 1 and places % gap == 0 and places >= _LEAST_ROW * gap
    return {} if of_rows else {"missing" if gap > 0 else "extra": int(abs(gap)) or None}


_COMPUTED: dict[str, Callable[[Mapping[str, Any]], Values]] = {
    "attention-backend-incompatible": _refused_by_backends,
    "gpu-memory-not-free-at-start": _free_at_start,
    "gpu-visibility-env-conflict": _visible_devices,
    "kv-cache-too-small-for-max-model-len": _kv_too_small,
    "parallel-size-indivisible": _divisors,
    "quant-shape-indivisible-by-tp": _block_divisors,
    "lora-rank-exceeds-limit": _rank_limit,
    "stale-or-partial-build": _other_build,
    "multimodal-token-count-bug": _placeholder_gap,
    "model-path-not-found": _path_of_model,
    "oom-sampler-warmup": _room,
    "oom-cudagraph-capture": _capture_room,
    "oom-multimodal-profiling": _trial_inputs,
    "oom-warmup": _room,
    "oom-runtime-headroom": _serving_room,
    "oom-weights-load": _loading_room,
    "no-memory-left-for-kv-cache": _cache_room,
    "port-in-use": _next_port,
    "mm-item-larger-than-batch-budget": _item_budget,
    "engine-code-bug": _drafting,
    "disk-full-or-quota": _variables_of_path,
    "settings-refused": _flag_of_setting,
    "driver-too-old": _offered_cuda,
    "ray-not-enough-gpus": _lacking_resources,
    "tp-sharding-bug": _split_sizes,
    "kernel-backend-unsupported-on-arch": failed_kernel,
}
