"""Model, hardware and software as logged."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_logdoctor.report.escape import code, inline
from vllm_logdoctor.report.figures import number, table
from vllm_logdoctor.report.naming import accelerators, parallelism
from vllm_logdoctor.report.page import Page
from vllm_logdoctor.rules.capacity.card import device_name, job_card
from vllm_logdoctor.rules.release_terms import options_of_fork
from vllm_logdoctor.run.identity import is_inferred, release_words
from vllm_logdoctor.run.lifecycle import trail_of
from vllm_logdoctor.run.model import Run

Row = list[str]

# (name of the row, pattern, text made of the event's fields)
_OF_MODEL = (
    ("architecture", "resolved-architecture", "{architecture}"),
    ("checkpoint", "checkpoint-size", "{gib} GiB"),
)
_OF_HARDWARE = (
    ("kernels compiled for", "rocm-compile-target", "{architecture}"),
    ("memory per device", "memory-on-device", "{total} GiB, {free} GiB free at start"),
    ("memory per device", "memory-left-hint", "{total} GiB, {free} GiB free at start"),
    ("memory per device", "memory-profile-results", "{total} GiB"),
    ("first sleep in the log", "sleep-mode-freed", "{freed} GiB freed, {used} GiB still in use on the card"),
    ("first wake-up in the log", "sleep-mode-woke-up", "{took} s"),
    ("host memory", "checkpoint-size", "{ram} GiB available"),
    ("file system of the weights", "checkpoint-size", "{filesystem}"),
)
_OF_SOFTWARE = (
    ("attention backend", "attention-backend", "{backend}"),
    ("FlashAttention", "flash-attention-version", "{version}"),
    ("NCCL", "vllm-using-nccl", "{ncclgetversion}"),
    ("NCCL", "nccl-version", "{version}"),
    ("sampler", "sampler-flashinfer", "FlashInfer top-p and top-k"),
)
# V0 says "Using Flash Attention backend."
_WHOLE_NAMES = {"Flash": "Flash Attention"}


def machine(page: Page) -> list[str]:
    """Return what ran on what as a table; nothing where the log says nothing of it."""
    rows = [*_model(page), *_hardware(page), *_software(page)]
    return table(["", "in the log", "evidence"], rows) if rows else []


def _model(page: Page) -> Iterator[Row]:
    run = page.run
    if run.model is not None and not _is_configured(run):
        yield ["model", code(str(run.model.value)), page.cite(run.model.evidence, 2)]
    yield from _logged(page, _OF_MODEL)
    measured = run.measured.get("model_weights_gib")
    if measured is not None:
        yield [
            "weights per rank",
            f"{number(run.measure('model_weights_gib'))} GiB",
            page.cite(measured.evidence[:1]),
        ]


def _is_configured(run: Run) -> bool:
    """Return whether the table of the configuration names the model with its lines."""
    given = run.config.get("model")
    return given is not None and given.provenance in ("explicit", "adjusted")


def _hardware(page: Page) -> Iterator[Row]:
    run = page.run
    if run.platform and run.platform_evidence:
        yield ["platform", inline(run.platform), page.cite(run.platform_evidence[:2])]
    named, asked = device_name(run), job_card(run)
    for row, found in (("device", named), ("device that the job asks for", None if named else asked)):
        if found is not None:
            name, event = found
            yield [row, inline(name), page.cite([run.evidence(event.record)])]
    spread = parallelism(run)
    if spread and (accelerators(run) or 1) > 1:
        yield ["ranks", spread, page.cite(run.config["tensor_parallel_size"].evidence[:1])]
    yield from _logged(page, _OF_HARDWARE)
    hosts = sorted({process.host for process in run.processes if process.host})
    if hosts:
        first = {record.process.host: record for record in reversed(trail_of(run))}
        lines = [run.evidence(first[host]) for host in hosts if host in first]
        names = ", ".join(inline(host, 60) for host in hosts[:8])
        yield ["hosts or containers in line prefixes", names, page.cite(lines, 3)]


def _software(page: Page) -> Iterator[Row]:
    version = page.run.version
    # An inferred release has no line, and the headline names it.
    if version is not None and not is_inferred(version):
        known = page.run.engine is not None and page.run.kind != "build"
        engine, shown = (f", {page.run.engine} engine", page.run.engine_evidence) if known else ("", ())
        yield ["vLLM", inline(release_words(version)) + engine, page.cite([*version.evidence[:2], *shown])]
    if own := options_of_fork(page.run):
        lines = [line for evidence in own.values() for line in evidence]
        yield ["modified: options that no release has", ", ".join(map(code, own)), page.cite(lines, 2)]
    yield from _logged(page, _OF_SOFTWARE)


def _logged(page: Page, facts: tuple[tuple[str, str, str], ...]) -> Iterator[Row]:
    seen_already: dict[str, str] = {}
    for words, pattern, wording in facts:
        seen = page.run.seen(pattern)
        if seen is None or not seen.first or words in seen_already:
            continue
        if words == "FlashAttention" and not _is_flash(seen_already.get("attention backend", "Flash")):
            continue  # Of the draft model, or of the encoder of images.
        event = seen.first[0]
        try:
            text = wording.format_map({name: _shown(value) for name, value in event.fields.items()})
        except KeyError:
            continue
        seen_already[words] = text
        yield [words, inline(_WHOLE_NAMES.get(text, text), 120), page.cite([page.run.evidence(event.record)])]


def _is_flash(backend: str) -> bool:
    # FLASH_ATTN, FLASH_ATTN_MLA, Flash Attention and V0's Flash; FLASHINFER and FLASHMLA are other libraries.
    return backend == "Flash" or backend.upper().startswith(("FLASH_ATTN", "FLASH ATT"))


def _shown(value: object) -> str:
    # AttentionBackendEnum.TRITON_ATTN
    return number(value) if isinstance(value, float) else str(value).rpartition("Enum.")[2]
