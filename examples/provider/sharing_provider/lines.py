"""Actions as lines of newline-delimited JSON, in the two response formats of the protocol.

    Lines
    ├── DeltaLines              `delta`: the actions of the log, with URLs for paths
    │   └── StandaloneLines     ... as the reference server's older library writes them
    └── ParquetLines            `parquet`: the older form, without deletion vectors and column mapping

What the reference server leaves out of an answer (row tracking, clustering) is left out here.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import unquote

import msgspec

from deltamirror.delta.actions import Add, DeletionVector, Metadata, Protocol, Remove
from deltamirror.delta.deletion_vector import relative_path
from sharing_provider.commits import FileAction
from sharing_provider.urls import SignedUrl, Signer

_encoder = msgspec.json.Encoder()


class Lines(ABC):
    """Writes one answer: signs as it goes, and remembers when the first of its URLs expires."""

    needs_sizes: ClassVar[bool] = False
    """Whether a file without a size has no line in this format."""

    def __init__(self, signer: Signer, id_hash: str) -> None:
        self._signer = signer
        self._id_hash = id_hash
        self._first_to_expire: int | None = None

    @abstractmethod
    def protocol(self, protocol: Protocol, version: int | None = None) -> bytes: ...

    @abstractmethod
    def metadata(
        self, metadata: Metadata, version: int | None = None, about_table: Mapping[str, Any] | None = None
    ) -> bytes:
        """`about_table` is what some servers say of the table next to its metadata: its size, its location."""
        ...

    @abstractmethod
    def file(self, action: FileAction, version: int | None, timestamp: int | None, change: bool) -> bytes:
        """`change`: whether the file belongs to a range or a change feed, not to a snapshot."""
        ...

    def end(self, refresh_token: str | None = None, next_page_token: str | None = None) -> bytes:
        return _line(
            "endStreamAction",
            refreshToken=refresh_token,
            nextPageToken=next_page_token,
            minUrlExpirationTimestamp=self._first_to_expire,
        )

    def _sign(self, path: str) -> SignedUrl:
        signed = self._signer.sign(path)
        self._first_to_expire = min(self._first_to_expire or signed.expires, signed.expires)
        return signed

    def _id(self, path: str) -> str:
        """Of a path as the log spells it: the same for the life of the file, with whatever deletion vector."""
        if self._id_hash == "delta":
            return hashlib.sha256(path.encode()).hexdigest()
        return hashlib.md5(path.encode(), usedforsecurity=False).hexdigest()


class DeltaLines(Lines):
    def __init__(self, signer: Signer, id_hash: str, *, vector_ids: bool = False) -> None:
        super().__init__(signer, id_hash)
        self._vector_ids = vector_ids

    def protocol(self, protocol: Protocol, version: int | None = None) -> bytes:
        return _line("protocol", version=version, deltaProtocol=protocol)

    def metadata(
        self, metadata: Metadata, version: int | None = None, about_table: Mapping[str, Any] | None = None
    ) -> bytes:
        return _line("metaData", version=version, **(about_table or {}), deltaMetadata=metadata)

    def file(self, action: FileAction, version: int | None, timestamp: int | None, change: bool) -> bytes:
        signed = self._sign(unquote(action.path))
        return _line(
            "file",
            id=self._id(action.path),
            deletionVectorFileId=self._vector_id(action) if self._vector_ids else None,
            version=version,
            timestamp=timestamp,
            expirationTimestamp=signed.expires,
            deltaSingleAction=self._shared(action, signed.url, change),
        )

    def _shared(self, action: FileAction, url: str, change: bool) -> dict[str, Any]:
        if isinstance(action, Add):
            vector = self._shared_vector(action.deletion_vector)
            return {"add": msgspec.structs.replace(action, path=url, tags=None, deletion_vector=vector)}
        if isinstance(action, Remove):
            vector = self._shared_vector(action.deletion_vector)
            return {"remove": msgspec.structs.replace(action, path=url, tags=None, deletion_vector=vector)}
        shared = {"path": url, "partitionValues": action.partition_values, "size": action.size, "dataChange": False}
        return {"cdc": shared}

    def _shared_vector(self, vector: DeletionVector | None) -> DeletionVector | None:
        """A vector in a file below the table becomes one at an absolute path, which is a URL; its place in it stays."""
        if vector is None or vector.storage_type == "i":
            return vector
        url = self._sign(relative_path(vector)).url
        return msgspec.structs.replace(vector, storage_type="p", path_or_inline_dv=url)

    def _vector_id(self, action: FileAction) -> str | None:
        vector = action.deletion_vector if isinstance(action, Add | Remove) else None
        return self._id(relative_path(vector)) if vector and vector.storage_type == "u" else None


class StandaloneLines(DeltaLines):
    """Fields that its classes have but its tables do not are written too; those it does not know are lost."""

    def protocol(self, protocol: Protocol, version: int | None = None) -> bytes:
        return super().protocol(Protocol(protocol.min_reader_version, protocol.min_writer_version), version)

    def _shared(self, action: FileAction, url: str, change: bool) -> dict[str, Any]:
        ((kind, shared),) = super()._shared(action, url, change).items()
        fields = {**msgspec.to_builtins(shared), "tags": action.tags, "pathAsUri": url}
        if isinstance(action, Add) and not change:
            fields["dataChange"] = False
        if isinstance(action, Remove):
            fields["extendedFileMetadata"] = bool(action.extended_file_metadata)
            fields["delTimestamp"] = action.deletion_timestamp or 0
        return {kind: {name: value for name, value in fields.items() if value is not None}}


class ParquetLines(Lines):
    needs_sizes = True

    def __init__(self, signer: Signer, id_hash: str, *, history_shared: bool, expiry: bool = True) -> None:
        super().__init__(signer, id_hash)
        self._history_shared = history_shared
        self._expiry = expiry

    def protocol(self, protocol: Protocol, version: int | None = None) -> bytes:
        return _line("protocol", minReaderVersion=protocol.min_reader_version)

    def metadata(
        self, metadata: Metadata, version: int | None = None, about_table: Mapping[str, Any] | None = None
    ) -> bytes:
        change_feed = self._history_shared and metadata.configuration.get("delta.enableChangeDataFeed") == "true"
        return _line(
            "metaData",
            id=metadata.id,
            name=metadata.name,
            description=metadata.description,
            format={"provider": "parquet"},
            schemaString=_without_field_metadata(metadata.schema_string),
            configuration={"enableChangeDataFeed": "true"} if change_feed else {},
            partitionColumns=metadata.partition_columns,
            version=version,
            **(about_table or {}),
        )

    def file(self, action: FileAction, version: int | None, timestamp: int | None, change: bool) -> bytes:
        signed = self._sign(unquote(action.path))
        kind = "add" if isinstance(action, Add) else "remove" if isinstance(action, Remove) else "cdf"
        return _line(
            kind if change else "file",
            url=signed.url,
            id=self._id(action.path),
            expirationTimestamp=signed.expires if self._expiry else None,
            partitionValues=action.partition_values,
            size=action.size,
            stats=action.stats if isinstance(action, Add) else None,
            version=version,
            timestamp=timestamp,
        )


def _line(action: str, **fields: Any) -> bytes:
    return _encoder.encode({action: {k: v for k, v in fields.items() if v is not None}}) + b"\n"


def _without_field_metadata(schema_string: str) -> str:
    """Of a column's metadata, `parquet` answers keep the comment alone."""
    schema = json.loads(schema_string)
    for field in schema["fields"]:
        field["metadata"] = {k: v for k, v in field["metadata"].items() if k == "comment"}
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)
