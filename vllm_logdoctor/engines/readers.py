"""The reader of each engine whose log is read for facts; imported when such a log is met."""

from __future__ import annotations

from vllm_logdoctor.engines.model import EngineReader


def reader_of(server: str) -> EngineReader | None:
    """Return a reader for an engine, or None for one that is only named.

    Example:
        >>> reader_of("ollama") is None
        True
    """
    if server == "sglang":
        from vllm_logdoctor.engines.sglang import SGLangReader

        return SGLangReader()
    if server == "llama.cpp":
        from vllm_logdoctor.engines.llamacpp import LlamaCppReader

        return LlamaCppReader()
    return None
