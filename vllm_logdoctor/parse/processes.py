"""Process prefixes: who wrote a line."""

from __future__ import annotations

from functools import lru_cache

from vllm_logdoctor.lazy import lazy_pattern
from vllm_logdoctor.parse.record import NO_PROCESS, Process

# (EngineCore_DP0 pid=3452)   (VllmWorker rank=3 pid=229)   (VllmWorker TP1 pid=7857)   (Worker_DP0_TP1_EP1 pid=9)
# (RayWorkerWrapper pid=690, ip=10.0.7.2)   (Llumlet(iid=57a22) pid=22645)   (pid=525716)
PROCESS_PREFIX = lazy_pattern(
    r"\((?:(?P<name>[A-Za-z_][\w.]*(?:\([\w=.]*\))?(?: [A-Z]{2,4}\d+(?:_[A-Z]{2,4}\d+)*)?) )?(?:rank=(?P<rank>\d+) )?"
    r"pid=(?P<pid>\d+)(?:, ip=(?P<ip>[\d.a-fA-F:]+))?\) ?"
)
_RANK_WORDS = lazy_pattern(r"(?:DP|PP|PCP|TP|DCP|EP)\d+")


@lru_cache(maxsize=4096)
def process_of(name: str, pid: int | None, rank: str = "", host: str = "") -> Process:
    """Build the process for a printed name.

    Example:
        >>> process_of("Worker_TP1", 9).role, process_of("Worker_TP1", 9).rank
        ('worker', 'TP1')
    """
    if not name and pid is None and not host:
        return NO_PROCESS
    role, rank_words = _role_and_rank(name)
    return Process(name, role, pid, rank_words or rank, host)


@lru_cache(maxsize=1024)
def _role_and_rank(name: str) -> tuple[str, str]:
    """Return the role and rank in a name: a server that starts again has the name and another pid."""
    return _role(name), "_".join(_RANK_WORDS.findall(name))


def _role(name: str) -> str:
    plain = name.lower().replace("_", "")
    if plain.startswith("apiserver"):
        return "api-server"
    if plain.startswith("enginecore"):
        return "engine-core"
    if "worker" in plain or plain.startswith(("rayworker", "hpuworker", "npuworker")):
        return "worker"
    if "coordinator" in plain or "supervisor" in plain:
        return "coordinator"
    return "other" if name else ""
