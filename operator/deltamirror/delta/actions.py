"""The actions of a Delta log as typed values (Delta protocol: Actions).

Field names on the wire are camelCase; unknown fields and unknown actions are ignored, as the protocol
demands of readers. Fields that a mirror has no use for (row tracking ids, clustering provider) are not modelled.
"""

from __future__ import annotations

from typing import Any

import msgspec

PartitionValues = dict[str, str | None]


class DeletionVector(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Delta protocol: Deletion Vector Descriptor Schema."""

    storage_type: str
    path_or_inline_dv: str
    size_in_bytes: int
    cardinality: int
    offset: int | None = None

    @property
    def unique_id(self) -> str:
        """Delta protocol: Derived Fields. Together with the path it is the key of a file in the log."""
        tail = "" if self.offset is None else f"@{self.offset}"
        return f"{self.storage_type}{self.path_or_inline_dv}{tail}"


FileKey = tuple[str, str | None]
"""What identifies a logical file: its path and the unique id of its deletion vector."""


class Add(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    path: str
    partition_values: PartitionValues
    size: int
    modification_time: int
    data_change: bool
    stats: str | None = None
    tags: dict[str, str | None] | None = None
    deletion_vector: DeletionVector | None = None

    @property
    def key(self) -> FileKey:
        return self.path, self.deletion_vector.unique_id if self.deletion_vector else None


class Remove(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    path: str
    data_change: bool
    deletion_timestamp: int | None = None
    extended_file_metadata: bool | None = None
    partition_values: PartitionValues | None = None
    size: int | None = None
    tags: dict[str, str | None] | None = None
    deletion_vector: DeletionVector | None = None

    @property
    def key(self) -> FileKey:
        return self.path, self.deletion_vector.unique_id if self.deletion_vector else None


class Format(msgspec.Struct, frozen=True):
    provider: str = "parquet"
    options: dict[str, str] = {}


class Metadata(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    id: str
    schema_string: str
    partition_columns: list[str]
    configuration: dict[str, str]
    format: Format
    name: str | None = None
    description: str | None = None
    created_time: int | None = None


class Protocol(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    min_reader_version: int
    min_writer_version: int
    reader_features: list[str] | None = None
    writer_features: list[str] | None = None


class Txn(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    app_id: str
    version: int
    last_updated: int | None = None


class Sidecar(msgspec.Struct, frozen=True, rename="camel"):
    """Delta protocol: Sidecar File Information. Read only: mirrors write classic checkpoints."""

    path: str
    size_in_bytes: int


class Line(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One line of a commit: exactly one of its fields is set."""

    commit_info: dict[str, Any] | None = None
    protocol: Protocol | None = None
    meta_data: Metadata | None = None
    txn: Txn | None = None
    remove: Remove | None = None
    add: Add | None = None
    sidecar: Sidecar | None = None


decode_line = msgspec.json.Decoder(Line).decode
_encoder = msgspec.json.Encoder()


def encode_line(line: Line) -> bytes:
    return _encoder.encode(line)
