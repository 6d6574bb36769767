"""The client: every endpoint of the protocol as a method."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote

from deltamirror.errors import Kind
from deltamirror.sharing.actions import (
    SharedFile,
    SharedSnapshot,
    TableDescription,
    TableMetadata,
    TableName,
    TableProtocol,
    escaped,
)
from deltamirror.sharing.answer import Answer, checked_lines
from deltamirror.sharing.catalog import Page, Schema, Share, ShareAnswer, Table
from deltamirror.sharing.credentials import GrantedAnswer, TemporaryCredentials
from deltamirror.sharing.errors import AnswerBroken, RequestRefused, SharingError, VersionMoved
from deltamirror.sharing.network import Route
from deltamirror.sharing.profile import Profile
from deltamirror.sharing.query import Changes, Query, format_time
from deltamirror.sharing.times import ServerClock
from deltamirror.sharing.transport import CALL_SECONDS, LISTING_SECONDS, Response, Transport
from deltamirror.sharing.trust import Trust

T = TypeVar("T")
_PAGE = 500
_CATALOG_SECONDS = 5 * CALL_SECONDS


@dataclass(frozen=True, slots=True)
class FreshUrls:
    """New signed URLs of a file."""

    url: str = field(repr=False)
    deletion_vector_url: str | None = field(repr=False)
    expires_at: int | None
    until: float | None = None
    """When they expire, as a monotonic time of ours; None if that is not known."""


class SharingClient:
    """Speaks to one provider. Thread-safe; close it when done.

    `reader_features` are the table features that the caller can make sense of; the server is told.
    """

    def __init__(self, profile: Profile, reader_features: Iterable[str] = (), *, route: Route | None = None) -> None:
        self._transport = Transport(profile, route)
        # Servers lower-case the header and split it without trimming: no spaces.
        features = ",".join(sorted(name.lower() for name in reader_features))
        readable = f";readerfeatures={features}" if features else ""
        self._headers = {
            "delta-sharing-capabilities": f"responseformat=delta{readable};includeendstreamaction=true",
            "fileidhash": "delta",
        }

    @property
    def requests(self) -> int:
        """How many requests were sent."""
        return self._transport.requests

    @property
    def endpoint(self) -> str:
        return self._transport.endpoint

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> SharingClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- the catalog ---------------------------------------------------------------------------------------

    def shares(self) -> Iterator[Share]:
        return self._pages("/shares", "the list of shares", Page[Share])

    def share(self, name: str) -> Share:
        return self._json("GET", f"/shares/{escaped(name)}", f"the share {name}", ShareAnswer).share

    def schemas(self, share: str) -> Iterator[Schema]:
        return self._pages(f"/shares/{escaped(share)}/schemas", f"the share {share}", Page[Schema])

    def tables(self, share: str, schema: str) -> Iterator[Table]:
        path = f"/shares/{escaped(share)}/schemas/{escaped(schema)}/tables"
        return self._pages(path, f"the schema {share}.{schema}", Page[Table])

    def all_tables(self, share: str) -> Iterator[Table]:
        return self._pages(f"/shares/{escaped(share)}/all-tables", f"the share {share}", Page[Table])

    # ---- a table -------------------------------------------------------------------------------------------

    def version(self, table: TableName, starting_timestamp: datetime | None = None) -> int:
        """The newest version, or the first one at or after a time: the cheapest question there is."""
        params = {"startingTimestamp": format_time(starting_timestamp)} if starting_timestamp else None

        def ask(deadline: float) -> int:
            with self._open("GET", f"{table.path}/version", table, deadline, params=params) as response:
                version = response.table_version
                response.drain()
                return version

        return self._transport.retried(ask)

    def metadata(
        self, table: TableName, version: int | None = None, timestamp: datetime | None = None
    ) -> TableDescription:
        params = {"version": version, "timestamp": format_time(timestamp)}
        params = {name: value for name, value in params.items() if value is not None}

        def ask(deadline: float) -> TableDescription:
            with self._open("GET", f"{table.path}/metadata", table, deadline, params=params) as response:
                protocol: TableProtocol | None = None
                metadata: TableMetadata | None = None
                for action in checked_lines(response):
                    if isinstance(action, TableProtocol):
                        protocol = action
                    elif isinstance(action, TableMetadata):
                        metadata = action
                if protocol is None or metadata is None:
                    raise AnswerBroken(f"the provider's answer about {table} has no protocol or no metadata")
                found = response.table_version
                if version is not None and found != version:
                    raise AnswerBroken(
                        f"the provider was asked about version {version} of {table} and spoke of {found}"
                    )
                return TableDescription(found, response.response_format, protocol, metadata)

        return self._transport.retried(ask)

    def query(self, table: TableName, query: Query, deadline: float | None = None) -> Answer:
        """Files of a snapshot or a range, streamed. One attempt: an error on the way spoils the whole answer."""
        until = time.monotonic() + LISTING_SECONDS if deadline is None else deadline
        body = query.body()

        def ask(page: str | None, query_id: str | None) -> AbstractContextManager[Response]:
            more = {"pageToken": page} if page else {}
            if query_id is not None:
                return self._pending(table, query_id, more, until)
            return self._open("POST", f"{table.path}/query", table, until, body={**body, **more})

        return Answer(table, query, ask, Trust(self.endpoint), until)

    def changes(self, table: TableName, changes: Changes, deadline: float | None = None) -> Answer:
        """The change data feed of a range, streamed."""
        until = time.monotonic() + LISTING_SECONDS if deadline is None else deadline
        params = changes.params()

        def ask(page: str | None, query_id: str | None) -> AbstractContextManager[Response]:
            more = {"pageToken": page} if page else {}
            if query_id is not None:
                return self._pending(table, query_id, more, until)
            return self._open("GET", f"{table.path}/changes", table, until, params={**params, **more})

        return Answer(table, changes, ask, Trust(self.endpoint), until)

    def snapshot(self, table: TableName, version: int | None = None, query: Query | None = None) -> SharedSnapshot:
        """Every file of a table at a version, or now, complete; tried again as a whole where that may help."""

        def ask(deadline: float) -> SharedSnapshot:
            answer = self.query(table, query or Query(version=version), deadline)
            files = list(answer.files())
            return SharedSnapshot(
                answer.version,
                answer.id_scheme,
                answer.protocol,
                answer.metadata,
                files,
                answer.refresh_token,
                answer.clock,
            )

        return self.retried(ask)

    def retried(self, call: Callable[[float], T]) -> T:
        """Consumes a streamed answer as a whole, again and again where that may help."""
        return self._transport.retried(call, LISTING_SECONDS)

    def fresh_urls(
        self, table: TableName, version: int, ids: set[str], refresh_token: str | None = None
    ) -> dict[str, FreshUrls]:
        """New signed URLs for files of a version; those that are no longer listed are missing from the answer.

        By refresh token where the server honours it, by version where history is shared, else from the newest version, if that is still the
        one. Servers exist that take the token and answer with another version, so the version of every answer is compared.
        """
        tries = [Query(version=version), Query()]
        if refresh_token:
            tries.insert(0, Query(refresh_token=refresh_token))
        newest = version
        for query in tries:
            try:
                newest, urls = self.retried(lambda deadline, q=query: self._urls(table, q, ids, deadline))  # type: ignore[misc]
            except SharingError as error:
                # Tokens end and history may not be shared, said in whatever words. The newest version has to be listed.
                passable = RequestRefused if query.refresh_token is None else SharingError
                if query == tries[-1] or error.kind is not Kind.STALLING or not isinstance(error, passable):
                    raise
                continue
            if newest == version:
                return urls
        raise VersionMoved(f"{table} moved from version {version} to {newest} while its files were being read", newest)

    def _urls(self, table: TableName, query: Query, ids: set[str], deadline: float) -> tuple[int, dict[str, FreshUrls]]:
        answer = self.query(table, query, deadline)
        urls = {file.id: _fresh(file, answer.clock) for file in answer.files() if file.id in ids}
        return answer.version, urls

    def credentials(self, table: TableName, location: str | None = None) -> TemporaryCredentials:
        """Temporary credentials for the directory of a table."""
        body = {"location": location} if location else {}

        def ask(deadline: float) -> TemporaryCredentials:
            path = f"{table.path}/temporary-table-credentials"
            with self._open("POST", path, table, deadline, body=body) as response:
                granted = response.json(GrantedAnswer).credentials
                if granted.cloud is None:
                    raise AnswerBroken(f"the provider sent credentials for {table} of a cloud that is not known")
                until = response.clock.until(granted.expiration_time)
                return TemporaryCredentials(granted.location, granted.expiration_time, granted.cloud, until)

        return self._transport.retried(ask)

    # ---- requests ------------------------------------------------------------------------------------------

    def _open(
        self,
        method: str,
        path: str,
        table: TableName,
        deadline: float,
        params: dict[str, Any] | None = None,
        body: dict[str, Any] | None = None,
    ) -> AbstractContextManager[Response]:
        return self._transport.open(
            method, path, str(table), deadline=deadline, params=params, body=body, headers=self._headers
        )

    def _pending(
        self, table: TableName, query_id: str, body: dict[str, Any], deadline: float
    ) -> AbstractContextManager[Response]:
        """The result of a query that the server needs time for."""
        return self._open("POST", f"{table.path}/queries/{quote(query_id, safe='')}", table, deadline, body=body)

    def _json(self, method: str, path: str, what: str, kind: type[T], params: dict[str, Any] | None = None) -> T:
        def ask(deadline: float) -> T:
            with self._transport.open(method, path, what, deadline=deadline, params=params) as response:
                return response.json(kind)

        return self._transport.retried(ask)

    def _pages(self, path: str, what: str, kind: type[Page[T]]) -> Iterator[T]:
        params: dict[str, Any] = {"maxResults": _PAGE}
        tokens: set[str] = set()
        deadline = time.monotonic() + _CATALOG_SECONDS
        while True:
            page = self._json("GET", path, what, kind, params)
            yield from page.items or []
            token = page.next_page_token
            if not token:
                return
            if token in tokens or time.monotonic() > deadline:
                raise AnswerBroken(f"the provider's answer about {what} never ends")
            tokens.add(token)
            params["pageToken"] = token


def _fresh(file: SharedFile, clock: ServerClock) -> FreshUrls:
    vector = file.deletion_vector
    vector_url = vector.path_or_inline if vector and vector.storage_type == "p" else None
    return FreshUrls(file.url, vector_url, file.expires_at, clock.until(file.expires_at))
