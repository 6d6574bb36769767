"""A server that answers every request with one recorded answer of the reference server."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Replay:
    endpoint: str = ""
    recording: dict[str, Any] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)


@contextlib.contextmanager
def replaying() -> Iterator[Replay]:
    """Runs it in a thread; set `recording` before asking."""
    state = Replay()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            state.requests.append(f"{self.command} {self.path}")
            body = state.recording["body"].encode()
            self.send_response(state.recording["status"])
            for name, value in state.recording["headers"].items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = _answer

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    state.endpoint = f"http://127.0.0.1:{server.server_address[1]}/delta-sharing"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
