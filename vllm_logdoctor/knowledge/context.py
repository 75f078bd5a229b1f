"""What is known of a run when a default is asked for, and conditions on it that can also be undecided."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from vllm_logdoctor.knowledge.cards import card_for

Engine = Literal["V0", "V1"]
Kind = Literal["server", "offline"]
Platform = Literal["cuda", "rocm", "tpu", "xpu", "cpu", "hpu", "npu", "neuron"]


class Context(Struct, frozen=True):
    """What a log has shown of a run so far; None everywhere means "not known", never "no".

    `gpu_memory_gib`: memory of one device in GiB. `world_size`: tensor times pipeline parallel size.
    `enable_chunked_prefill`, `max_num_seqs`, `max_num_batched_tokens`, `max_model_len` ...: settings in
    effect as far as known. `mla`: multi-head latent attention. `hybrid`: attention plus state
    space layers. `speculative`: speculative decoding on. `ray`: the Ray executor is used.
    """

    engine: Engine | None = None
    platform: Platform | None = None
    kind: Kind | None = None
    gpu_memory_gib: float | None = None
    device_name: str | None = None
    pooling: bool | None = None
    multimodal: bool | None = None
    hybrid: bool | None = None
    encoder_decoder: bool | None = None
    mla: bool | None = None
    lora: bool | None = None
    speculative: bool | None = None
    ray: bool | None = None
    world_size: int | None = None
    pipeline_parallel_size: int | None = None
    data_parallel_size: int | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    enable_chunked_prefill: bool | None = None
    enable_prefix_caching: bool | None = None
    enforce_eager: bool | None = None
    throughput_mode: bool | None = False

    @property
    def memory_gib(self) -> float | None:
        """Memory of one device: as logged, else from the data sheet of the named device."""
        if self.gpu_memory_gib is not None:
            return self.gpu_memory_gib
        card = card_for(self.device_name) if self.device_name else None
        return None if card is None else card.memory_gib


Condition = Callable[[Context], bool | None]
"""True, False, or None where the context does not decide."""


def engine_is(engine: Engine) -> Condition:
    """The engine generation."""
    return lambda context: None if context.engine is None else context.engine == engine


def platform_is(*platforms: Platform) -> Condition:
    """The platform is one of these."""
    return lambda context: None if context.platform is None else context.platform in platforms


def known_platform(*platforms: Platform) -> Condition:
    """The platform is known to be one of these; where it is not known, it is taken for none of them."""
    return lambda context: context.platform in platforms


def kind_is(kind: Kind) -> Condition:
    """OpenAI API server, or LLM class."""
    return lambda context: None if context.kind is None else context.kind == kind


def memory_at_least(gib: float) -> Condition:
    """One device has at least so much memory."""
    return lambda context: None if context.memory_gib is None else context.memory_gib >= gib


def device_named(*parts: str) -> Condition:
    """The device's name contains one of these, whatever the case."""

    def decide(context: Context) -> bool | None:
        name = context.device_name
        return None if name is None else any(part in name.lower() for part in parts)

    return decide


def setting(name: str) -> Condition:
    """The named yes/no fact of the context."""
    return lambda context: getattr(context, name)


def above(name: str, number: int) -> Condition:
    """The named number of the context is above `number`."""

    def decide(context: Context) -> bool | None:
        value = getattr(context, name)
        return None if value is None else value > number

    return decide


def negated(condition: Condition) -> Condition:
    """The opposite, undecided where the condition is."""

    def decide(context: Context) -> bool | None:
        answer = condition(context)
        return None if answer is None else not answer

    return decide


def any_of(*conditions: Condition) -> Condition:
    """At least one holds; undecided where none holds and one is undecided."""
    return lambda context: _any([condition(context) for condition in conditions])


def all_of(*conditions: Condition) -> Condition:
    """All hold; False as soon as one does not, undecided where one is undecided."""
    return negated(any_of(*(negated(condition) for condition in conditions)))


def _any(answers: list[bool | None]) -> bool | None:
    if True in answers:
        return True
    return None if None in answers else False
