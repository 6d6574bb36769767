"""What a provider can do for a table, found by asking, and which kinds of mirror follow from it.

Servers differ more than the protocol says: what one refuses for tables with deletion vectors, another answers. Each ability is tried
with a question that is as small as possible; nothing is copied and nothing is written.
"""

from __future__ import annotations

import contextlib
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
    ProviderFailed,
    ProviderUnreachable,
    Query,
    RateLimited,
    SharedFile,
    SharingClient,
    SharingError,
    TableDescription,
    TableName,
)

_PEEK = 100
"""Files of an answer that are looked at before it is let go."""
_READ = 10_000
"""The same, of the one answer whose end is of interest."""


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
    prober = _Prober(client, table, described)
    snapshot = prober.snapshot()
    abilities = {
        **snapshot.abilities,
        "history": prober.history(),
        "ranges": prober.ranges(),
        "changes": prober.changes(),
        "pages": prober.pages(),
        "directory": prober.directory(),
    }
    protocol, metadata = described.protocol, described.metadata
    modes, dropped = _modes(described, abilities)
    return Report(
        table=str(table),
        version=described.version,
        tableID=metadata.id,
        responseFormat=described.response_format,
        readerFeatures=sorted(protocol.reader_features or []),
        writerFeatures=sorted(protocol.writer_features or []),
        abilities=abilities,
        urlLifetimeSeconds=snapshot.url_lifetime,
        modes=modes,
        dropped=dropped,
    )


@dataclass(frozen=True, slots=True)
class _Snapshot:
    abilities: dict[str, Ability]
    url_lifetime: int | None = None


class _Prober:
    def __init__(self, client: SharingClient, table: TableName, described: TableDescription) -> None:
        self._client = client
        self._table = table
        self._version = described.version
        self._access_modes = described.metadata.access_modes or []

    def snapshot(self) -> _Snapshot:
        """The newest version, and what its answer shows beside the files."""
        try:
            answer, files, complete = self._peek(Query(limit_hint=1, include_refresh_token=True), _READ)
        except SharingError as error:
            no, unknown = _no(error), Ability(False, "not known")
            return _Snapshot({"snapshot": no, "endMark": unknown, "stableFileIds": unknown, "refreshTokens": unknown})
        marked, token = answer.ends_with_mark, answer.refresh_token is not None
        tokens = "URLs can be renewed by token" if token else "no token is sent"
        abilities = {
            "snapshot": Ability(True, "the newest version can be listed"),
            "endMark": Ability(
                marked, "lists end with a mark" if marked else "a cut-off list cannot be told from a short one"
            ),
            "stableFileIds": Ability(
                answer.id_scheme == "delta", f"file ids are made by the scheme {answer.id_scheme!r}"
            ),
            "refreshTokens": Ability(token, tokens if complete else "not known: the list is too long to see its end"),
        }
        ends = [answer.clock.until(file.expires_at) for file in files if isinstance(file, SharedFile)]
        known = [end - time.monotonic() for end in ends if end is not None]
        return _Snapshot(abilities, round(min(known)) if known else None)

    def history(self) -> Ability:
        """Of servers that ignore what they do not know, only a version that is not the newest finds out."""
        if self._version == 0:
            return _ability("versions can be listed by number", lambda: self._peek(Query(version=0)))
        earlier = _ability("older versions can be listed", lambda: self._peek(Query(version=self._version - 1)))
        if earlier.able:
            return earlier
        newest = _ability("", lambda: self._peek(Query(version=self._version)))
        if newest.able:
            return Ability(True, f"only from version {self._version} on: {earlier.detail}")
        return earlier

    def ranges(self) -> Ability:
        one = Query(starting_version=self._version, ending_version=self._version)
        return _ability("changes of files can be listed by version", lambda: self._peek(one))

    def changes(self) -> Ability:
        one = Changes(starting_version=self._version, ending_version=self._version)
        return _ability("the change data feed is shared", lambda: self._peek(one))

    def pages(self) -> Ability:
        try:
            answer, files, _ = self._peek(Query(max_files=1), most=2)
        except SharingError as error:
            return _no(error)
        if len(files) < 2:
            return Ability(False, "not known: the table has less than two files")
        return Ability(answer.pages > 1, "lists come in pages" if answer.pages > 1 else "the size of a page is ignored")

    def directory(self) -> Ability:
        if "dir" not in self._access_modes:
            return Ability(False, "the provider does not offer it")
        return _ability("the table's directory can be read", lambda: self._client.credentials(self._table))

    def _peek(self, asked: Query | Changes, most: int = _PEEK) -> tuple[Answer, list[object], bool]:
        """The beginning of an answer, and whether that was all of it."""

        def ask(deadline: float) -> tuple[Answer, list[object], bool]:
            if isinstance(asked, Query):
                answer = self._client.query(self._table, asked, deadline)
            else:
                answer = self._client.changes(self._table, asked, deadline)
            with contextlib.closing(answer.actions()) as actions:
                seen: list[object] = list(itertools.islice(actions, most))
                complete = len(seen) < most or next(actions, None) is None
            return answer, seen, complete

        return self._client.retried(ask)


def _ability(able: str, attempt: Callable[[], object]) -> Ability:
    try:
        attempt()
    except SharingError as error:
        return _no(error)
    return Ability(True, able)


def _no(error: SharingError) -> Ability:
    """A provider that does not answer has not said no."""
    if isinstance(error, ProviderUnreachable | ProviderFailed | RateLimited):
        raise error
    return Ability(False, str(error))


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
