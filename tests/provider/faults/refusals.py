"""Another status than 200, or another answer than the one asked for."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
from aiohttp import web

from sharing_provider import Config, Server, serve
from sharing_provider.requests import Query, query
from tests.provider.faults.fault import Fault, Respond, endpoint


def _refusal(status: int, code: str, message: str, **headers: str) -> web.Response:
    text = json.dumps({"errorCode": code, "message": message})
    return web.Response(status=status, text=text, content_type="application/json", headers=headers)


@dataclass(kw_only=True)
class TooManyRequests(Fault):
    """429. The reference server never sends it, hosted ones do; not all of them say for how long."""

    retry_after: str | int | None = None
    """Seconds or an HTTP date, as the header has it."""

    async def answer(self, request: web.Request, respond: Respond) -> web.StreamResponse:
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return _refusal(429, "RESOURCE_LIMIT_EXCEEDED", "Too many requests.", **headers)


@dataclass(kw_only=True)
class ServerErrors(Fault):
    """5xx, in bursts: a restart, an overloaded gateway. It passes, so it is worth trying again."""

    status: int = 503

    async def answer(self, request: web.Request, respond: Respond) -> web.StreamResponse:
        return web.Response(status=self.status, text="upstream connect error or disconnect/reset before headers")


@dataclass(kw_only=True)
class PermanentFailure(Fault):
    """500 that does not pass: so the reference server says that a table cannot be shared. Tries must have an end."""

    async def answer(self, request: web.Request, respond: Respond) -> web.StreamResponse:
        return web.Response(status=500, text='{"errorCode":"INTERNAL_ERROR","message":""}')


@dataclass(kw_only=True)
class Denied(Fault):
    """401 or 403: the token was revoked, or the share is not ours any more. No try will change it."""

    status: int = 403

    async def answer(self, request: web.Request, respond: Respond) -> web.StreamResponse:
        return _refusal(self.status, "PERMISSION_DENIED", "The recipient has no access any more.")


@dataclass(kw_only=True)
class HtmlInstead(Fault):
    """A page for people, with 200 as often as not: a login page, a proxy, a bad gateway. It is not an empty table."""

    status: int = 200

    async def answer(self, request: web.Request, respond: Respond) -> web.StreamResponse:
        page = "<!DOCTYPE html>\n<html>\n<body>\n<h1>Please sign in</h1>\n</body>\n</html>\n"
        return web.Response(status=self.status, text=page, content_type="text/html")


@dataclass(kw_only=True)
class RedirectHere(Fault):
    """A redirect within the host, as a load balancer sends it: the same question has to be asked again there."""

    status: int = 307

    def concerns(self, request: web.Request) -> bool:
        return "redirected" not in request.query

    async def answer(self, request: web.Request, respond: Respond) -> web.StreamResponse:
        location = str(request.url.update_query(redirected="yes"))
        return web.Response(status=self.status, headers={"Location": location})


@dataclass(kw_only=True)
class RedirectElsewhere(Fault):
    """A redirect to another host, which would answer if it were given our token. It must not be given our token."""

    status: int = 307
    authorizations: list[str | None] = field(default_factory=list, init=False)
    """What the other host was sent as Authorization, request by request."""
    _elsewhere: str = field(default="", init=False, repr=False)

    @contextlib.contextmanager
    def running(self, config: Config) -> Iterator[None]:
        fault = self

        class Elsewhere(Server):
            def application(self) -> web.Application:
                app = super().application()
                app.middlewares.insert(0, _noting)
                return app

        @web.middleware
        async def _noting(request: web.Request, handler: Respond) -> web.StreamResponse:
            fault.authorizations.append(request.headers.get("Authorization"))
            return await handler(request)

        with serve(config, make_server=Elsewhere) as other:
            origin = other.endpoint.rsplit("/", 1)[0]
            self._elsewhere = origin.replace("127.0.0.1", "localhost")
            yield

    async def answer(self, request: web.Request, respond: Respond) -> web.StreamResponse:
        return web.Response(status=self.status, headers={"Location": self._elsewhere + request.path_qs})


@dataclass(kw_only=True)
class PageTokenExpired(Fault):
    """A page token is refused: the query was paused for too long, or the server lost its key. Begin again."""

    on: str | tuple[str, ...] = ("query", "changes")

    async def answer(self, request: web.Request, respond: Respond) -> web.StreamResponse:
        if "pageToken" in request.query or b'"pageToken"' in await request.read():
            message = "The page token has expired. Please restart the query."
            return _refusal(400, "INVALID_PARAMETER_VALUE", message)
        self.struck -= 1
        return await respond(request)


class _Poll(msgspec.Struct, frozen=True, rename="camel"):
    max_files: int | None = None
    page_token: str | None = None


@dataclass(kw_only=True)
class AnswersLater(Fault):
    """An asynchronous answer: an id to poll with instead of lines. Only for clients that said asyncquery=true,
    unless the server takes no notice (`unasked`). An id that is not known any more is 404.
    """

    on: str | tuple[str, ...] = ("query", "queries")
    polls: int = 2
    """So many polls find the query pending."""
    unasked: bool = False
    _waiting: dict[str, tuple[Query, int]] = field(default_factory=dict, init=False, repr=False)

    async def answer(self, request: web.Request, respond: Respond) -> web.StreamResponse:
        if endpoint(request) == "queries":
            return await self._poll(request)
        able = request.headers.get("delta-sharing-capabilities", "").lower()
        if not self.unasked and "asyncquery=true" not in able:
            return await respond(request)
        query_id = secrets.token_hex(8)
        self._waiting[query_id] = query(await request.read(), "Content-Type" in request.headers), self.polls
        return self._pending(query_id)

    async def _poll(self, request: web.Request) -> web.StreamResponse:
        query_id = request.match_info["query_id"]
        if query_id not in self._waiting:
            return _refusal(404, "RESOURCE_DOES_NOT_EXIST", f"query '{query_id}' not found")
        asked, polls = self._waiting[query_id]
        if polls:
            self._waiting[query_id] = asked, polls - 1
            return self._pending(query_id)
        page = msgspec.json.decode(await request.read() or b"{}", type=_Poll)
        asked = msgspec.structs.replace(asked, max_files=page.max_files or asked.max_files, page_token=page.page_token)
        return await self.server.answer_query(request, asked)

    def _pending(self, query_id: str) -> web.Response:
        headers = {
            "Content-Type": "application/x-ndjson; charset=utf-8",
            "delta-sharing-capabilities": "asyncquery=true",
        }
        line = {"queryStatus": {"queryId": query_id, "status": "pending"}}
        return web.Response(body=json.dumps(line).encode() + b"\n", headers=headers)
