"""What a table endpoint answers: which actions, of which version, in which format.

Here are the answers about one version: its metadata, its files. Ranges and changes are in `ranges`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deltamirror.delta.actions import Add
from deltamirror.delta.snapshot import Snapshot
from sharing_provider import tables, tokens
from sharing_provider.config import Flavour
from sharing_provider.errors import InvalidParameter
from sharing_provider.lines import DeltaLines, Lines, ParquetLines, StandaloneLines
from sharing_provider.predicate import partition_filter
from sharing_provider.requests import Capabilities, Query
from sharing_provider.tables import SharedTable
from sharing_provider.tokens import PAGE_TOKEN_LIFETIME, PageToken
from sharing_provider.urls import Signer


@dataclass(frozen=True, slots=True)
class Answer:
    """What a table endpoint sends: a status of 200, headers, and lines that are made while they are sent."""

    headers: Mapping[str, str]
    lines: Iterator[bytes]


@dataclass(frozen=True, slots=True)
class Client:
    """Who asks: what it declared in its headers, and how URLs are signed for it."""

    able: Capabilities
    id_hash: str | None
    signer: Signer

    def lines(self, table: SharedTable, min_reader_version: int, *, standalone: bool) -> tuple[str, Lines]:
        """The format of the answer to this client, and what writes it."""
        response_format = self.able.response_format(min_reader_version)
        id_hash = self.id_hash or response_format
        hosted, legacy = table.flavour is Flavour.HOSTED, table.flavour is Flavour.LEGACY
        if response_format != "delta":
            shared = table.config.history_shared
            return response_format, ParquetLines(self.signer, id_hash, history_shared=shared, expiry=not legacy)
        if standalone and not hosted:
            return response_format, StandaloneLines(self.signer, id_hash)
        return response_format, DeltaLines(self.signer, id_hash, vector_ids=hosted)


def metadata(table: SharedTable, version: int | None, timestamp: str | None, client: Client) -> Answer:
    snapshot = table.snapshot(version, timestamp)
    tables.check_client(table, snapshot, client.able.reader_features)
    response_format, lines = client.lines(table, snapshot.protocol.min_reader_version, standalone=False)
    return Answer(headers(table, client, snapshot.version, response_format), head(table, lines, snapshot))


def snapshot(table: SharedTable, asked: Query, client: Client) -> Answer:
    pages = asked.max_files is not None or asked.page_token is not None
    if asked.predicate_hints or pages or table.flavour is Flavour.LEGACY:
        return _page(table, asked, client)
    version = asked.version
    if asked.refresh_token is not None:
        token = tokens.opened_refresh_token(asked.refresh_token, table.config.id)
        if table.flavour is Flavour.HOSTED:
            version = token.version  # the reference server checks it and answers with the latest version all the same
    snapshot = table.snapshot(version, asked.timestamp)
    tables.check_client(table, snapshot, client.able.reader_features)
    check_start(table, snapshot.version)
    adds = _matching(asked, snapshot)
    tables.check_files(table, adds, client.able.reader_features)
    if asked.limit_hint is not None and not asked.json_predicate_hints:
        adds = _enough(adds, asked.limit_hint)
    response_format, lines = client.lines(table, snapshot.protocol.min_reader_version, standalone=False)
    shown_version = None if asked.latest else snapshot.version

    def made() -> Iterator[bytes]:
        yield from head(table, lines, snapshot)
        for add in adds:
            yield lines.file(add, shown_version, None, change=False)
        if client.able.end_stream_action or asked.include_refresh_token:
            yield lines.end(_refresh_token(table, asked, snapshot))

    ended = client.able.end_stream_action
    return Answer(headers(table, client, snapshot.version, response_format, ended), made())


def _page(table: SharedTable, asked: Query, client: Client) -> Answer:
    """A snapshot through Delta Standalone, as soon as a predicate in SQL or a page is asked for.

    There a refresh token counts, and no limit does. The predicate itself is a hint that is not taken.
    """
    token = None
    if asked.page_token is not None:
        token = tokens.opened_page_token(asked.page_token, table.config.id, asked.checksum)
    history = table.history()
    version = asked.version
    if token is not None:
        version = token.latest
    elif asked.refresh_token is not None:
        version = tokens.opened_refresh_token(asked.refresh_token, table.config.id).version
    elif asked.timestamp is not None:
        version = history.version_at(tables.milliseconds(asked.timestamp, "timestamp"))
    snapshot = history.snapshot(history.latest if version is None else version)
    if not history.limited:
        tables.check_client(table, snapshot, client.able.reader_features)
    check_start(table, snapshot.version)

    # In an order that a checkpoint written between two pages does not change.
    adds = sorted(_matching(asked, snapshot), key=lambda add: add.path)
    tables.check_files(table, adds, client.able.reader_features)
    first = token.index if token else 0
    last = len(adds) if asked.page_size is None else min(first + asked.page_size, len(adds))
    following = None
    if last < len(adds):
        expires = tokens.expiry(PAGE_TOKEN_LIFETIME)
        following = tokens.encode(
            PageToken(table.config.id, asked.checksum, snapshot.version, snapshot.version, last, expires)
        )
    response_format, lines = client.lines(table, snapshot.protocol.min_reader_version, standalone=True)
    shown_version = None if asked.latest else snapshot.version
    timestamp = None if asked.latest else history.time_of(snapshot.version)

    def made() -> Iterator[bytes]:
        yield from head(table, lines, snapshot)
        for add in adds[first:last]:
            yield lines.file(add, shown_version, timestamp, change=False)
        if client.able.end_stream_action or asked.include_refresh_token or asked.max_files is not None:
            yield lines.end(_refresh_token(table, asked, snapshot), following)

    ended = client.able.end_stream_action
    return Answer(headers(table, client, snapshot.version, response_format, ended), made())


def head(table: SharedTable, lines: Lines, snapshot: Snapshot) -> Iterator[bytes]:
    yield lines.protocol(snapshot.protocol)
    yield lines.metadata(snapshot.metadata, None, about_table(table, snapshot))


def headers(
    table: SharedTable, client: Client, version: int, response_format: str, ended: bool = False
) -> dict[str, str]:
    found = {"Delta-Table-Version": str(version), "Content-Type": "application/x-ndjson; charset=utf-8"}
    if table.flavour is not Flavour.LEGACY:
        echo = f"responseformat={response_format}" + (";includeendstreamaction=true" if ended else "")
        found["delta-sharing-capabilities"] = echo
    if client.id_hash:
        found["fileidhash"] = client.id_hash
    return found


def about_table(table: SharedTable, snapshot: Snapshot) -> dict[str, Any]:
    """What a hosted server says of a table next to its metadata."""
    if table.flavour is not Flavour.HOSTED:
        return {}
    about: dict[str, Any] = {
        "size": sum(add.size for add in snapshot.files.values()),
        "numFiles": len(snapshot.files),
    }
    if table.config.directory_access:
        about |= {"location": table.config.location, "accessModes": ["url", "dir"]}
    return about


def check_start(table: SharedTable, version: int) -> None:
    if version < table.config.start_version:
        raise InvalidParameter(f"You can only query table data since version {table.config.start_version}.")


def _matching(asked: Query, snapshot: Snapshot) -> list[Add]:
    keep = partition_filter(asked.json_predicate_hints, snapshot.metadata)
    return [add for add in snapshot.files.values() if keep(add.partition_values)]


def _enough(adds: list[Add], limit: int) -> list[Add]:
    """The first files that have so many rows between them."""
    rows = 0
    for number, add in enumerate(adds):
        if rows >= limit:
            return adds[:number]
        rows += _row_count(add)
    return adds


def _row_count(add: Add) -> int:
    records = json.loads(add.stats).get("numRecords", 0) if add.stats else 0
    return int(records) - (add.deletion_vector.cardinality if add.deletion_vector else 0)


def _refresh_token(table: SharedTable, asked: Query, snapshot: Snapshot) -> str | None:
    return tokens.refresh_token(table.config.id, snapshot.version) if asked.include_refresh_token else None
