"""The reader of each engine whose log is read for facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vllm_logdoctor.engines.model import EngineReader


def reader_of(server: str) -> EngineReader | None:
    """Return a reader for an engine, or None for one that is only named.

    Example:
        >>> reader_of("ollama") is None
        True
    """
    # Few logs are of other engines: a start does not pay for their readers.
    if server == "sglang":
        from vllm_logdoctor.engines.sglang import SGLangReader

        return SGLangReader()
    if server == "llama.cpp":
        from vllm_logdoctor.engines.llamacpp import LlamaCppReader

        return LlamaCppReader()
    return None
