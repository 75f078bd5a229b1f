"""Answered requests by minute, in some sixteen bytes for each kind of request in it: a server of months has a hundred thousand of them."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping

from vllm_logdoctor.scan import AccessKey

_FITS_FOUR_BYTES = (1 << 32) - 1
_PROBES = frozenset({"/metrics", "/health", "/ping", "/load"})
"""Paths that monitoring asks for, not users."""
_CONTROL = frozenset({
    "/start_profile", "/stop_profile", "/sleep", "/wake_up", "/pause", "/resume", "/collective_rpc",
    "/reset_prefix_cache", "/reset_mm_cache", "/reset_encoder_cache",
    "/init_communicator", "/close_communicator", "/update_named_param", "/batch_update_named_params",
    "/init_weight_transfer_engine", "/update_weights",
})  # fmt: skip
"""Paths that switch the profiler, sleep and caches or bring new weights: whoever runs the server, or a trainer, posts to them."""


def is_probe(method: str, path: str) -> bool:
    """Return True for a request of monitoring, or one that controls the server.

    Example:
        >>> is_probe("GET", "/metrics"), is_probe("POST", "/sleep?level=1"), is_probe("GET", "/v1/models")
        (True, True, False)
        >>> is_probe("POST", "/update_named_param/"), is_probe("POST", "/generate/")
        (True, False)
    """
    plain = path.split("?")[0].rstrip("/")
    return plain in _CONTROL or (method in ("GET", "HEAD") and plain in _PROBES)


class RequestsByMinute(Mapping[int, "Counter[AccessKey]"]):
    """Requests by (method, path, status) of each minute; a mapping in order of time.

    Example:
        >>> requests = RequestsByMinute()
        >>> requests.add(7, Counter({("GET", "/health", 200): 2}))
        >>> requests.add(7, Counter({("GET", "/health", 200): 1}))
        >>> dict(requests)
        {7: Counter({('GET', '/health', 200): 3})}
    """

    def __init__(self) -> None:
        self._numbers: dict[AccessKey, int] = {}
        # One entry for each kind of request in a minute, in order of the minutes.
        self._minutes = array("q")
        self._kinds = array("I")
        self._counts = array("I")

    def add(self, minute: int, counts: Mapping[AccessKey, int]) -> None:
        """Count requests to a minute."""
        start, end = bisect_left(self._minutes, minute), bisect_right(self._minutes, minute)
        for key, count in counts.items():
            kind = self._numbers.setdefault(key, len(self._numbers))
            try:
                at = self._kinds.index(kind, start, end)
            except ValueError:
                at, end = end, end + 1
                self._minutes.insert(at, minute)
                self._kinds.insert(at, kind)
                self._counts.insert(at, 0)
            self._set(at, self._counts[at] + count)

    def _set(self, at: int, count: int) -> None:
        if count > _FITS_FOUR_BYTES and self._counts.typecode == "I":
            self._counts = array("Q", self._counts)
        self._counts[at] = count

    def shift(self, minutes: int) -> None:
        """Move all minutes; the unknown one stays."""
        self._minutes = array("q", [minute if minute < 0 else minute + minutes for minute in self._minutes])

    def __getitem__(self, minute: int) -> Counter[AccessKey]:
        start, end = bisect_left(self._minutes, minute), bisect_right(self._minutes, minute)
        if start == end:
            raise KeyError(minute)
        keys = list(self._numbers)
        return Counter({keys[self._kinds[at]]: self._counts[at] for at in range(start, end)})

    def __iter__(self) -> Iterator[int]:
        before: int | None = None
        for minute in self._minutes:
            if minute != before:
                yield minute
            before = minute

    def __len__(self) -> int:
        return sum(1 for _ in self)


class AccessesByMinute(Mapping[int, "Counter[int]"]):
    """The same requests by status."""

    def __init__(self, requests: RequestsByMinute) -> None:
        self._requests = requests

    def __getitem__(self, minute: int) -> Counter[int]:
        by_status: Counter[int] = Counter()
        for (_, _, status), number in self._requests[minute].items():
            by_status[status] += number
        return by_status

    def __iter__(self) -> Iterator[int]:
        return iter(self._requests)

    def __len__(self) -> int:
        return len(self._requests)
