"""A streamed answer about a table's files: what it is about first, then file after file, over all its pages.

Of the files that went by nothing is kept but two hashes each: memory does not grow with their statistics and URLs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from urllib.parse import urlsplit

from deltamirror.sharing.actions import (
    Action,
    ChangeFile,
    EndOfStream,
    FileAction,
    QueryStatus,
    RemovedFile,
    SharedDeletionVector,
    SharedFile,
    TableMetadata,
    TableName,
    TableProtocol,
)
from deltamirror.sharing.errors import AnswerBroken
from deltamirror.sharing.lines import parse
from deltamirror.sharing.query import Changes, Query
from deltamirror.sharing.times import ServerClock
from deltamirror.sharing.transport import Response
from deltamirror.sharing.trust import Trust
from deltamirror.sharing.words import plain

ASYNC_POLL_SECONDS = 2.0
Ask = Callable[[str | None, str | None], AbstractContextManager[Response]]
"""Asks for a page (by its token) of an answer, or for the result of a query (by its id)."""


def checked_lines(response: Response) -> Iterator[Action]:
    """The lines of one response, to its end mark. An error in that mark is raised, and so is its absence if it was promised."""
    ended = False
    for action in parse(response.chunks(), response.response_format):
        if ended:
            raise AnswerBroken("the provider's answer goes on after its end mark")
        if isinstance(action, EndOfStream):
            if action.error_message or action.http_status_error_code:
                raise response.gave_up(action.error_message or "", action.http_status_error_code)
            ended = True
        yield action
    if response.ends_with_mark and not ended:
        raise AnswerBroken("the provider's answer was cut off: its end mark is missing")


class Answer:
    """Iterate over it once. What it is about is known when the first action is there, or at the end."""

    version: int
    id_scheme: str
    """How file ids are made: `delta` where the server confirmed it, else the response format it chose."""
    response_format: str
    protocol: TableProtocol
    metadata: TableMetadata
    clock: ServerClock
    """For the expiry of its URLs: `clock.until(file.expires_at)`."""
    refresh_token: str | None = None
    """Known at the end."""
    ends_with_mark: bool = False
    """Whether the server promises an end mark."""
    pages: int = 0

    def __init__(self, table: TableName, asked: Query | Changes, ask: Ask, trust: Trust, deadline: float) -> None:
        self._table = table
        self._asked = asked
        self._ask = ask
        self._trust = trust
        self._deadline = deadline
        self._begun = False
        self._seen: dict[int, int] = {}

    def actions(self) -> Generator[FileAction | TableProtocol | TableMetadata, None, None]:
        """Files and, in ranges, the protocols and metadata that came into force between them.

        Whoever stops early closes the iterator, or lets it go: the connection ends with it.
        """
        if self._begun:
            raise RuntimeError("an answer can be read once: ask again")
        self._begun = True
        token: str | None = None
        tokens: set[str] = set()
        while True:
            self.pages += 1
            next_token: str | None = None
            head = _Head()
            for action in self._page(token):
                if isinstance(action, EndOfStream):
                    self.refresh_token = action.refresh_token or self.refresh_token
                    next_token = action.next_page_token
                elif not head.take(action):
                    self._agree(head)
                    if self._keep(action):
                        yield action
            self._agree(head)
            if not next_token:
                break
            if next_token in tokens:
                raise AnswerBroken(f"the pages of the answer about {self._table} never end")
            tokens.add(next_token)
            token = next_token
        expected = self.metadata.num_files
        if self._asked.is_whole and expected is not None and expected != len(self._seen):
            raise AnswerBroken(f"the provider announced {expected} files of {self._table} and sent {len(self._seen)}")

    def files(self) -> Iterator[SharedFile]:
        """The files of a snapshot."""
        for action in self.actions():
            assert isinstance(action, SharedFile), "snapshots are asked for with files()"
            yield action

    def _page(self, token: str | None) -> Iterator[TableProtocol | TableMetadata | FileAction | EndOfStream]:
        """The lines of a page; one that is not ready yet is waited for."""
        query_id: str | None = None
        while True:
            with self._ask(token, query_id) as response:
                pending: str | None = None
                described = False
                for action in checked_lines(response):
                    if isinstance(action, QueryStatus):
                        pending = action.query_id
                        break
                    if not described:
                        self._describe(response)
                        described = True
                    yield action
                else:
                    if not described:
                        self._describe(response)
                    return
            if described or (query_id is not None and pending != query_id):
                raise AnswerBroken(f"the provider changed its mind about a query of {self._table} that is under way")
            query_id = pending
            if time.monotonic() + ASYNC_POLL_SECONDS > self._deadline:
                raise AnswerBroken(f"the provider's answer about {self._table} was not ready in time")
            time.sleep(ASYNC_POLL_SECONDS)

    def _describe(self, response: Response) -> None:
        version, response_format = response.table_version, response.response_format
        id_scheme = response.headers.get("fileidhash", "").strip().lower() or response_format
        if self.pages > 1 and (version, response_format, id_scheme) != (
            self.version,
            self.response_format,
            self.id_scheme,
        ):
            raise AnswerBroken(f"the pages of the answer about {self._table} are not of one version")
        if self._asked.version is not None and version != self._asked.version:
            raise AnswerBroken(
                f"the provider was asked for version {self._asked.version} of {self._table} and answered with {version}"
            )
        self.version, self.response_format, self.id_scheme = version, response_format, id_scheme
        self.ends_with_mark = response.ends_with_mark
        self.clock = response.clock

    def _agree(self, head: _Head) -> None:
        """The head of the first page is the answer's; every other page has to say the same."""
        if head.agreed:
            return
        if head.protocol is None or head.metadata is None:
            raise AnswerBroken(f"the provider's answer about {self._table} does not begin with protocol and metadata")
        if self.pages > 1 and (head.protocol, head.metadata) != (self.protocol, self.metadata):
            raise AnswerBroken(f"the pages of the answer about {self._table} do not agree about protocol or metadata")
        self.protocol, self.metadata = head.protocol, head.metadata
        head.agreed = True

    def _keep(self, action: FileAction | TableProtocol | TableMetadata) -> bool:
        """Whether an action is news."""
        if isinstance(action, (SharedFile, RemovedFile, ChangeFile)):
            for url in _urls(action):
                self._trust.check(url)
        if self._asked.is_range:
            return self._within(action)
        if not isinstance(action, SharedFile):
            raise AnswerBroken(f"the snapshot of {self._table} contains something else than files")
        # The same line may come twice, with two URLs; contradictions may not.
        content = _content(action)
        known = self._seen.setdefault(hash(action.id), content)
        if known is content:
            return True
        if known != content:
            raise AnswerBroken(
                f"the provider listed the file {plain(action.id, 80)} of {self._table} twice with different contents"
            )
        return False

    def _within(self, action: FileAction | TableProtocol | TableMetadata) -> bool:
        """In ranges the same id twice is a new deletion vector: both count. The end of a range is only a hint to servers."""
        first, last = self._asked.starting_version, self._asked.ending_version
        if action.version is None:
            if isinstance(action, (TableProtocol, TableMetadata)):
                return True
            raise AnswerBroken(
                f"the provider's list of changes of {self._table} does not say which version they are of"
            )
        if first is not None and action.version < first:
            raise AnswerBroken(
                f"the provider was asked for changes of {self._table} since version {first} and sent some of {action.version}"
            )
        return last is None or action.version <= last


class _Head:
    """The protocol and metadata that open a page. In ranges, later ones are changes."""

    def __init__(self) -> None:
        self.protocol: TableProtocol | None = None
        self.metadata: TableMetadata | None = None
        self.agreed = False

    def take(self, action: FileAction | TableProtocol | TableMetadata) -> bool:
        if isinstance(action, TableProtocol) and self.protocol is None:
            self.protocol = action
        elif isinstance(action, TableMetadata) and self.metadata is None:
            self.metadata = action
        else:
            return False
        return True


def _urls(file: FileAction) -> Iterator[str]:
    """Those that somebody may want to read: what a removed file was is of no interest, what was deleted of it may be."""
    if not isinstance(file, RemovedFile):
        yield file.url
    if not isinstance(file, ChangeFile):
        vector = file.deletion_vector
        if vector is not None and vector.storage_type == "p":
            yield vector.path_or_inline


def _content(file: SharedFile) -> int:
    """All that makes two lines about a file differ, but for their URLs. The hash is of 64 bits and nobody can foresee it."""
    values = frozenset(file.partition_values.items())
    return hash((file.size, file.modification_time, file.stats, values, _vector(file.deletion_vector)))


def _vector(vector: SharedDeletionVector | None) -> tuple[object, ...] | None:
    if vector is None:
        return None
    which = vector.path_or_inline
    if vector.storage_type == "p":
        which = vector.file_id or urlsplit(which).path.rpartition("/")[2]
    return vector.storage_type, which, vector.offset, vector.size_in_bytes, vector.cardinality
