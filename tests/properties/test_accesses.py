"""Laws of access lines: whatever writes them, however they are cut into chunks, none is lost and none counted twice."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.run.lives_of_a_server import start, statistics
from vllm_logdoctor.pipeline import Options, analyse
from vllm_logdoctor.run.model import Run
from vllm_logdoctor.source import Input

PIDS = (1, 90)
METHODS = ("GET /health", "POST /v1/completions", "POST /v1/chat/completions?stream=1")
STATUSES = ("200 OK", "400 Bad Request", "500 Internal Server Error")

answered = st.tuples(st.sampled_from(PIDS), st.sampled_from(METHODS), st.sampled_from(STATUSES))
told = st.sampled_from(PIDS)
lives = st.lists(st.one_of(answered, told), max_size=60)


def log_of(life: list[tuple[int, str, str] | int]) -> bytes:
    lines = [
        line
        for pair in zip(start(pid=1, model="org/m1"), start(pid=90, model="org/m90"), strict=True)
        for line in pair
    ]
    for second, one in enumerate(life):
        clock = f"03-04 10:{10 + second // 6:02}:{second % 6 * 10:02}"
        if isinstance(one, int):
            lines.append(statistics(one, clock))
        else:
            pid, request, status = one
            lines.append(f'(APIServer pid={pid}) INFO:     10.0.0.9:{second} - "{request} HTTP/1.1" {status}')
    return "\n".join([*lines, ""]).encode()


def runs_of(log: bytes, chunk_bytes: int = 1 << 20) -> dict[str, Run]:
    analysis = analyse([Input("vllm.log", data=log)], Options(chunk_bytes=chunk_bytes))
    return {str(one.run.model.value): one.run for one in analysis.runs if one.run.model is not None}


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(lives, st.integers(200, 5000))
def test_requests_of_each_server_add_up_in_any_chunks(
    life: list[tuple[int, str, str] | int], chunk_bytes: int
) -> None:
    log = log_of(life)
    whole, cut = runs_of(log), runs_of(log, chunk_bytes)
    for pid in PIDS:
        expected = Counter(
            (request.split()[0], request.split()[1].split("?")[0], int(status[:3]))
            for who, request, status in (one for one in life if not isinstance(one, int))
            if who == pid
        )
        run = whole[f"org/m{pid}"]
        assert run.accesses == expected
        assert sum(run.requests_by_minute.values(), Counter()) == expected
        assert cut[f"org/m{pid}"].accesses == expected
        assert cut[f"org/m{pid}"].requests_by_minute == run.requests_by_minute
        by_status = sum(run.accesses_by_minute.values(), Counter())
        assert by_status.total() == expected.total()
