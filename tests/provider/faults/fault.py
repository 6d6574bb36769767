"""When a fault strikes, and where it can take hold of a request.

Along the way of a request: `answer` is around everything, `asked` and `client` change what the server understands,
`rewritten` what it answers with lines, `stored` the file behind a URL, and `deliver` brings the finished answer to
the client. A fault overrides what it needs.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aiohttp import web

from sharing_provider import Answer, Config, Server
from sharing_provider.answers import Client
from sharing_provider.requests import Changes, Query

ENDPOINTS = ("listings", "version", "metadata", "query", "changes", "queries", "credentials", "files")
"""What `on` can say. `queries` polls a query that was answered asynchronously."""

Line = dict[str, Any]
Respond = Callable[[web.Request], Awaitable[web.StreamResponse]]
Asked = TypeVar("Asked", Query, Changes)


def endpoint(request: web.Request) -> str:
    if request.path.startswith("/files/"):
        return "files"
    last, above = (request.path.rstrip("/").split("/")[-1], request.path.rstrip("/").split("/")[-2])
    if above == "queries":
        return "queries"
    if last == "temporary-table-credentials":
        return "credentials"
    return last if last in ENDPOINTS and above not in ("shares", "schemas", "tables") else "listings"


@dataclass(frozen=True, slots=True)
class Stored:
    """An object of the store behind a signed URL."""

    data: bytes
    ranges: bool = True

    @property
    def etag(self) -> str:
        return f'"{hashlib.md5(self.data, usedforsecurity=False).hexdigest()}"'

    def response(self, request: web.Request) -> web.Response:
        """As S3 answers a GET, conditions and all."""
        headers = {"ETag": self.etag, "Accept-Ranges": "bytes", "Content-Type": "binary/octet-stream"}
        if request.headers.get("If-Match", self.etag) not in (self.etag, "*"):
            return web.Response(status=412, text=_xml("PreconditionFailed"), content_type="application/xml")
        wanted = request.http_range
        whole = wanted.start is None or request.headers.get("If-Range", self.etag) != self.etag
        if whole or not self.ranges:
            return web.Response(body=self.data, headers=headers)
        start, stop, _ = wanted.indices(len(self.data))
        if start >= stop:
            headers["Content-Range"] = f"bytes */{len(self.data)}"
            return web.Response(status=416, headers=headers)
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(self.data)}"
        return web.Response(status=206, body=self.data[start:stop], headers=headers)


def _xml(code: str) -> str:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code></Error>'


@dataclass(kw_only=True)
class Fault:
    """Strikes the requests to some endpoints: all of them, or `times` of them once `after` have gone well."""

    on: str | tuple[str, ...] = "query"
    times: int | None = None
    after: int = 0
    file: str = ""
    """Only requests whose path has this in it: a name of a file, or "deletion_vector"."""

    struck: int = field(default=0, init=False)
    """How often it has."""
    server: Server = field(init=False, repr=False)
    _matched: int = field(default=0, init=False, repr=False)

    def strikes(self, request: web.Request) -> bool:
        """Asked once for each request."""
        wanted = (self.on,) if isinstance(self.on, str) else self.on
        if endpoint(request) not in wanted or self.file not in request.path or not self.concerns(request):
            return False
        self._matched += 1
        if self._matched <= self.after or (self.times is not None and self.struck >= self.times):
            return False
        self.struck += 1
        return True

    def concerns(self, request: web.Request) -> bool:
        """Whether a request could be struck at all."""
        return True

    @contextlib.contextmanager
    def running(self, config: Config) -> Iterator[None]:
        """For what a fault needs besides the server."""
        yield

    async def answer(self, request: web.Request, respond: Respond) -> web.StreamResponse:
        return await respond(request)

    def client(self, client: Client) -> Client:
        return client

    def asked(self, asked: Asked) -> Asked:
        return asked

    def rewritten(self, answer: Answer) -> Answer:
        return answer

    def stored(self, request: web.Request, stored: Stored) -> Stored:
        return stored

    async def deliver(self, request: web.Request, response: web.Response) -> web.StreamResponse:
        return response


def is_delivered_by(fault: Fault) -> bool:
    """Whether a fault wants the finished answer in its own hands."""
    return type(fault).deliver is not Fault.deliver


# ---- lines -------------------------------------------------------------------------------------------------


def with_lines(answer: Answer, change: Callable[[list[Line]], list[Line]]) -> Answer:
    """An answer with other lines."""

    def changed() -> Iterator[bytes]:
        for line in change([json.loads(line) for line in answer.lines]):
            yield json.dumps(line).encode() + b"\n"

    return Answer(answer.headers, changed())


def with_headers(answer: Answer, headers: Mapping[str, str]) -> Answer:
    return Answer(headers, answer.lines)


def is_file(line: Line) -> bool:
    return bool(line.keys() & {"file", "add", "cdf", "remove"})


# ---- bytes -------------------------------------------------------------------------------------------------


async def started(
    request: web.Request, response: web.Response, length: int | None = None
) -> tuple[web.StreamResponse, bytes]:
    """The head of a response, sent, and the body that is still to be sent: of a stated length, or in chunks."""
    body = response.body
    content = body if isinstance(body, bytes) else b""
    headers = {k: v for k, v in response.headers.items() if k not in ("Content-Length", "Transfer-Encoding")}
    stream = web.StreamResponse(status=response.status, headers=headers)
    if length is not None:
        stream.content_length = length
    await stream.prepare(request)
    return stream, content


async def flush(request: web.Request) -> None:
    """Until the kernel has what was written: what is not sent yet would be lost when the connection breaks."""
    while request.transport is not None and request.transport.get_write_buffer_size():
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.02)


async def reset(request: web.Request) -> None:
    """Ends the connection with RST."""
    await flush(request)
    if request.transport is not None:
        connection: socket.socket = request.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.transport.abort()


async def hang_up(request: web.Request) -> None:
    """Ends the connection with FIN, as a process does that is stopped in the middle."""
    await flush(request)
    if request.transport is not None:
        request.transport.close()
