"""Which attention backends a step may name: what the run's release, engine and card have, without the one that is in use."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vllm_logdoctor.knowledge.flags import flag_at
from vllm_logdoctor.knowledge.versions import at_least
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.rules.capacity.fp8 import capability_of
from vllm_logdoctor.rules.release_terms import release_of
from vllm_logdoctor.run.lifecycle import trail_of
from vllm_logdoctor.run.model import Run

# Choose another attention backend, such as FLASH_ATTN, FLASHINFER or TRITON_ATTN: `--attention-backend NAME`.
_EXAMPLES = lazy_pattern(r",? such as (?P<names>[A-Z_]{5,}(?:(?:, | or )[A-Z_]{5,})*)(?=:)")
# File "/opt/vllm/v1/attention/backends/mla/flashmla_sparse.py", line 61, in forward
_FILE = lazy_pattern(r"attention/backends/(?:mla/)?(?P<name>\w+)\.py\b")
# {FLASH_ATTN: [kv_cache_dtype not supported], TURBOQUANT: [kv_cache_dtype not supported, sliding window not supported]}
_REASONS = lazy_pattern(r"\w+: \[(?P<reasons>[^\]]*)\]")
_MOST_OF_LINE = 600
_LEAST = {"FLASH_ATTN": 8.0, "FLASHINFER": 7.5}
"""Compute capability that a backend needs."""
_OF_ROCM = ("TRITON_ATTN", "ROCM_ATTN")


def with_backends_of_run(text: str, run: Run) -> str:
    """Return a step with those of its examples of attention backends that the run can change to, "" where it can to none.

    Example:
        >>> from vllm_logdoctor.run.model import Value
        >>> run = Run(version=Value("0.10.2", "reported"), environment={"VLLM_ATTENTION_BACKEND": Value("FLASHINFER", "explicit")})
        >>> with_backends_of_run("Choose one, such as FLASH_ATTN, FLASHINFER or TRITON_ATTN: `--attention-backend NAME`.", run)
        'Choose one, such as FLASH_ATTN or TRITON_ATTN_VLLM_V1: `--attention-backend NAME`.'
    """
    found = _EXAMPLES.search(text)
    if found is None:
        return text
    used = {_plain(one) for one in _in_use(run)}
    named = [one for one in _of_platform(found["names"], used, run) if _plain(one) not in used]
    if not named:
        return ""
    examples = " or ".join(", ".join(named).rsplit(", ", 1))
    return f"{text[: found.start()]}, such as {examples}{text[found.end() :]}"


def _of_platform(examples: str, used: set[str], run: Run) -> list[str]:
    """Return what the run's platform, release and card have of some backends, or in their place."""
    release = release_of(run)
    if run.platform not in (None, "cuda", "rocm") or any("sparse" in one for one in used):
        return []  # Backends of sparse attention fit single models.
    if any("mla" in one for one in used):
        return ["TRITON_MLA"]
    if run.platform == "rocm":
        flag = flag_at("--attention-backend", release)
        return [one for one in _OF_ROCM if flag is not None and one in flag.choices]
    if run.platform is None and "tritonattn" in used:
        return []  # Of ROCm, or of a card of NVIDIA that is too old for others.
    most = capability_of(run).most
    if used & {"xformers", "tritonattn"} and not _settings(run):
        # vLLM takes FLASH_ATTN by itself where the card can: what it took instead says that it can't.
        most = min(most, _LEAST["FLASHINFER"])
    names = [one for one in re.split(r", | or ", examples) if most >= _LEAST.get(one, 0.0)]
    return [_of_release(one, release, run.engine) for one in names]


def _of_release(name: str, release: str | None, engine: str | None) -> str:
    """Return the name of a backend in a release; of one that an engine V0 lacks the backend that it has in its place."""
    if name != "TRITON_ATTN":
        return name
    if engine == "V0" or at_least(release, "0.8.0") is False:
        return "XFORMERS"
    return "TRITON_ATTN_VLLM_V1" if at_least(release, "0.11.0") is False else name


def _in_use(run: Run) -> Iterator[str]:
    """Yield by what names the log calls the attention backend that the run has: in its settings, its own line, its tracebacks."""
    yield from _settings(run)
    seen = run.seen("attention-backend")
    yield from (event.text("backend") for event in (seen.first[:1] if seen is not None else ()))
    for record in trail_of(run):
        found = _FILE.search(record.message[:_MOST_OF_LINE])
        if found is not None:
            yield found["name"]


def _settings(run: Run) -> list[str]:
    given = (run.config.get("attention_backend"), run.environment.get("VLLM_ATTENTION_BACKEND"))
    return [str(one.value) for one in given if one is not None and one.value is not None]


def _plain(name: str) -> str:
    """Return a backend's name without what differs between its settings, lines and files: "Flash Attention" is FLASH_ATTN."""
    plain = re.sub(r"[^a-z]", "", name.rpartition("Enum.")[2].lower().replace("attention", "attn"))
    plain = plain.removesuffix("vllmv")
    return f"{plain}attn" if plain in ("flash", "triton") else plain


def shared_reason(reasons: str) -> str | None:
    """Return the first reason that all attention backends were refused for, as vLLM's message lists them, or None.

    >>> shared_reason("{FLASH_ATTN: [dtype not supported], FLEX: [no sinks, dtype not supported]}")
    'dtype not supported'
    """
    found = [one["reasons"].split(", ") for one in _REASONS.finditer(reasons)]
    return next((one for one in (found or [[]])[0] if all(one in others for others in found)), None)
