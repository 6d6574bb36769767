"""A streamed answer about a table's files: what it is about first, then file after file, over all its pages.

Nothing is kept but the identity of what was seen: memory does not grow with the files' statistics and URLs.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import msgspec

from deltamirror.sharing.actions import (
    Action,
    ChangeFile,
    EndOfStream,
    FileAction,
    QueryStatus,
    RemovedFile,
    SharedFile,
    TableMetadata,
    TableName,
    TableProtocol,
)
from deltamirror.sharing.errors import AnswerBroken, ProviderFailed
from deltamirror.sharing.lines import parse
from deltamirror.sharing.transport import Response
from deltamirror.sharing.trust import check_url

ASYNC_POLL_SECONDS = 2.0
Ask = Callable[[str | None, str | None], AbstractContextManager[Response]]
"""Asks for a page (by its token) of an answer, or for the result of a query (by its id)."""


class Answer:
    """Iterate over it once. `protocol` and `metadata` are known when the first file is there, or at the end."""

    version: int
    id_scheme: str
    response_format: str
    protocol: TableProtocol
    metadata: TableMetadata
    refresh_token: str | None = None
    ends_with_mark: bool = False
    """Whether the server promised, and sent, an end mark."""
    clock_skew: float = 0.0

    def __init__(self, table: TableName, ask: Ask, endpoint: str, deadline: float, *, snapshot: bool) -> None:
        self._table = table
        self._ask = ask
        self._endpoint = endpoint
        self._deadline = deadline
        self._snapshot = snapshot
        self._seen: dict[bytes, bytes] = {}
        self._files = 0
        self._pages = 0

    def actions(self) -> Iterator[FileAction | TableProtocol | TableMetadata]:
        """Files and, in ranges, the protocols and metadata that came into force between them."""
        token: str | None = None
        while True:
            end: EndOfStream | None = None
            with self._page(token) as response:
                head = _Head()
                for action in self._lines(response):
                    if isinstance(action, EndOfStream):
                        end = action
                    elif isinstance(action, (TableProtocol, TableMetadata)):
                        if not head.take(action):
                            yield action
                    elif not isinstance(action, QueryStatus) and self._keep(action):
                        self._agree(head)
                        yield action
                self._agree(head)
                self._finish(response, end)
            token = end.next_page_token if end else None
            if not token:
                break
            self._pages += 1
        expected = self.metadata.num_files
        if self._snapshot and expected is not None and expected != self._files:
            raise AnswerBroken(f"the provider announced {expected} files of {self._table} and sent {self._files}")

    def files(self) -> Iterator[SharedFile]:
        """The files of a snapshot."""
        for action in self.actions():
            if not isinstance(action, SharedFile):
                raise AnswerBroken(f"the snapshot of {self._table} contains something else than files")
            yield action

    def _page(self, token: str | None) -> AbstractContextManager[Response]:
        return self._ask(token, None)

    def _lines(self, response: Response) -> Iterator[Action]:
        """The lines of a page; an answer that is not ready yet is waited for."""
        self._describe(response)
        for action in parse(response.chunks(), self.response_format):
            if isinstance(action, QueryStatus):
                yield from self._wait_for(action.query_id)
                return
            yield action

    def _wait_for(self, query_id: str) -> Iterator[Action]:
        while time.monotonic() < self._deadline:
            time.sleep(ASYNC_POLL_SECONDS)
            with self._ask(None, query_id) as response:
                actions = parse(response.chunks(), response.capabilities.get("responseformat", "parquet"))
                first = next(actions, None)
                if isinstance(first, QueryStatus):
                    if first.query_id != query_id:
                        raise AnswerBroken("the provider changed the id of a query that is under way")
                    continue
                self._describe(response)
                if first is not None:
                    yield first
                yield from actions
                return
        raise AnswerBroken(f"the provider's answer about {self._table} was not ready in time")

    def _describe(self, response: Response) -> None:
        capabilities = response.capabilities
        # A server from before the header answers in parquet, and does not send it back.
        response_format = capabilities.get("responseformat", "parquet")
        version = response.table_version
        id_scheme = response.headers.get("fileidhash") or response_format
        if self._pages and (version, response_format, id_scheme) != (
            self.version,
            self.response_format,
            self.id_scheme,
        ):
            raise AnswerBroken(f"the pages of the answer about {self._table} are not of one version")
        self.version, self.response_format, self.id_scheme = version, response_format, id_scheme
        self.ends_with_mark = capabilities.get("includeendstreamaction") == "true"
        self.clock_skew = response.clock_skew

    def _agree(self, head: _Head) -> None:
        """The head of the first page is the answer's; every other page has to say the same."""
        if head.agreed:
            return
        if head.protocol is None or head.metadata is None:
            raise AnswerBroken(f"the provider's answer about {self._table} has no protocol or no metadata")
        if self._pages and (head.protocol, head.metadata) != (self.protocol, self.metadata):
            raise AnswerBroken(f"the pages of the answer about {self._table} do not agree about protocol or metadata")
        self.protocol, self.metadata = head.protocol, head.metadata
        head.agreed = True

    def _finish(self, response: Response, end: EndOfStream | None) -> None:
        if end is None:
            if self.ends_with_mark:
                raise AnswerBroken(f"the list of files of {self._table} was cut off: its end mark is missing")
            return
        if end.error_message:
            raise ProviderFailed(
                f'the provider gave up while listing {self._table}: "{end.error_message[:300]}"',
                status=end.http_status_error_code,
            )
        self.refresh_token = end.refresh_token or self.refresh_token

    def _keep(self, file: FileAction) -> bool:
        """Whether a file is news. In a snapshot the same line may come twice, with two URLs, and contradictions may not."""
        for url in _urls(file):
            check_url(url, self._endpoint)
        if not self._snapshot:
            return True  # in ranges the same id twice is a new deletion vector: both count
        if not isinstance(file, SharedFile):
            raise AnswerBroken(f"the snapshot of {self._table} contains something else than files")
        content = _digest(_without_urls(file))
        known = self._seen.setdefault(_digest(file.id), content)
        if known is not content:
            if known != content:
                raise AnswerBroken(
                    f"the provider listed the file {file.id} of {self._table} twice with different contents"
                )
            return False
        self._files += 1
        return True


class _Head:
    """The protocol and metadata that open a page. In ranges, later ones are changes."""

    def __init__(self) -> None:
        self.protocol: TableProtocol | None = None
        self.metadata: TableMetadata | None = None
        self.agreed = False

    def take(self, action: TableProtocol | TableMetadata) -> bool:
        if isinstance(action, TableProtocol):
            if self.protocol is not None:
                return False
            self.protocol = action
        else:
            if self.metadata is not None:
                return False
            self.metadata = action
        return True


def _urls(file: FileAction) -> Iterator[str]:
    if not isinstance(file, RemovedFile):
        yield file.url
    if (
        not isinstance(file, ChangeFile)
        and file.deletion_vector is not None
        and file.deletion_vector.storage_type == "p"
    ):
        yield file.deletion_vector.path_or_inline


_encoder = msgspec.msgpack.Encoder()


def _digest(value: object) -> bytes:
    return hashlib.blake2b(_encoder.encode(value), digest_size=16).digest()


def _without_urls(file: SharedFile) -> list[object]:
    dv = file.deletion_vector
    vector: list[object] | None = None
    if dv is not None:
        path = dv.path_or_inline.split("?", 1)[0] if dv.storage_type == "p" else dv.path_or_inline
        vector = [dv.storage_type, path, dv.offset, dv.size_in_bytes, dv.cardinality, dv.file_id]
    return [file.size, file.partition_values, file.stats, file.url.split("?", 1)[0], vector]
