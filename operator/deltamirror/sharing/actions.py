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
    id: str
    url: str
    size: int
    partition_values: dict[str, str | None]
    modification_time: int = 0
    stats: str | None = None
    deletion_vector: SharedDeletionVector | None = None
    expires_at: int | None = None
    """Milliseconds since the epoch at which the URL stops working, if the server says so."""


class TableProtocol(msgspec.Struct, frozen=True):
    min_reader_version: int
    min_writer_version: int
    reader_features: list[str] | None = None
    writer_features: list[str] | None = None


class TableMetadata(msgspec.Struct, frozen=True):
    id: str
    schema_string: str
    partition_columns: list[str]
    configuration: dict[str, str]
    provider: str = "parquet"
    name: str | None = None
    description: str | None = None
    created_time: int | None = None
    num_files: int | None = None


@dataclass(frozen=True, slots=True)
class SharedSnapshot:
    """The complete answer to a snapshot query."""

    version: int
    id_scheme: str
    """How file ids are made: `delta` where the server confirmed it, else the response format it chose."""
    protocol: TableProtocol
    metadata: TableMetadata
    files: list[SharedFile]
