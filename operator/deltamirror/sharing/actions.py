"""What a sharing server tells about a table, as typed values, whichever response format it came in."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

import msgspec


@dataclass(frozen=True, slots=True)
class TableName:
    share: str
    schema: str
    table: str

    @property
    def path(self) -> str:
        share, schema, table = (quote(part, safe="") for part in (self.share, self.schema, self.table))
        return f"/shares/{share}/schemas/{schema}/tables/{table}"

    def __str__(self) -> str:
        return f"{self.share}.{self.schema}.{self.table}"


class SharedDeletionVector(msgspec.Struct, frozen=True):
    """A deletion vector behind a signed URL ('p') or inline ('i')."""

    storage_type: str
    path_or_inline: str
    size_in_bytes: int
    cardinality: int
    offset: int | None = None
    file_id: str | None = None


class SharedFile(msgspec.Struct, frozen=True):
    """A data file: of a snapshot, or added by a version of a range."""

    id: str
    url: str
    size: int
    partition_values: dict[str, str | None]
    modification_time: int = 0
    stats: str | None = None
    deletion_vector: SharedDeletionVector | None = None
    expires_at: int | None = None
    """Milliseconds since the epoch, by the server's clock, at which the URL stops working, if the server says so."""
    version: int | None = None
    timestamp: int | None = None


class RemovedFile(msgspec.Struct, frozen=True):
    """A data file that a version of a range removed."""

    id: str
    url: str
    size: int | None
    partition_values: dict[str, str | None] | None
    deletion_vector: SharedDeletionVector | None = None
    version: int | None = None
    timestamp: int | None = None


class ChangeFile(msgspec.Struct, frozen=True):
    """A file of the change data feed."""

    id: str
    url: str
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
    refresh_token: str | None = None
