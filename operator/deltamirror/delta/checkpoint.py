"""Checkpoints: all kinds are read, the classic single file is written (Delta protocol: Checkpoints).

A classic checkpoint is always allowed, whatever features a table has, and every reader knows it.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from deltamirror.delta.actions import Add, Line, Remove, decode_line
from deltamirror.delta.errors import LogCorrupt
from deltamirror.delta.snapshot import Snapshot
from deltamirror.delta.storage import LogStorage

_STRINGS = pa.map_(pa.string(), pa.string())
_DELETION_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
SCHEMA = pa.schema(
    [
        ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])),
        (
            "add",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("partitionValues", _STRINGS),
                    ("size", pa.int64()),
                    ("modificationTime", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("tags", _STRINGS),
                    ("deletionVector", _DELETION_VECTOR),
                    ("stats", pa.string()),
                ]
            ),
        ),
        (
            "remove",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("deletionTimestamp", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("extendedFileMetadata", pa.bool_()),
                    ("partitionValues", _STRINGS),
                    ("size", pa.int64()),
                    ("deletionVector", _DELETION_VECTOR),
                ]
            ),
        ),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("name", pa.string()),
                    ("description", pa.string()),
                    ("format", pa.struct([("provider", pa.string()), ("options", _STRINGS)])),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("createdTime", pa.int64()),
                    ("configuration", _STRINGS),
                ]
            ),
        ),
        (
            "protocol",
            pa.struct(
                [
                    ("minReaderVersion", pa.int32()),
                    ("minWriterVersion", pa.int32()),
                    ("readerFeatures", pa.list_(pa.string())),
                    ("writerFeatures", pa.list_(pa.string())),
                ]
            ),
        ),
    ]
)

_BATCH = 10_000
_COLUMNS = ("txn", "add", "remove", "metaData", "protocol", "sidecar")


def read(storage: LogStorage, path: str, folder: str) -> Iterator[Line]:
    """The actions of a checkpoint file, those of its sidecars included."""
    if path.endswith(".json"):
        lines: Iterator[Line] = (decode_line(text) for text in storage.get(path).split(b"\n") if text.strip())
    else:
        lines = _read_parquet(storage.get(path))
    for line in lines:
        if line.sidecar is not None:
            yield from _read_parquet(storage.get(f"{folder}/_sidecars/{line.sidecar.path}"))
        else:
            yield line


def _read_parquet(data: bytes) -> Iterator[Line]:
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        present = [name for name in _COLUMNS if name in file.schema_arrow.names]
        for batch in file.iter_batches(_BATCH, columns=_known_fields(file.schema_arrow, present)):
            for row in batch.to_pylist(maps_as_pydicts="strict"):
                yield msgspec.convert({k: _without_nulls(v) for k, v in row.items() if v is not None}, Line)
    except (pa.ArrowInvalid, msgspec.ValidationError) as error:
        raise LogCorrupt(f"a checkpoint cannot be read: {error}") from None


def _known_fields(schema: pa.Schema, columns: list[str]) -> list[str]:
    """Column paths to read: statistics that are also there as JSON may be wide structs, and are left out."""
    wanted = []
    for column in columns:
        for child in schema.field(column).type:
            if child.name not in ("stats_parsed", "partitionValues_parsed"):
                wanted.append(f"{column}.{child.name}")
    return wanted


def _without_nulls(action: dict[str, Any]) -> dict[str, Any]:
    """A null in a Parquet struct is an absent field in JSON; nulls inside partition values are values."""
    return {name: value for name, value in action.items() if value is not None}


def write(snapshot: Snapshot, oldest_tombstone: int) -> tuple[bytes, int]:
    """The classic checkpoint of a snapshot, and the number of its actions.

    Tombstones from before `oldest_tombstone` (milliseconds) have done their work and are left out.
    """
    removes = (r for r in snapshot.tombstones.values() if (r.deletion_timestamp or 0) >= oldest_tombstone)
    rows = _rows(snapshot, removes)
    sink = io.BytesIO()
    count = 0
    with pq.ParquetWriter(sink, SCHEMA, compression="zstd") as writer:
        while batch := list(islice(rows, _BATCH)):
            count += len(batch)
            writer.write_table(pa.Table.from_pylist(batch, SCHEMA))
    return sink.getvalue(), count


def _rows(snapshot: Snapshot, removes: Iterable[Remove]) -> Iterator[dict[str, Any]]:
    yield {"protocol": _builtin(snapshot.protocol)}
    yield {"metaData": _builtin(snapshot.metadata)}
    for txn in snapshot.txns.values():
        yield {"txn": _builtin(txn)}
    for add in snapshot.files.values():
        yield {"add": _file(add)}
    for remove in removes:
        yield {"remove": _file(remove)}


def _builtin(action: Any) -> dict[str, Any]:
    converted: dict[str, Any] = msgspec.to_builtins(action)
    for name in ("configuration", "options"):
        if name in converted:
            converted[name] = list(converted[name].items())
    if "format" in converted:
        converted["format"] = {**converted["format"], "options": list(converted["format"]["options"].items())}
    return converted


def _file(action: Add | Remove) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(action)
    if row.get("partitionValues") is not None:
        row["partitionValues"] = list(row["partitionValues"].items())
    if row.get("tags") is not None:
        row["tags"] = list(row["tags"].items())
    row["dataChange"] = False
    return row
