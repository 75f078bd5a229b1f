"""Lines to look for, in the words of the release and engine that ran: V0 and V1 print the same thing in other words."""

from __future__ import annotations

from vllm_logdoctor.knowledge.versions import at_least
from vllm_logdoctor.run.model import Run

_SIZE = "`GPU KV cache size`"
_BLOCKS_NAMED_BY_DEVICE = "0.7.0"
_SIZE_IN_TOKENS = "0.8.0"
_V1_BY_DEFAULT = "0.8.0"
_V0_GONE = "0.11.0"


def as_printed(text: str, run: Run) -> str:
    """Return what to look for with the lines that the run's release prints.

    V0 prints the cache in blocks, waiting requests as pending ones and accepted drafts as an efficiency, V1 did the first before 0.8.0 too.

    Example:
        >>> from vllm_logdoctor.run.model import Value
        >>> old = Run(version=Value("0.6.3", "reported"), engine="V0", platform="cuda")
        >>> as_printed("Then `GPU KV cache size`, and `Waiting` at 0.", old)
        'Then `# GPU blocks`, and `Pending` at 0.'
        >>> as_printed("Then `GPU KV cache size`.", Run(version=Value("0.11.2", "reported"), engine="V1"))
        'Then `GPU KV cache size`.'
    """
    version = str(run.version.value) if run.version else None
    engine = run.engine or _usual_engine(version)
    if engine == "V0":
        return (
            text.replace(_SIZE, f"`# {_device(run, version)} blocks`")
            .replace("`Waiting`", "`Pending`")
            .replace("`Mean acceptance length`", "`System efficiency`")
        )
    if engine == "V1" and at_least(version, _SIZE_IN_TOKENS) is False:
        return text.replace(_SIZE, "`# GPU blocks`")
    if engine is None:
        return text.replace(_SIZE, f"{_SIZE} (engine V0: `# GPU blocks`)")
    return text


def _device(run: Run, version: str | None) -> str:
    """Return how V0 names the device: as a word of its own at first, later by the name of the platform."""
    platform = run.platform or "cuda"
    if at_least(version, _BLOCKS_NAMED_BY_DEVICE):
        return platform
    return "GPU" if platform in ("cuda", "rocm") else platform.upper()


def _usual_engine(version: str | None) -> str | None:
    """Return the engine of a release that does not print it, None where it has both."""
    if at_least(version, _V1_BY_DEFAULT) is False:
        return "V0"
    return "V1" if at_least(version, _V0_GONE) else None
