"""What a sharing server tells about a table, as typed values, whichever response format it came in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated
from urllib.parse import quote

import msgspec
from msgspec import Meta

from deltamirror.sharing.errors import NotShared
from deltamirror.sharing.times import ServerClock
from deltamirror.sharing.words import plain


@dataclass(frozen=True, slots=True)
class TableName:
    share: str
    schema: str
    table: str

    @property
    def path(self) -> str:
        share, schema, table = (escaped(part) for part in (self.share, self.schema, self.table))
        return f"/shares/{share}/schemas/{schema}/tables/{table}"

    def __str__(self) -> str:
        return f"{self.share}.{self.schema}.{self.table}"


def escaped(name: str) -> str:
    """A name as part of a path. Names of dots would be taken for steps up the path, however they are written."""
    if name.strip(".") == "":
        raise NotShared(f"{plain(name, 80)!r} cannot be the name of a share, schema or table")
    return quote(name, safe="")


_DESCRIPTOR = {
    "storage_type": "storageType",
    "path_or_inline": "pathOrInlineDv",
    "size_in_bytes": "sizeInBytes",
    "file_id": "deletionVectorFileId",
}
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class SharedDeletionVector(msgspec.Struct, frozen=True, gc=False, rename=_DESCRIPTOR.get):
    """A deletion vector behind a signed URL ('p') or inline ('i'). Decoded as the descriptor of the Delta protocol."""

    storage_type: str
    path_or_inline: str
    size_in_bytes: Count
    cardinality: Count
    offset: Count | None = None
    file_id: str | None = None

    def __repr__(self) -> str:
        return f"SharedDeletionVector({self.storage_type!r}, {self.cardinality} rows)"


class _Located(msgspec.Struct, frozen=True, gc=False):
    """Something behind a signed URL, which no log or traceback is to show."""

    id: str
    url: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"


class SharedFile(_Located, frozen=True, gc=False):
    """A data file: of a snapshot, or added by a version of a range."""

    size: int
    partition_values: dict[str, str | None]
    modification_time: int = 0
    stats: str | None = None
    deletion_vector: SharedDeletionVector | None = None
    expires_at: int | None = None
    """Milliseconds since the epoch at which the URL stops working, if the server says so. By its clock: see `ServerClock`."""
    version: int | None = None
    timestamp: int | None = None


class RemovedFile(_Located, frozen=True, gc=False):
    """A data file that a version of a range removed."""

    size: int | None
    partition_values: dict[str, str | None] | None
    deletion_vector: SharedDeletionVector | None = None
    version: int | None = None
    timestamp: int | None = None


class ChangeFile(_Located, frozen=True, gc=False):
    """A file of the change data feed."""

    size: int
    partition_values: dict[str, str | None]
    expires_at: int | None = None
    version: int | None = None
    timestamp: int | None = None


class TableProtocol(msgspec.Struct, frozen=True):
    min_reader_version: int
    min_writer_version: int
    reader_features: list[str] | None = None
    writer_features: list[str] | None = None
    version: int | None = None
    """The version at which it came into force, in ranges with historical protocol."""


class TableMetadata(msgspec.Struct, frozen=True):
    id: str
    schema_string: str
    partition_columns: list[str]
    configuration: dict[str, str]
    provider: str = "parquet"
    name: str | None = None
    description: str | None = None
    created_time: int | None = None
    version: int | None = None
    size: int | None = None
    num_files: int | None = None
    location: str | None = None
    access_modes: list[str] | None = None


class EndOfStream(msgspec.Struct, frozen=True, rename="camel"):
    """The last line of an answer, where the server sends one."""

    error_message: str | None = None
    http_status_error_code: int | None = None
    next_page_token: str | None = None
    refresh_token: str | None = None
    min_url_expiration_timestamp: int | None = None


class QueryStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The answer is not ready yet: ask again under this id."""

    query_id: str


FileAction = SharedFile | RemovedFile | ChangeFile
Action = TableProtocol | TableMetadata | FileAction | EndOfStream | QueryStatus


@dataclass(frozen=True, slots=True)
class TableDescription:
    """The answer to a metadata query."""

    version: int
    response_format: str
    protocol: TableProtocol
    metadata: TableMetadata


@dataclass(frozen=True, slots=True)
class SharedSnapshot:
    """The complete answer to a snapshot query."""

    version: int
    id_scheme: str
    """How file ids are made: `delta` where the server confirmed it, else the response format it chose."""
    protocol: TableProtocol
    metadata: TableMetadata
    files: list[SharedFile]
    refresh_token: str | None = field(default=None, repr=False)
    clock: ServerClock | None = None
    """For the expiry of its URLs: `clock.until(file.expires_at)`."""
