"""A provider that misbehaves: a real server on a real port, with faults on demand and a record of what it was asked.

    with misbehaving(config, TooManyRequests(times=2, retry_after=1), on_files := Vacuumed(after=3)) as provider:
        ...                              # provider.endpoint and provider.profile(), as of any provider
    assert provider.asked("query") == 3  # how often, by endpoint
    assert on_files.struck == 1          # and how often it went wrong

Every fault takes `on` (the endpoints: listings, version, metadata, query, changes, queries, credentials, files),
`times` (None: always), `after` (so many go well first) and `file` (only paths with this in them). Several faults strike
in the order in which they are given. Faults of files need tables on the local disk.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from aiohttp import web

from sharing_provider import Answer, Config, Provider, Server, serve
from sharing_provider.answers import Client
from sharing_provider.requests import Changes, Query
from sharing_provider.server import TABLE
from sharing_provider.tables import SharedTable
from tests.provider.faults.answers import (
    BeyondTheEnd,
    EmptyPageToken,
    EndMissing,
    ErrorAtTheEnd,
    FromTheFuture,
    ItemsMissing,
    ParquetInstead,
    RepeatedFile,
    ShuffledLines,
    SkewedClock,
    SpeltOtherwise,
    TruncatedAtLineEnd,
    TruncatedMidLine,
    WrongNumFiles,
    WrongVersion,
)
from tests.provider.faults.connections import ConnectionReset, CutOff, Dribble, Gzip, Silence
from tests.provider.faults.fault import ENDPOINTS, Fault, Respond, Stored, endpoint, is_delivered_by
from tests.provider.faults.files import (
    AnotherSize,
    ExpiredUrls,
    FlippedByte,
    Overwritten,
    UrlsDieEarly,
    Vacuumed,
    WholeFileAlways,
)
from tests.provider.faults.refusals import (
    AnswersLater,
    Denied,
    HtmlInstead,
    PageTokenExpired,
    PermanentFailure,
    RedirectElsewhere,
    RedirectHere,
    ServerErrors,
    TooManyRequests,
)

__all__ = [
    "ENDPOINTS",
    "AnotherSize",
    "AnswersLater",
    "BeyondTheEnd",
    "ConnectionReset",
    "CutOff",
    "Denied",
    "Dribble",
    "EmptyPageToken",
    "EndMissing",
    "ErrorAtTheEnd",
    "ExpiredUrls",
    "Fault",
    "FlippedByte",
    "FromTheFuture",
    "Gzip",
    "HtmlInstead",
    "ItemsMissing",
    "MisbehavingProvider",
    "Overwritten",
    "PageTokenExpired",
    "ParquetInstead",
    "PermanentFailure",
    "RedirectElsewhere",
    "RedirectHere",
    "RepeatedFile",
    "Seen",
    "ServerErrors",
    "ShuffledLines",
    "Silence",
    "SkewedClock",
    "SpeltOtherwise",
    "TooManyRequests",
    "TruncatedAtLineEnd",
    "TruncatedMidLine",
    "UrlsDieEarly",
    "Vacuumed",
    "WholeFileAlways",
    "WrongNumFiles",
    "WrongVersion",
    "misbehaving",
]

_STRUCK = web.RequestKey("struck", list)


@dataclass(frozen=True, slots=True)
class Seen:
    """A request, as it came in."""

    endpoint: str
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class MisbehavingProvider(Provider):
    requests: list[Seen] = field(default_factory=list)
    """All of them, in the order in which they came."""

    def asked(self, endpoint: str, file: str = "") -> int:
        """How often an endpoint was asked; with `file`, only paths with this in them."""
        return sum(seen.endpoint == endpoint and file in seen.path for seen in self.requests)

    def paths(self) -> Counter[str]:
        """How often each path was asked for."""
        return Counter(seen.path for seen in self.requests)


@contextlib.contextmanager
def misbehaving(config: Config, *faults: Fault) -> Iterator[MisbehavingProvider]:
    requests: list[Seen] = []
    with contextlib.ExitStack() as stack:
        for fault in faults:
            stack.enter_context(fault.running(config))

        def make_server(config: Config) -> Server:
            return _MisbehavingServer(config, list(faults), requests)

        provider = stack.enter_context(serve(config, make_server=make_server))
        yield MisbehavingProvider(provider.endpoint, provider.server, requests)


class _MisbehavingServer(Server):
    def __init__(self, config: Config, faults: list[Fault], requests: list[Seen]) -> None:
        super().__init__(config)
        self._faults, self._requests = faults, requests
        for fault in faults:
            fault.server = self

    def application(self) -> web.Application:
        app = super().application()
        app.middlewares.insert(0, self._misbehave)
        app.router.add_post(f"{TABLE}/queries/{{query_id}}", self._unknown_query)
        return app

    async def answer_query(self, request: web.Request, asked: Query) -> web.StreamResponse:
        for fault in request[_STRUCK]:
            asked = fault.asked(asked)
        return await super().answer_query(request, asked)

    async def answer_changes(self, request: web.Request, asked: Changes) -> web.StreamResponse:
        for fault in request[_STRUCK]:
            asked = fault.asked(asked)
        return await super().answer_changes(request, asked)

    async def get_file(self, request: web.Request) -> web.StreamResponse:
        response = await super().get_file(request)
        path = self._table(request).file(request.match_info["path"])
        if not isinstance(response, web.FileResponse) or path is None:
            return response
        stored = Stored(await asyncio.to_thread(path.read_bytes))
        for fault in request[_STRUCK]:
            stored = fault.stored(request, stored)
        return stored.response(request)

    async def send(self, request: web.Request, answer: Answer) -> web.StreamResponse:
        for fault in request[_STRUCK]:
            answer = fault.rewritten(answer)
        if not any(is_delivered_by(fault) for fault in request[_STRUCK]):
            return await super().send(request, answer)
        lines = await asyncio.to_thread(b"".join, answer.lines)
        return web.Response(headers=answer.headers, body=lines)

    def _client(self, request: web.Request, table: SharedTable) -> Client:
        client = super()._client(request, table)
        for fault in request[_STRUCK]:
            client = fault.client(client)
        return client

    @web.middleware
    async def _misbehave(self, request: web.Request, handler: Respond) -> web.StreamResponse:
        kind = endpoint(request)
        headers = dict(request.headers)
        self._requests.append(Seen(kind, request.method, request.path, headers, await request.read()))
        struck = request[_STRUCK] = [fault for fault in self._faults if fault.strikes(request)]
        respond = handler
        for fault in reversed(struck):
            respond = _around(fault, respond)
        response = await respond(request)
        for fault in struck:
            if is_delivered_by(fault) and isinstance(response, web.Response):
                response = await fault.deliver(request, response)
        return response

    async def _unknown_query(self, request: web.Request) -> web.StreamResponse:
        raise web.HTTPNotFound


def _around(fault: Fault, respond: Respond) -> Respond:
    async def answered(request: web.Request) -> web.StreamResponse:
        return await fault.answer(request, respond)

    return answered
