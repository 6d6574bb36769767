"""A snapshot as lines of newline-delimited JSON, in the two response formats of the protocol.

`delta` wraps the actions of the log, with URLs for paths; `parquet` is the older form, which has no place for
deletion vectors or column mapping. What the reference server leaves out of an answer (tags, commit times, row
tracking) is left out here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import msgspec

from deltamirror.delta.actions import Add
from deltamirror.delta.deletion_vector import relative_path
from deltamirror.delta.snapshot import Snapshot
from sharing_provider.urls import Signer

_encoder = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Files:
    """Which files an answer lists, and how."""

    adds: Iterable[Add]
    signer: Signer
    id_hash: str
    version: int | None = None
    """Named on each line unless the latest version was asked for."""
    limit: int | None = None
    """Enough files for so many rows will do."""
    end: bool = False
    refresh_token: str | None = None


def head(snapshot: Snapshot, response_format: str, history_shared: bool) -> Iterator[bytes]:
    metadata = snapshot.metadata
    if response_format == "delta":
        yield _line("protocol", deltaProtocol=snapshot.protocol)
        yield _line("metaData", deltaMetadata=metadata)
        return
    change_feed = history_shared and metadata.configuration.get("delta.enableChangeDataFeed") == "true"
    yield _line("protocol", minReaderVersion=snapshot.protocol.min_reader_version)
    yield _line(
        "metaData",
        id=metadata.id,
        name=metadata.name,
        description=metadata.description,
        format={"provider": "parquet"},
        schemaString=_without_field_metadata(metadata.schema_string),
        configuration={"enableChangeDataFeed": "true"} if change_feed else {},
        partitionColumns=metadata.partition_columns,
    )


def listing(files: Files, response_format: str) -> Iterator[bytes]:
    rows = 0
    first_to_expire = None
    for add in files.adds:
        if files.limit is not None:
            if rows >= files.limit:
                break
            rows += _row_count(add)
        signed = files.signer.sign(unquote(add.path))
        first_to_expire = first_to_expire or signed.expires
        # Of the path as the log spells it: the same for the life of the file.
        identity = {"id": _hash(add.path, files.id_hash), "expirationTimestamp": signed.expires}
        if response_format == "delta":
            shared = msgspec.structs.replace(
                add, path=signed.url, tags=None, deletion_vector=_shared_vector(add, files.signer)
            )
            yield _line("file", **identity, version=files.version, deltaSingleAction={"add": shared})
        else:
            yield _line(
                "file",
                url=signed.url,
                **identity,
                version=files.version,
                partitionValues=add.partition_values,
                size=add.size,
                stats=add.stats,
            )
    if files.end or files.refresh_token:
        yield _line("endStreamAction", refreshToken=files.refresh_token, minUrlExpirationTimestamp=first_to_expire)


def _line(action: str, **fields: Any) -> bytes:
    return _encoder.encode({action: {k: v for k, v in fields.items() if v is not None}}) + b"\n"


def _hash(path: str, scheme: str) -> str:
    if scheme == "delta":
        return hashlib.sha256(path.encode()).hexdigest()
    return hashlib.md5(path.encode(), usedforsecurity=False).hexdigest()


def _shared_vector(add: Add, signer: Signer) -> msgspec.Struct | None:
    """A vector in a file below the table becomes one at an absolute path, which is a URL; its place in it stays."""
    if add.deletion_vector is None:
        return None
    url = signer.sign(relative_path(add.deletion_vector)).url
    return msgspec.structs.replace(add.deletion_vector, storage_type="p", path_or_inline_dv=url)


def _row_count(add: Add) -> int:
    records = json.loads(add.stats).get("numRecords", 0) if add.stats else 0
    return int(records) - (add.deletion_vector.cardinality if add.deletion_vector else 0)


def _without_field_metadata(schema_string: str) -> str:
    """Of a column's metadata, `parquet` answers keep the comment alone."""
    schema = json.loads(schema_string)
    for field in schema["fields"]:
        field["metadata"] = {k: v for k, v in field["metadata"].items() if k == "comment"}
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)
