"""What a provider can do for a table, found by asking, and which kinds of mirror follow from it.

Servers differ more than the protocol says: what one refuses for tables with deletion vectors, another answers. Each ability is tried
with a question that is as small as possible; nothing is copied and nothing is written.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from deltamirror.delta import features
from deltamirror.delta.actions import Protocol
from deltamirror.delta.errors import UnsupportedFeature
from deltamirror.sharing import (
    Answer,
    Changes,
    Query,
    SharedFile,
    SharingClient,
    SharingError,
    TableDescription,
    TableName,
)

_PEEK = 100
"""Files of an answer that are looked at before it is let go."""


@dataclass(frozen=True, slots=True)
class Ability:
    able: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Report:
    table: str
    version: int
    tableID: str
    responseFormat: str
    readerFeatures: list[str]
    writerFeatures: list[str]
    abilities: dict[str, Ability]
    """snapshot, endMark, stableFileIds, history, ranges, changes, pages, refreshTokens, directory."""
    urlLifetimeSeconds: int | None
    modes: dict[str, Ability]
    dropped: list[str]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def probe(client: SharingClient, table: TableName) -> Report:
    described = client.metadata(table)
    version = described.version
    snapshot = _try_snapshot(client, table)
    abilities = {
        "snapshot": snapshot.ability,
        "endMark": Ability(
            snapshot.end_mark,
            "lists end with a mark" if snapshot.end_mark else "a cut-off list cannot be told from a short one",
        ),
        "stableFileIds": Ability(
            snapshot.id_scheme == "delta",
            f"file ids are made by the scheme {snapshot.id_scheme!r}" if snapshot.id_scheme else "not known",
        ),
        "history": _ability("older versions can be listed", lambda: _peek(client.query(table, Query(version=version)))),
        "ranges": _ability(
            "changes of files can be listed by version",
            lambda: _peek(client.query(table, Query(starting_version=version, ending_version=version))),
        ),
        "changes": _ability(
            "the change data feed is shared",
            lambda: _peek(client.changes(table, Changes(starting_version=version, ending_version=version))),
        ),
        "pages": _ability("lists come in pages", lambda: _peek(client.query(table, Query(max_files=1)))),
        "refreshTokens": Ability(
            snapshot.refresh_token, "URLs can be renewed by token" if snapshot.refresh_token else "no token is sent"
        ),
        "directory": _directory(client, table, described),
    }
    protocol, metadata = described.protocol, described.metadata
    modes, dropped = _modes(described, abilities)
    return Report(
        table=str(table),
        version=version,
        tableID=metadata.id,
        responseFormat=described.response_format,
        readerFeatures=sorted(protocol.reader_features or []),
        writerFeatures=sorted(protocol.writer_features or []),
        abilities=abilities,
        urlLifetimeSeconds=snapshot.url_lifetime,
        modes=modes,
        dropped=dropped,
    )


@dataclass(slots=True)
class _Snapshot:
    ability: Ability
    end_mark: bool = False
    id_scheme: str = ""
    refresh_token: bool = False
    url_lifetime: int | None = None


def _try_snapshot(client: SharingClient, table: TableName) -> _Snapshot:
    answer = client.query(table, Query(limit_hint=1, include_refresh_token=True))
    try:
        files = list(itertools.islice(answer.actions(), _PEEK))
    except SharingError as error:
        return _Snapshot(Ability(False, str(error)))
    expiry = next((f.expires_at for f in files if isinstance(f, SharedFile) and f.expires_at), None)
    lifetime = round(expiry / 1000 - time.time() - answer.clock_skew) if expiry else None
    return _Snapshot(
        Ability(True, "the newest version can be listed"),
        answer.ends_with_mark,
        answer.id_scheme,
        answer.refresh_token is not None,
        lifetime,
    )


def _peek(answer: Answer) -> None:
    for _ in itertools.islice(answer.actions(), _PEEK):
        pass


def _ability(able: str, attempt: Callable[[], object]) -> Ability:
    try:
        attempt()
    except SharingError as error:
        return Ability(False, str(error))
    return Ability(True, able)


def _directory(client: SharingClient, table: TableName, described: TableDescription) -> Ability:
    if "dir" not in (described.metadata.access_modes or []):
        return Ability(False, "the provider does not offer it")
    return _ability("the table's directory can be read", lambda: client.credentials(table))


def _modes(described: TableDescription, abilities: dict[str, Ability]) -> tuple[dict[str, Ability], list[str]]:
    shared = described.protocol
    if described.metadata.provider != "parquet":
        no = Ability(
            False,
            f"this is shared as {described.metadata.provider!r}: only Delta tables can be mirrored, no views or other formats",
        )
        return {"Snapshot": no, "History": no}, []
    try:
        _, dropped = features.mirror_protocol(
            Protocol(
                shared.min_reader_version, shared.min_writer_version, shared.reader_features, shared.writer_features
            ),
            None,
        )
    except UnsupportedFeature as error:
        no = Ability(False, str(error))
        return {"Snapshot": no, "History": no}, []
    dropped += features.mirror_configuration(described.metadata.configuration)[1]
    snapshot, history = abilities["snapshot"], abilities["history"]
    if not snapshot.able:
        return {"Snapshot": snapshot, "History": snapshot}, dropped
    yes = "each version under its own number" + ("" if abilities["ranges"].able else ", rewrites visible to streams")
    return {
        "Snapshot": Ability(True, "one commit per sync"),
        "History": Ability(history.able, yes if history.able else history.detail),
    }, dropped
