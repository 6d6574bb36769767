"""What happened between two versions: a range of commits, or the change data feed of one.

A range has the files that a commit added and removed where it changed data, and the metadata and protocols on the
way. A change feed has the change files of a commit if there are any, else what a range has. What neither shows is a
commit that moved rows without changing them, and no replay of a range knows what such a commit did.

Both come in pages: a page ends before the file that does not fit any more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from deltamirror.delta.actions import Add, Metadata, Protocol, Remove
from deltamirror.delta.snapshot import Snapshot
from sharing_provider import tables, tokens
from sharing_provider.answers import Answer, Client, about_table, check_start, headers
from sharing_provider.commits import ChangeFile, Commit, CommitInfo, FileAction
from sharing_provider.errors import InvalidParameter
from sharing_provider.history import History
from sharing_provider.lines import Lines
from sharing_provider.requests import Changes, Query
from sharing_provider.tables import SharedTable
from sharing_provider.tokens import PAGE_TOKEN_LIFETIME, PageToken


@dataclass(frozen=True, slots=True)
class Entry:
    """One action of an answer, and where in the log it stands."""

    action: Protocol | Metadata | FileAction
    version: int
    timestamp: int
    index: int


Choose = Callable[[Commit], list[Entry]]


def changed_files(table: SharedTable, asked: Query, client: Client) -> Answer:
    """A query with startingVersion."""
    start = asked.starting_version or 0
    check_start(table, start)
    if asked.ending_version is not None and start > asked.ending_version:
        raise InvalidParameter(
            f"startingVersion({start}) must be smaller than or equal to endingVersion({asked.ending_version})."
        )
    history = table.history()
    token = _page_token(table, asked)
    snapshot = history.snapshot(start)
    if not history.limited:
        tables.check_client(table, snapshot, client.able.reader_features)
    latest = token.latest if token else history.latest
    end = latest if asked.ending_version is None else asked.ending_version
    if end > latest:
        raise InvalidParameter(
            f"Provided end version({end}) is invalid. End version cannot be greater than the latest version"
            f" of the table({latest})."
        )
    first = token.version if token else start
    if not history.has_all(first, end):
        raise NotImplementedError(f"a commit between {first} and {end} is gone")
    response_format, lines = client.lines(table, snapshot.protocol.min_reader_version, standalone=True)
    protocols = asked.include_historical_protocol and response_format == "delta"

    def chosen(commit: Commit) -> list[Entry]:
        return [entry for entry in _data_changes(history, commit) if _shown(entry, start, True, protocols)]

    page = _Page(table, client, lines, asked, latest)
    page.choose(history.commits(first, end), chosen, token)
    made = page.lines(snapshot, start, start if protocols else None)
    return Answer(headers(table, client, start, response_format, client.able.end_stream_action), made)


def changes(table: SharedTable, asked: Changes, client: Client) -> Answer:
    """The change data feed. Unlike a range it does not miss a commit that is gone: it goes on without it."""
    history = table.history()
    token = _page_token(table, asked)
    latest = token.latest if token else history.latest
    start, end = _bounds(history, asked, latest)
    if start < table.config.start_version:
        raise InvalidParameter(f"You can only query table changes since version {table.config.start_version}.")
    at_start = history.load(history.listing, start)
    snapshot = at_start if asked.include_historical_metadata else history.load(history.listing, latest)
    if not history.limited:
        tables.check_client(table, snapshot, client.able.reader_features)
    _check_recorded(at_start.metadata, start, start, end)
    response_format, lines = client.lines(table, snapshot.protocol.min_reader_version, standalone=True)
    protocols = asked.include_historical_protocol and response_format == "delta"

    def chosen(commit: Commit) -> list[Entry]:
        for action in commit.actions:
            if isinstance(action, Metadata):
                _check_recorded(action, commit.version, start, end)
        entries = _row_changes(history, commit)
        return [e for e in entries if _shown(e, start, asked.include_historical_metadata, protocols)]

    page = _Page(table, client, lines, asked, latest)
    page.choose(history.commits(token.version if token else start, min(end, latest)), chosen, token)
    made = page.lines(snapshot, snapshot.version, snapshot.version if protocols else None)
    return Answer(headers(table, client, start, response_format, client.able.end_stream_action), made)


class _Page:
    """The entries of one answer, chosen and checked before its first line is sent, and its last line."""

    def __init__(self, table: SharedTable, client: Client, lines: Lines, asked: Query | Changes, latest: int) -> None:
        self._table, self._client, self._lines, self._asked, self._latest = table, client, lines, asked, latest
        self._entries: list[Entry] = []
        self._following: str | None = None

    def choose(self, commits: Iterator[Commit], chosen: Choose, token: PageToken | None) -> None:
        files = 0
        for entry in (entry for commit in commits for entry in chosen(commit)):
            if token is not None and (entry.version, entry.index) < (token.version, token.index):
                continue
            if isinstance(entry.action, Add | Remove | ChangeFile):
                if files == self._asked.page_size:
                    self._following = self._token(entry)
                    break
                files += 1
            self._entries.append(entry)
        actions = [e.action for e in self._entries if isinstance(e.action, Add | Remove | ChangeFile)]
        tables.check_files(self._table, actions, self._client.able.reader_features)
        if self._lines.needs_sizes and any(action.size is None for action in actions):
            raise NotImplementedError("a file was removed by a writer that did not note its size")

    def lines(self, snapshot: Snapshot, version: int, protocol_version: int | None) -> Iterator[bytes]:
        yield self._lines.protocol(snapshot.protocol, protocol_version)
        yield self._lines.metadata(snapshot.metadata, version, about_table(self._table, snapshot))
        for entry in self._entries:
            match entry.action:
                case Protocol() as protocol:
                    yield self._lines.protocol(protocol, entry.version)
                case Metadata() as metadata:
                    yield self._lines.metadata(metadata, entry.version)
                case action:
                    yield self._lines.file(action, entry.version, entry.timestamp, change=True)
        if self._client.able.end_stream_action or self._asked.max_files is not None:
            yield self._lines.end(next_page_token=self._following)

    def _token(self, entry: Entry) -> str:
        expires = tokens.expiry(PAGE_TOKEN_LIFETIME)
        checksum = self._asked.checksum
        return tokens.encode(
            PageToken(self._table.config.id, checksum, self._latest, entry.version, entry.index, expires)
        )


def _page_token(table: SharedTable, asked: Query | Changes) -> PageToken | None:
    if asked.page_token is None:
        return None
    return tokens.opened_page_token(asked.page_token, table.config.id, asked.checksum)


def _data_changes(history: History, commit: Commit) -> Iterator[Entry]:
    """All of a commit that can be in a range."""
    for index, action in enumerate(commit.actions):
        match action:
            case Add(data_change=True) | Remove(data_change=True):
                yield Entry(action, commit.version, commit.timestamp, index)
            case Protocol():
                history.check_protocol(action)
                yield Entry(action, commit.version, commit.timestamp, index)
            case Metadata():
                metadata = _reworded(action) if history.limited else action
                yield Entry(metadata, commit.version, commit.timestamp, index)


def _row_changes(history: History, commit: Commit) -> list[Entry]:
    """All of a commit that can be in a change feed."""
    entries = list(_data_changes(history, commit))
    change_files = [(i, action) for i, action in enumerate(commit.actions) if isinstance(action, ChangeFile)]
    rewrote_only = any(isinstance(action, CommitInfo) and action.changed_nothing for action in commit.actions)
    if change_files or rewrote_only:
        entries = [entry for entry in entries if isinstance(entry.action, Protocol | Metadata)]
        entries += [Entry(action, commit.version, commit.timestamp, index) for index, action in change_files]
        entries.sort(key=lambda entry: entry.index)
    return entries


def _shown(entry: Entry, start: int, metadata: bool, protocols: bool) -> bool:
    """Those of the first version are the head of the answer."""
    match entry.action:
        case Protocol():
            return protocols and entry.version > start
        case Metadata():
            return metadata and entry.version > start
    return True


def _reworded(metadata: Metadata) -> Metadata:
    """Delta Standalone reads the schema and writes it again: the same, spelt otherwise."""
    schema = json.dumps(json.loads(metadata.schema_string), separators=(",", ":"), ensure_ascii=False)
    return msgspec.structs.replace(metadata, schema_string=schema)


def _bounds(history: History, asked: Changes, latest: int) -> tuple[int, int]:
    if asked.starting_timestamp is not None:
        start = history.version_from(tables.milliseconds(asked.starting_timestamp))
    else:
        start = asked.starting_version or 0
    if start > latest:
        raise InvalidParameter(
            f"Provided Start version({start}) for reading change data is invalid. Start version cannot be greater"
            f" than the latest version of the table({latest})."
        )
    if asked.ending_timestamp is not None:
        end = history.version_at(tables.milliseconds(asked.ending_timestamp, "endingTimestamp"))
    else:
        end = latest if asked.ending_version is None else asked.ending_version
    if end < start:
        raise InvalidParameter(f"CDF range from start {start} to end {end} was invalid. End cannot be before start.")
    return start, end


def _check_recorded(metadata: Metadata, version: int, start: int, end: int) -> None:
    if metadata.configuration.get("delta.enableChangeDataFeed") != "true":
        raise InvalidParameter(
            f"Error getting change data for range [{start}, {end}] as change data was not recorded for version [{version}]"
        )
