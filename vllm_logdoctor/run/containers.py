"""Starts of containers: what docker, containerd and their runtimes print where a container did not start."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse import Record

# docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].
# OCI runtime create failed: runc create failed: unable to start container process: ...      nvidia-container-cli: requirement error: ...
_REFUSED = lazy_pattern(
    r"^(?:docker: )?Error response from daemon: |\bOCI runtime (?:create|start|exec) failed: |\bnvidia-container-cli(?:\.real)?: \w+ error: "
    r"|\bunable to start container process: "
)


def refused_start(records: Sequence[Record]) -> Record | None:
    """Return the first line in which a container's runtime says that it did not start it, or None."""
    return next((one for one in records if _REFUSED.search(one.message[:1000])), None)
