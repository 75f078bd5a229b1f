"""Lives of servers, written by hand after the messages of vLLM 0.9 to 0.11, to be woven, cut and wrapped."""

from __future__ import annotations

from pathlib import Path

_LOGS = Path(__file__).parent / "logs"
ACCESS = '{A}INFO:     10.0.0.1:40{n:02d} - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'


def _text(name: str) -> str:
    return (_LOGS / f"life-{name}.txt").read_text()


def life(
    version: str = "0.11.0",
    *,
    model: str = "org/m",
    pid: int = 1,
    engine: int = 50,
    port: int = 8000,
    day: str = "06-01",
    start: str = "10:00",
    rate: float = 100.0,
    stop: str = "",
    named: bool = True,
) -> str:
    """Return the log of a server: start-up, six requests, three statistics lines, an end.

    Args:
        version: vLLM version.
        model, port: what it serves, where.
        pid, engine: ids of the API server and the engine core.
        day, start: "MM-DD" and "HH:MM" of the first line.
        rate: generated tokens/s of the first statistics line; one more in each of the next.
        stop: "" (the log just ends), "asked", or "out-of-memory".
        named: whether lines name their process.
    """
    hour, minute = map(int, start.split(":"))
    begin = hour * 3600 + minute * 60
    times = [
        f"{day} {(begin + s) // 3600 % 24:02d}:{(begin + s) // 60 % 60:02d}:{(begin + s) % 60:02d}"
        for s in range(200)
    ]
    names = {
        "A": f"(APIServer pid={pid}) " if named else "",
        "E": f"(EngineCore_DP0 pid={engine}) " if named else "",
        "version": version,
        "model": model,
        "port": port,
        "pid": pid,
    }
    served = "".join(
        "".join(ACCESS.format(n=2 * k + r, **names) for r in range(2))
        + _text("statistics").format(
            time=times[80 + 10 * k], prompt=10.0 + k, rate=rate + k, n=k + 1, **names
        )
        for k in range(3)
    )
    return (
        _text("start").format(*times, **names)
        + served
        + (_text(stop).format(*times, **names) if stop else "")
    )


def woven(*logs: str, step: int = 1) -> str:
    """Return the lines of several logs taken in turns, `step` at a time."""
    pieces = [log.splitlines(keepends=True) for log in logs]
    return "".join(
        "".join(lines[n : n + step]) for n in range(0, max(map(len, pieces)), step) for lines in pieces
    )


def behind(prefix: str, log: str) -> str:
    """Return a log with a prefix before each line."""
    return "".join(prefix + line for line in log.splitlines(keepends=True))
