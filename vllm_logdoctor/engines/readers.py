"""The reader of each engine whose log is read for facts."""

from __future__ import annotations

from vllm_logdoctor.engines.llamacpp import LlamaCppReader
from vllm_logdoctor.engines.model import EngineReader
from vllm_logdoctor.engines.sglang import SGLangReader

READERS: dict[str, type[EngineReader]] = {"sglang": SGLangReader, "llama.cpp": LlamaCppReader}


def reader_of(server: str) -> EngineReader | None:
    """Return a reader for an engine, or None for one that is only named.

    Example:
        >>> reader_of("ollama") is None
        True
    """
    reader = READERS.get(server)
    return reader() if reader else None
