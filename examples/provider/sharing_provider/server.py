"""The sharing protocol over HTTP: one method per endpoint, held to what the reference server answers.

Reading logs and signing URLs blocks, so both happen in threads; the event loop only moves bytes. Answers are
streamed a batch of lines at a time: a table of a hundred thousand files is never one string.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import cached_property
from itertools import islice
from typing import Any

import msgspec
from aiohttp import web
from botocore.credentials import Credentials

from sharing_provider import answers, credentials, ranges, requests
from sharing_provider.answers import Answer, Client
from sharing_provider.catalog import MAX_RESULTS, Catalog, Item, Page
from sharing_provider.config import Config, Flavour
from sharing_provider.errors import InvalidParameter, Refusal
from sharing_provider.replays import Replays
from sharing_provider.requests import Changes, Query
from sharing_provider.tables import SharedTable
from sharing_provider.urls import FILES, FileSigner, FileUrls, S3Signer, Signer, s3_credentials, store_error

PREFIX = "/delta-sharing"
TABLE = PREFIX + "/shares/{share}/schemas/{schema}/tables/{table}"
BATCH = 500

_logger = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    def __init__(self, config: Config) -> None:
        self.config = config
        self._catalog = Catalog(config)
        self._file_urls = FileUrls(config.url_lifetime_seconds)
        replays = Replays()
        self._tables = {
            (share.name, schema.name, table.name): SharedTable(table, table.flavour or share.flavour, config, replays)
            for share in config.shares
            for schema in share.schemas
            for table in schema.tables
        }

    def application(self) -> web.Application:
        app = web.Application(middlewares=[self._explain, self._authorize])
        app.router.add_get(f"{PREFIX}/shares", self.list_shares)
        app.router.add_get(f"{PREFIX}/shares/{{share}}", self.get_share)
        app.router.add_get(f"{PREFIX}/shares/{{share}}/schemas", self.list_schemas)
        app.router.add_get(f"{PREFIX}/shares/{{share}}/schemas/{{schema}}/tables", self.list_tables)
        app.router.add_get(f"{PREFIX}/shares/{{share}}/all-tables", self.list_all_tables)
        app.router.add_get(f"{TABLE}/version", self.get_version)
        app.router.add_get(f"{TABLE}/metadata", self.get_metadata)
        app.router.add_post(f"{TABLE}/query", self.query)
        app.router.add_get(f"{TABLE}/changes", self.changes)
        app.router.add_post(f"{TABLE}/temporary-table-credentials", self.temporary_credentials)
        app.router.add_get(FILES + "/{share}/{schema}/{table}/{path:.+}", self.get_file)
        return app

    async def list_shares(self, request: web.Request) -> web.Response:
        return _json(self._catalog.shares(*_paging(request)))

    async def get_share(self, request: web.Request) -> web.Response:
        return _json({"share": Item(self._catalog.share(request.match_info["share"]).name)})

    async def list_schemas(self, request: web.Request) -> web.Response:
        return _json(self._catalog.schemas(request.match_info["share"], *_paging(request)))

    async def list_tables(self, request: web.Request) -> web.Response:
        names = request.match_info
        return _json(self._catalog.tables(names["share"], names["schema"], *_paging(request)))

    async def list_all_tables(self, request: web.Request) -> web.Response:
        return _json(self._catalog.all_tables(request.match_info["share"], *_paging(request)))

    async def get_version(self, request: web.Request) -> web.Response:
        table = self._table(request)
        timestamp = request.query.get("startingTimestamp")
        if timestamp is None:
            version = (await asyncio.to_thread(table.snapshot)).version
        else:
            _require_history(table, request)
            version = await asyncio.to_thread(table.version_after, timestamp)
            if version < table.config.start_version:
                raise InvalidParameter(
                    f"You can only query table data since version {table.config.start_version}."
                    f"The provided timestamp({timestamp}) corresponds to {version}."
                )
        return web.Response(headers={"Delta-Table-Version": str(version)})

    async def get_metadata(self, request: web.Request) -> web.StreamResponse:
        version = requests.number(request.query, "version")
        timestamp = request.query.get("timestamp")
        if version is not None and timestamp is not None:
            raise InvalidParameter("Please only provide one of: version,timestamp")
        if version is not None and version < 0:
            raise InvalidParameter("version cannot be negative.")
        table = self._table(request)
        if version is not None or timestamp is not None:
            _require_history(table, request)
        client = self._client(request, table)
        return await self.send(request, await asyncio.to_thread(answers.metadata, table, version, timestamp, client))

    async def query(self, request: web.Request) -> web.StreamResponse:
        asked = requests.query(await request.read(), "Content-Type" in request.headers)
        return await self.answer_query(request, asked)

    async def answer_query(self, request: web.Request, asked: Query) -> web.StreamResponse:
        table = self._table(request)
        if table.flavour is Flavour.LEGACY:
            asked = asked.without_novelties()
        if not asked.latest:
            _require_history(table, request)
        client = self._client(request, table)
        answer = answers.snapshot if asked.starting_version is None else ranges.changed_files
        return await self.send(request, await asyncio.to_thread(answer, table, asked, client))

    async def changes(self, request: web.Request) -> web.StreamResponse:
        requests.max_files(request.query)
        table = self._table(request)
        if not table.config.history_shared:
            raise InvalidParameter(f"cdf is not enabled on table {_full_name(request)}")
        return await self.answer_changes(request, requests.changes(request.query))

    async def answer_changes(self, request: web.Request, asked: Changes) -> web.StreamResponse:
        table = self._table(request)
        if table.flavour is Flavour.LEGACY:
            asked = asked.without_novelties()
        client = self._client(request, table)
        return await self.send(request, await asyncio.to_thread(ranges.changes, table, asked, client))

    async def temporary_credentials(self, request: web.Request) -> web.Response:
        table = self._table(request)
        if not table.config.history_shared:
            raise InvalidParameter(
                "Temporary table credentials are not supported because history sharing is not enabled"
                f" on table: {_full_name(request)}"
            )
        return _json(credentials.for_table(table.config, self.config, await request.read()))

    async def get_file(self, request: web.Request) -> web.StreamResponse:
        """Stands in for the object store of tables on the local disk; aiohttp knows about ranges."""
        objection = self._file_urls.objection(request.method, request.path, request.query)
        if objection is not None:
            return web.Response(status=403, text=store_error(*objection), content_type="application/xml")
        file = self._table(request).file(request.match_info["path"])
        if file is None or not await asyncio.to_thread(file.is_file):
            text = store_error("NoSuchKey", "The specified key does not exist.")
            return web.Response(status=404, text=text, content_type="application/xml")
        return web.FileResponse(file)

    async def send(self, request: web.Request, answer: Answer) -> web.StreamResponse:
        response = web.StreamResponse(headers=answer.headers)
        await response.prepare(request)
        try:
            while batch := await asyncio.to_thread(_join, islice(answer.lines, BATCH)):
                await response.write(batch)
        except Exception:
            if request.transport is not None:
                request.transport.abort()  # too late for a status: the client has to see a broken answer
            raise
        await response.write_eof()
        return response

    def _table(self, request: web.Request) -> SharedTable:
        names = request.match_info
        return self._tables[self._catalog.table(names["share"], names["schema"], names["table"])]

    def _client(self, request: web.Request, table: SharedTable) -> Client:
        signer = self._signer(table, request)
        if table.flavour is Flavour.LEGACY:
            return Client(requests.capabilities(None), None, signer)
        able = requests.capabilities(request.headers.get("delta-sharing-capabilities"))
        return Client(able, requests.file_id_hash(request.headers.get("fileidhash")), signer)

    def _signer(self, table: SharedTable, request: web.Request) -> Signer:
        if table.folder is None:
            keys = self._s3_credentials.get_frozen_credentials()
            lifetime = self.config.url_lifetime_seconds
            return S3Signer(self.config.s3.options, keys, table.config.location, lifetime)
        names = request.match_info
        origin = str(request.url.origin())
        return FileSigner(self._file_urls, origin, f"{names['share']}/{names['schema']}/{names['table']}")

    @cached_property
    def _s3_credentials(self) -> Credentials:
        return s3_credentials(self.config.s3)

    @web.middleware
    async def _explain(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except Refusal as refusal:
            return _json(refusal.body(), refusal.status)
        except (web.HTTPException, ConnectionError):
            raise
        except Exception:
            _logger.exception("%s %s failed", request.method, request.path)
            text = msgspec.json.encode({"errorCode": "INTERNAL_ERROR", "message": ""}).decode()
            return web.Response(status=500, text=text)

    @web.middleware
    async def _authorize(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if not request.path.startswith(FILES):
            given = request.headers.get("Authorization", "").encode(errors="surrogateescape")
            if not hmac.compare_digest(given, f"Bearer {self.config.bearer_token}".encode()):
                return web.Response(status=401, text="401 Unauthorized")
        return await handler(request)


def _json(value: Page | dict[str, Any], status: int = 200) -> web.Response:
    text = msgspec.json.encode(value).decode()
    return web.Response(status=status, text=text, content_type="application/json")


def _join(some: Iterable[bytes]) -> bytes:
    return b"".join(some)


def _paging(request: web.Request) -> tuple[int, str | None]:
    limit = requests.number(request.query, "maxResults")
    return MAX_RESULTS if limit is None else limit, request.query.get("pageToken")


def _require_history(table: SharedTable, request: web.Request) -> None:
    if not table.config.history_shared:
        raise InvalidParameter(
            "Reading table by version or timestamp is not supported because history sharing is not enabled"
            f" on table: {_full_name(request)}"
        )


def _full_name(request: web.Request) -> str:
    names = request.match_info
    return f"{names['share']}.{names['schema']}.{names['table']}"
