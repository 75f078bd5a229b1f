"""Clients and servers that answer as a test wants."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Handler = Callable[[BaseHTTPRequestHandler], None]

VERSION = "(APIServer pid=5) INFO 03-04 10:11:10 [api_server.py:1289] vLLM API server version 0.11.2"
ARGUMENTS = "(APIServer pid=5) INFO 03-04 10:11:11 [utils.py:253] non-default args: {'model_tag': 'org/m-7B', 'model': 'org/m-7B', 'max_num_seqs': 64, 'gpu_memory_utilization': 0.8}"
CACHE = (
    "(EngineCore_DP0 pid=9) INFO 03-04 10:11:40 [kv_cache_utils.py:1087] GPU KV cache size: 100,000 tokens"
)
CRASH = "(EngineCore_DP0 pid=9) ERROR 03-04 10:13:00 [core.py:708] RuntimeError: CUDA error: an illegal memory access was encountered"
LOG = (VERSION, ARGUMENTS, CACHE, CRASH)


class Canned:
    """A client that gives prepared answers, and notes what it was asked."""

    model = "canned"

    def __init__(self, *answers: Any) -> None:
        self._answers = iter(answers)
        self.asked: list[list[dict[str, str]]] = []

    def complete(self, messages: Sequence[Any], schema: Any) -> str:
        self.asked.append([dict(one) for one in messages])
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, str) else json.dumps(answer)


def claim(statement: str = "The kernel read memory that is not its own.", **more: Any) -> dict[str, Any]:
    """Return a claim that cites the crash."""
    cited = [{"line": 4, "text": "an illegal memory access was encountered"}]
    return {
        "kind": "cause",
        "topic": "kernels",
        "statement": statement,
        "citations": cited,
        "changes": [],
        **more,
    }


def answer(*claims: dict[str, Any], more: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Return an answer with claims and requests for lines."""
    return {"claims": list(claims), "more_lines": list(more)}


def completion(content: Any, **choice: Any) -> bytes:
    """Return the body of a chat completion."""
    text = content if isinstance(content, str) else json.dumps(content)
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": text}, **choice}]}).encode()


def reply(body: bytes, status: int = 200, kind: str = "application/json", **headers: str) -> Handler:
    """Return a handler that answers with a body."""

    def handle(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        request.wfile.write(body)

    return handle


@contextmanager
def serving(
    *handlers: Handler, wrap: Callable[[Any], Any] | None = None
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Serve on loopback; the last handler answers all further requests. Gives the base address and the requests."""
    seen: list[dict[str, Any]] = []

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            seen.append({"path": self.path, "headers": dict(self.headers), "body": self.rfile.read(length)})
            try:
                handlers[min(len(seen), len(handlers)) - 1](self)
            except (ConnectionError, OSError):
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    server.daemon_threads = True
    if wrap is not None:
        server.socket = wrap(server.socket)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http{'s' if wrap else ''}://127.0.0.1:{server.server_address[1]}/v1", seen
    finally:
        server.shutdown()
        server.server_close()
