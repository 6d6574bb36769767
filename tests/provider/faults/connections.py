"""The right answer, brought badly."""

from __future__ import annotations

import asyncio
import gzip
from dataclasses import dataclass

from aiohttp import web

from tests.provider.faults.fault import Fault, Respond, hang_up, reset, started


@dataclass(kw_only=True)
class Dribble(Fault):
    """Slow loris: a few bytes now and then, never a silence that a read timeout would notice. Only a deadline helps."""

    size: int = 1
    pause: float = 0.05

    async def deliver(self, request: web.Request, response: web.Response) -> web.StreamResponse:
        stream, body = await started(request, response)
        for start in range(0, len(body), self.size):
            await stream.write(body[start : start + self.size])
            await asyncio.sleep(self.pause)
        await stream.write_eof()
        return stream


@dataclass(kw_only=True)
class Silence(Fault):
    """The connection is taken and nothing comes: a server that hangs. Without a timeout a client hangs with it."""

    seconds: float = 60

    async def answer(self, request: web.Request, respond: Respond) -> web.StreamResponse:
        await asyncio.sleep(self.seconds)
        return await respond(request)


@dataclass(kw_only=True)
class ConnectionReset(Fault):
    """RST in the middle of an answer, of lines or of a file."""

    part: float = 0.5
    """How much of the body comes through."""

    async def deliver(self, request: web.Request, response: web.Response) -> web.StreamResponse:
        stream, body = await started(request, response)
        await stream.write(body[: int(len(body) * self.part)])
        await reset(request)
        raise ConnectionResetError("on purpose")


@dataclass(kw_only=True)
class CutOff(Fault):
    """The length is stated and the connection is closed before: a careless client takes what came for the whole."""

    on: str | tuple[str, ...] = "files"
    part: float = 0.5

    async def deliver(self, request: web.Request, response: web.Response) -> web.StreamResponse:
        body = response.body
        stream, content = await started(request, response, length=len(body) if isinstance(body, bytes) else 0)
        await stream.write(content[: int(len(content) * self.part)])
        await hang_up(request)
        raise ConnectionResetError("on purpose")


@dataclass(kw_only=True)
class Gzip(Fault):
    """Content-Encoding: gzip, whether or not the client said that it takes it: some gateways compress everything."""

    async def deliver(self, request: web.Request, response: web.Response) -> web.StreamResponse:
        body = response.body
        compressed = gzip.compress(body if isinstance(body, bytes) else b"")
        headers = {k: v for k, v in response.headers.items() if k != "Content-Length"}
        return web.Response(status=response.status, headers={**headers, "Content-Encoding": "gzip"}, body=compressed)
