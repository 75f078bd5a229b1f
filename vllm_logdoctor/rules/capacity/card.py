"""The card of a run: by the lines that name it, by what its job asked for, or by a memory that one card has."""

from __future__ import annotations

from msgspec.structs import replace

from vllm_logdoctor.events import Event
from vllm_logdoctor.knowledge.cards import Card, card_for
from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.rules.capacity.memory import AS_PRINTED, CARD_LISTS, device_total
from vllm_logdoctor.run.model import Run

OF_THE_JOB = ("job-asks-cards", "job-names-card")
"""Patterns of the lines in which a job names the card that it asks for."""
# Memory that drivers report of cards that no other card is mistaken for. Jetson Thor has the bandwidth of GB10.
_BY_MEMORY = (
    ("cuda", 118.0, 123.5, "NVIDIA GB10"),
    ("cuda", 138.5, 140.5, "NVIDIA H200"),
    ("cuda", 177.5, 179.5, "NVIDIA B200"),
    ("rocm", 191.0, 192.1, "AMD Instinct MI300X"),
    ("rocm", 255.0, 256.1, "AMD Instinct MI325X"),
)
# ...configs/E=128,N=384,device_name=NVIDIA_H100_80GB_HBM3.json
_KERNELS_FOR = lazy_pattern(r"device_name=(?P<name>[\w-]{3,60}?)(?:,|\.json|\])")
# 9.0a    8.0;9.0    "8.6 8.9"
_ARCHITECTURES = lazy_pattern(r"\b(\d{1,2}\.\d)[af]?\b")


def device_of(run: Run) -> Card | None:
    """Return the card of a run where something names it or tells it from all others; None where it does not."""
    named = device_name(run)
    if named is not None:
        return card_for(named[0])
    names = {str(one.value) for name in ("name", "product") for one in run.observed.of("gpus", name)}
    if len(names) == 1:
        return card_for(names.pop(), run.observed.card_memory())
    return _card_of_the_job(run) or _card_of_memory(run)


def device_name(run: Run) -> tuple[str, Event] | None:
    """Return the one name of the cards of a run and the event that holds it: of nvidia-smi, or of a file of tuned kernels."""
    for pattern in CARD_LISTS:
        found = _one_name(run, pattern)
        if found is not None:
            return found
    for seen in run.messages.values():
        for event in seen.first[:1]:
            message = event.record.message
            match = _KERNELS_FOR.search(message) if "device_name=" in message else None
            if match:
                return match["name"].replace("_", " "), event
    return None


def job_card(run: Run) -> tuple[str, Event] | None:
    """Return the card that a job asks for, as its script or the batch system calls it, and the event that holds it."""
    return next((found for pattern in OF_THE_JOB if (found := _one_name(run, pattern))), None)


def _one_name(run: Run, pattern: str) -> tuple[str, Event] | None:
    seen = run.seen(pattern)
    named = [event for event in seen.first if event.text("name")] if seen else []
    return (named[0].text("name"), named[0]) if len({event.text("name") for event in named}) == 1 else None


def _card_of_the_job(run: Run) -> Card | None:
    """Return the card that the job asks for, unless the printed memory is that of another card or of a slice."""
    asked = job_card(run)
    total = device_total(run)
    printed = total.gib if total is not None and total.basis.endswith(AS_PRINTED) else None
    card = card_for(asked[0], printed) if asked else None
    return replace(card, name=f"{card.name} by the job's request") if card is not None else None


def _card_of_memory(run: Run) -> Card | None:
    """Return the card that alone has the printed memory; slices of larger cards have other sizes than these."""
    total = device_total(run)
    if total is None or not total.basis.endswith(AS_PRINTED):
        return None
    for platform, low, high, name in _BY_MEMORY:
        card = card_for(name) if run.platform == platform and low <= total.gib <= high else None
        if card is not None:
            return replace(card, name=f"{card.name} by its {total.gib:g} GiB")
    return None


def may_share_memory(run: Run) -> bool:
    """Return whether the memory of the device may be the host's memory too, by its card or by its size."""
    card = device_of(run)
    if card is not None:
        return card.unified_memory
    total = device_total(run)
    return total is not None and any(
        run.platform == platform
        and low <= total.gib <= high
        and (known := card_for(name)) is not None
        and known.unified_memory
        for platform, low, high, name in _BY_MEMORY
    )


def compile_targets(run: Run) -> set[float]:
    """Return the compute capabilities that kernels were compiled for at this start: that of its card, if it is one."""
    seen = run.seen("kernel-compile-target")
    events = (*seen.first, seen.last) if seen else ()
    found = {float(f"{event.text('major')}.{event.text('minor')}") for event in events if event}
    listed = run.environment.get("TORCH_CUDA_ARCH_LIST")
    if listed is not None and "PTX" not in str(listed.value):
        found.update(map(float, _ARCHITECTURES.findall(str(listed.value))))
    return found
