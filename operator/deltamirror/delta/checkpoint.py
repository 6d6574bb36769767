"""Checkpoints: all kinds are read, the classic single file is written (Delta protocol: Checkpoints).

A classic checkpoint is always allowed, whatever features a table has, and every reader knows it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from deltamirror.delta.actions import Add, DeletionVector, Line, decode_line
from deltamirror.delta.errors import LogCorrupt
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
            for name in present:
                column = batch.column(name)
                if column.null_count < len(column):
                    yield from _lines(name, column.drop_null())
    except (pa.ArrowInvalid, msgspec.ValidationError) as error:
        raise LogCorrupt(f"a checkpoint cannot be read: {error}") from None


def _lines(name: str, column: pa.StructArray) -> Iterator[Line]:
    """The actions of one kind in a batch. Adds are most of every checkpoint, and get a way of their own for speed."""
    if name == "add":
        fields = {child.name: column.field(i).to_pylist() for i, child in enumerate(column.type)}
        empty = [None] * len(column)
        for path, values, size, modified, stats, tags, vector in zip(
            fields["path"],
            fields["partitionValues"],
            fields["size"],
            fields["modificationTime"],
            fields.get("stats", empty),
            fields.get("tags", empty),
            fields.get("deletionVector", empty),
            strict=True,
        ):
            dv = _vector(vector) if vector else None
            yield Line(
                add=Add(path, dict(values or ()), size, modified, False, stats, dict(tags) if tags else None, dv)
            )
    else:
        for row in column.to_pylist(maps_as_pydicts="strict"):
            yield msgspec.convert({name: {k: v for k, v in row.items() if v is not None}}, Line)


def _vector(row: dict[str, Any]) -> DeletionVector:
    return DeletionVector(
        row["storageType"], row["pathOrInlineDv"], row["sizeInBytes"], row["cardinality"], row.get("offset")
    )


def _known_fields(schema: pa.Schema, columns: list[str]) -> list[str]:
    """Column paths to read: statistics that are also there as JSON may be wide structs, and are left out."""
    return [
        f"{column}.{child.name}"
        for column in columns
        for child in schema.field(column).type
        if child.name not in ("stats_parsed", "partitionValues_parsed")
    ]


class Writer:
    """Writes the classic checkpoint of a version, row by row."""

    def __init__(self) -> None:
        self._sink = io.BytesIO()
        self._writer = pq.ParquetWriter(self._sink, SCHEMA, compression="zstd")
        self._rows: list[dict[str, Any]] = []
        self.actions = 0
        self.adds = 0

    def write(self, line: Line) -> None:
        self._rows.append(_row(line))
        self.actions += 1
        self.adds += line.add is not None
        if len(self._rows) >= _BATCH:
            self._flush()

    def finish(self) -> bytes:
        self._flush()
        self._writer.close()
        return self._sink.getvalue()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(pa.Table.from_pylist(self._rows, SCHEMA))
            self._rows = []


def _row(line: Line) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(line)
    if line.add is not None or line.remove is not None:
        action = row["add" if line.add is not None else "remove"]
        action["dataChange"] = False
        for name in ("partitionValues", "tags"):
            if action.get(name) is not None:
                action[name] = list(action[name].items())
    elif line.meta_data is not None:
        metadata = row["metaData"]
        metadata["configuration"] = list(metadata["configuration"].items())
        metadata["format"] = {**metadata["format"], "options": list(metadata["format"]["options"].items())}
    return row
