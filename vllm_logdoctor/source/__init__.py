"""Open whatever holds a log and give chunks of bytes that end at line ends."""

from vllm_logdoctor.source.chunks import Chunk, FileSlice, keep_freed_memory, read_chunks
from vllm_logdoctor.source.inputs import Input, inputs_from, inputs_of_paths
from vllm_logdoctor.source.sets import InputSet, Stream, servers_apart, sets_of, with_words_of_jobs
from vllm_logdoctor.source.slicing import opened, read_pieces

__all__ = [
    "Chunk",
    "FileSlice",
    "Input",
    "InputSet",
    "Stream",
    "inputs_from",
    "inputs_of_paths",
    "keep_freed_memory",
    "opened",
    "read_chunks",
    "read_pieces",
    "servers_apart",
    "sets_of",
    "with_words_of_jobs",
]
