"""The client: every endpoint of the protocol as a method."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from deltamirror.sharing.actions import (
    SharedFile,
    SharedSnapshot,
    TableDescription,
    TableMetadata,
    TableName,
    TableProtocol,
)
from deltamirror.sharing.answer import Answer
from deltamirror.sharing.catalog import Schema, Share, Table
from deltamirror.sharing.credentials import (
    AwsCredentials,
    AzureUserDelegationSas,
    CloudCredentials,
    GcpOauthToken,
    TemporaryCredentials,
)
from deltamirror.sharing.errors import AnswerBroken, HistoryNotShared, SharingError, VersionMoved
from deltamirror.sharing.lines import parse
from deltamirror.sharing.network import Route
from deltamirror.sharing.profile import Profile
from deltamirror.sharing.query import Changes, Query, format_time
from deltamirror.sharing.transport import LISTING_SECONDS, Response, Transport

T = TypeVar("T")
_PAGE = 500


@dataclass(frozen=True, slots=True)
class FreshUrls:
    """New signed URLs of a file."""

    url: str
    deletion_vector_url: str | None
    expires_at: int | None


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
        return self._pages("/shares", "the list of shares", Share)

    def share(self, name: str) -> Share:
        path = f"/shares/{quote(name, safe='')}"
        found = self._json("GET", path, f"the share {name}")
        return _convert(found.get("share") if isinstance(found, dict) else None, Share)

    def schemas(self, share: str) -> Iterator[Schema]:
        return self._pages(f"/shares/{quote(share, safe='')}/schemas", f"the share {share}", Schema)

    def tables(self, share: str, schema: str) -> Iterator[Table]:
        path = f"/shares/{quote(share, safe='')}/schemas/{quote(schema, safe='')}/tables"
        return self._pages(path, f"the schema {share}.{schema}", Table)

    def all_tables(self, share: str) -> Iterator[Table]:
        return self._pages(f"/shares/{quote(share, safe='')}/all-tables", f"the share {share}", Table)

    # ---- a table -------------------------------------------------------------------------------------------

    def version(self, table: TableName, starting_timestamp: datetime | None = None) -> int:
        """The newest version, or the first one at or after a time: the cheapest question there is."""
        params = {"startingTimestamp": format_time(starting_timestamp)} if starting_timestamp else None

        def ask(deadline: float) -> int:
            with self._open("GET", f"{table.path}/version", table, deadline, params=params) as response:
                return response.table_version

        return self._transport.retried(ask)

    def metadata(
        self, table: TableName, version: int | None = None, timestamp: datetime | None = None
    ) -> TableDescription:
        params = {"version": version, "timestamp": format_time(timestamp)}
        params = {name: value for name, value in params.items() if value is not None}

        def ask(deadline: float) -> TableDescription:
            with self._open("GET", f"{table.path}/metadata", table, deadline, params=params) as response:
                response_format = response.capabilities.get("responseformat", "parquet")
                protocol: TableProtocol | None = None
                metadata: TableMetadata | None = None
                for action in parse(response.chunks(), response_format):
                    if isinstance(action, TableProtocol):
                        protocol = action
                    elif isinstance(action, TableMetadata):
                        metadata = action
                if protocol is None or metadata is None:
                    raise AnswerBroken(f"the provider's answer about {table} has no protocol or no metadata")
                return TableDescription(response.table_version, response_format, protocol, metadata)

        return self._transport.retried(ask)

    def query(self, table: TableName, query: Query, deadline: float | None = None) -> Answer:
        """Files of a snapshot or a range, streamed. One attempt: an error on the way spoils the whole answer."""
        until = deadline or time.monotonic() + LISTING_SECONDS
        body = query.body()

        def ask(page: str | None, query_id: str | None) -> AbstractContextManager[Response]:
            if query_id is not None:
                return self._open("POST", f"{table.path}/queries/{quote(query_id, safe='')}", table, until, body={})
            more = {"pageToken": page} if page else {}
            return self._open("POST", f"{table.path}/query", table, until, body={**body, **more})

        return Answer(table, ask, self.endpoint, until, snapshot=not query.is_range)

    def changes(self, table: TableName, changes: Changes, deadline: float | None = None) -> Answer:
        """The change data feed of a range, streamed."""
        until = deadline or time.monotonic() + LISTING_SECONDS
        params = changes.params()

        def ask(page: str | None, query_id: str | None) -> AbstractContextManager[Response]:
            more = {"pageToken": page} if page else {}
            return self._open("GET", f"{table.path}/changes", table, until, params={**params, **more})

        return Answer(table, ask, self.endpoint, until, snapshot=False)

    def snapshot(self, table: TableName, version: int | None = None, query: Query | None = None) -> SharedSnapshot:
        """Every file of a table at a version, or now, complete; tried again as a whole where that may help."""

        def ask(deadline: float) -> SharedSnapshot:
            answer = self.query(table, query or Query(version=version), deadline)
            files = list(answer.files())
            return SharedSnapshot(
                answer.version, answer.id_scheme, answer.protocol, answer.metadata, files, answer.refresh_token
            )

        return self._transport.retried(ask, LISTING_SECONDS)

    def retried(self, call: Callable[[float], T]) -> T:
        """Consumes a streamed answer as a whole, again and again where that may help."""
        return self._transport.retried(call, LISTING_SECONDS)

    def fresh_urls(
        self, table: TableName, version: int, ids: set[str], refresh_token: str | None = None
    ) -> dict[str, FreshUrls]:
        """New signed URLs for files of a version.

        By refresh token where the server honours it, by version where history is shared, else from the newest version, if that is still the
        one. Servers exist that take the token and answer with another version, so the version of every answer is compared.
        """
        tries = [Query(version=version), Query()]
        if refresh_token:
            tries.insert(0, Query(refresh_token=refresh_token))
        newest = version
        for query in tries:
            try:
                snapshot = self.snapshot(table, query=query)
            except HistoryNotShared:
                continue
            except SharingError as error:
                if query.refresh_token is not None and error.kind == "stalling":
                    continue
                raise
            newest = snapshot.version
            if newest == version:
                return {file.id: _fresh(file) for file in snapshot.files if file.id in ids}
        raise VersionMoved(f"{table} moved from version {version} to {newest} while its files were being read", newest)

    def credentials(self, table: TableName, location: str | None = None) -> TemporaryCredentials:
        """Temporary credentials for the directory of a table."""
        body = {"location": location} if location else {}
        answer = self._json("POST", f"{table.path}/temporary-table-credentials", str(table), body=body)
        found = answer.get("credentials") if isinstance(answer, dict) else None
        if not isinstance(found, dict):
            raise AnswerBroken(f"the provider's answer about credentials for {table} has none")
        kinds: dict[str, type[CloudCredentials]] = {
            "awsTempCredentials": AwsCredentials,
            "azureUserDelegationSas": AzureUserDelegationSas,
            "gcpOauthToken": GcpOauthToken,
        }
        for name, kind in kinds.items():
            if found.get(name) is not None:
                cloud = _convert(found[name], kind)
                return TemporaryCredentials(
                    str(found.get("location", "")), int(found.get("expirationTime") or 0), cloud
                )
        raise AnswerBroken(
            f"the provider sent credentials for {table} of a cloud that is not known: {', '.join(found)}"
        )

    # ---- requests ------------------------------------------------------------------------------------------

    @contextmanager
    def _open(
        self,
        method: str,
        path: str,
        table: TableName,
        deadline: float,
        params: dict[str, Any] | None = None,
        body: dict[str, Any] | None = None,
    ) -> Iterator[Response]:
        with self._transport.open(
            method, path, str(table), deadline=deadline, params=params, body=body, headers=self._headers
        ) as response:
            yield response

    def _json(
        self,
        method: str,
        path: str,
        what: str,
        params: dict[str, Any] | None = None,
        body: dict[str, Any] | None = None,
    ) -> Any:
        def ask(deadline: float) -> Any:
            with self._transport.open(method, path, what, deadline=deadline, params=params, body=body) as response:
                return response.json()

        return self._transport.retried(ask)

    def _pages(self, path: str, what: str, kind: type[T]) -> Iterator[T]:
        """`items` may be missing, and the token of the next page "" or absent."""
        params: dict[str, Any] = {"maxResults": _PAGE}
        while True:
            answer = self._json("GET", path, what, params)
            if not isinstance(answer, dict):
                raise AnswerBroken(f"the provider's answer about {what} is not a list of pages")
            for item in answer.get("items") or []:
                yield _convert(item, kind)
            token = answer.get("nextPageToken")
            if not token:
                return
            if token == params.get("pageToken"):
                raise AnswerBroken(f"the provider's list of {what} never ends")
            params["pageToken"] = token


def _convert(value: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise AnswerBroken(f"the provider's answer is not what the protocol says: {error}") from None


def _fresh(file: SharedFile) -> FreshUrls:
    vector = file.deletion_vector
    return FreshUrls(
        file.url, vector.path_or_inline if vector and vector.storage_type == "p" else None, file.expires_at
    )
