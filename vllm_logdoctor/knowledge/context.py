"""What is known of a run when a default is asked for."""

from __future__ import annotations

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
