"""The NDJSON lines of metadata, query and change answers, one at a time.

Delta Sharing protocol: API Response Actions in Delta Format, and in Parquet Format. Lines of unknown kinds and unknown fields are
passed over; a line that says something about a file and cannot be understood is an error, because leaving it out would lose rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from deltamirror.sharing.actions import (
    Action,
    ChangeFile,
    EndOfStream,
    QueryStatus,
    RemovedFile,
    SharedDeletionVector,
    SharedFile,
    TableMetadata,
    TableProtocol,
)
from deltamirror.sharing.errors import AnswerBroken

LONGEST_LINE = 64 * 1024 * 1024


class _Wire(msgspec.Struct, rename="camel"):
    pass


class _DeletionVector(_Wire):
    storage_type: str
    path_or_inline_dv: str
    size_in_bytes: int
    cardinality: int
    offset: int | None = None


class _Add(_Wire):
    path: str
    size: int
    partition_values: dict[str, str | None]
    modification_time: int = 0
    stats: Any = None
    deletion_vector: _DeletionVector | None = None


class _Remove(_Wire):
    path: str
    size: int | None = None
    partition_values: dict[str, str | None] | None = None
    deletion_vector: _DeletionVector | None = None


class _Cdc(_Wire):
    path: str
    size: int
    partition_values: dict[str, str | None]


class _SingleAction(_Wire):
    add: _Add | None = None
    remove: _Remove | None = None
    cdc: _Cdc | None = None


class _File(_Wire):
    """A file line of either format: `deltaSingleAction` in delta, `url` and `size` in parquet."""

    id: str
    delta_single_action: _SingleAction | None = None
    deletion_vector_file_id: str | None = None
    expiration_timestamp: int | None = None
    version: int | None = None
    timestamp: int | None = None
    url: str | None = None
    size: int | None = None
    partition_values: dict[str, str | None] | None = None
    stats: Any = None


class _Format(msgspec.Struct, frozen=True):
    provider: str = "parquet"


class _Metadata(_Wire):
    id: str
    schema_string: str
    partition_columns: list[str] = []
    configuration: dict[str, str] | None = None
    format: _Format = _Format()
    name: str | None = None
    description: str | None = None
    created_time: int | None = None


class _Extras(_Wire):
    """What sharing adds to the metadata of a table: beside it in delta format, within it in parquet format."""

    version: int | None = None
    size: int | None = None
    num_files: int | None = None
    location: str | None = None
    access_modes: list[str] | None = None


class _DeltaMetadata(_Extras, kw_only=True):
    delta_metadata: _Metadata


class _Protocol(_Wire):
    min_reader_version: int
    min_writer_version: int = 2
    reader_features: list[str] | None = None
    writer_features: list[str] | None = None


class _DeltaProtocol(_Wire, kw_only=True):
    delta_protocol: _Protocol
    version: int | None = None


_ABSENT = msgspec.Raw()


class _Line(_Wire):
    file: _File | None = None
    protocol: msgspec.Raw = _ABSENT
    meta_data: msgspec.Raw = _ABSENT
    end_stream_action: EndOfStream | None = None
    query_status: QueryStatus | None = None
    add: _File | None = None
    remove: _File | None = None
    cdf: _File | None = None


_decode_line = msgspec.json.Decoder(_Line).decode


def parse(chunks: Iterable[bytes], response_format: str) -> Iterator[Action]:
    """Turns the bytes of an answer into actions. Memory holds one chunk and one line at a time."""
    number = 0
    in_delta = response_format == "delta"
    for text in split(chunks):
        number += 1
        if not text or text.isspace():
            continue
        try:
            line = _decode_line(text)
            file = line.file
            if file is not None:
                yield _delta_file(file) if in_delta else _parquet_add(file)
            elif (action := _other(line, in_delta)) is not None:
                yield action
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            # msgspec names fields and types, never values: no signed URL gets out. The others may show bytes.
            what = str(error) if isinstance(error, msgspec.MsgspecError) else type(error).__name__
            raise AnswerBroken(
                f"line {number} of the provider's answer is not what the protocol says: {what}"
            ) from None
        except AnswerBroken as error:
            raise AnswerBroken(f"line {number} of the provider's answer: {error}") from None


def split(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Lines of a stream of bytes, without copying more than the rest of a line from chunk to chunk."""
    rest: list[bytes] = []
    waiting = 0
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        rest.append(first)
        waiting += len(first)
        if others:
            yield b"".join(rest)
            yield from others[:-1]
            rest, waiting = [others[-1]], len(others[-1])
        if waiting > LONGEST_LINE:
            raise AnswerBroken("the provider sent an endless line")
    if waiting:
        yield b"".join(rest)


def _other(line: _Line, in_delta: bool) -> Action | None:
    if line.protocol is not _ABSENT:
        return _protocol(line.protocol, in_delta)
    if line.meta_data is not _ABSENT:
        return _metadata(line.meta_data, in_delta)
    if line.end_stream_action is not None:
        return line.end_stream_action
    if line.query_status is not None:
        return line.query_status
    if line.add is not None:
        return _parquet_add(line.add)
    if (gone := line.remove) is not None:
        url, size = _located(gone)
        return RemovedFile(gone.id, url, size, gone.partition_values, None, gone.version, gone.timestamp)
    if (cdf := line.cdf) is not None:
        url, size = _located(cdf)
        return ChangeFile(
            cdf.id, url, size, cdf.partition_values or {}, cdf.expiration_timestamp, cdf.version, cdf.timestamp
        )
    return None


def _protocol(raw: msgspec.Raw, in_delta: bool) -> TableProtocol:
    if in_delta:
        outer = msgspec.json.decode(raw, type=_DeltaProtocol)
        p, version = outer.delta_protocol, outer.version
    else:
        p, version = msgspec.json.decode(raw, type=_Protocol), None
    return TableProtocol(p.min_reader_version, p.min_writer_version, p.reader_features, p.writer_features, version)


def _metadata(raw: msgspec.Raw, in_delta: bool) -> TableMetadata:
    extras: _Extras
    if in_delta:
        outer = msgspec.json.decode(raw, type=_DeltaMetadata)
        m, extras = outer.delta_metadata, outer
    else:
        m, extras = msgspec.json.decode(raw, type=_Metadata), msgspec.json.decode(raw, type=_Extras)
    return TableMetadata(
        m.id,
        m.schema_string,
        m.partition_columns,
        m.configuration or {},
        m.format.provider,
        m.name,
        m.description,
        m.created_time,
        extras.version,
        extras.size,
        extras.num_files,
        extras.location,
        extras.access_modes,
    )


def _delta_file(file: _File) -> Action:
    single = file.delta_single_action
    if single is not None:
        if (add := single.add) is not None:
            return SharedFile(
                file.id,
                add.path,
                add.size,
                add.partition_values,
                add.modification_time,
                _stats(add.stats),
                _vector(add.deletion_vector, file),
                file.expiration_timestamp,
                file.version,
                file.timestamp,
            )
        if (gone := single.remove) is not None:
            vector = _vector(gone.deletion_vector, file)
            return RemovedFile(
                file.id, gone.path, gone.size, gone.partition_values, vector, file.version, file.timestamp
            )
        if (cdc := single.cdc) is not None:
            return ChangeFile(
                file.id,
                cdc.path,
                cdc.size,
                cdc.partition_values,
                file.expiration_timestamp,
                file.version,
                file.timestamp,
            )
    raise AnswerBroken("a file line carries no add, remove or cdc action")


def _vector(dv: _DeletionVector | None, file: _File) -> SharedDeletionVector | None:
    if dv is None:
        return None
    if dv.storage_type not in ("p", "i"):
        raise AnswerBroken(f"a deletion vector has storage type {dv.storage_type!r}, which no recipient can read")
    if dv.size_in_bytes < 0 or dv.cardinality < 0 or (dv.offset or 0) < 0:
        raise AnswerBroken("a deletion vector has a negative size, cardinality or offset")
    return SharedDeletionVector(
        dv.storage_type,
        dv.path_or_inline_dv,
        dv.size_in_bytes,
        dv.cardinality,
        dv.offset,
        file.deletion_vector_file_id,
    )


def _parquet_add(file: _File) -> SharedFile:
    url, size = _located(file)
    return SharedFile(
        file.id,
        url,
        size,
        file.partition_values or {},
        stats=_stats(file.stats),
        expires_at=file.expiration_timestamp,
        version=file.version,
        timestamp=file.timestamp,
    )


def _located(file: _File) -> tuple[str, int]:
    if file.url is None or file.size is None:
        raise AnswerBroken("a file line carries no URL or no size")
    return file.url, file.size


def _stats(stats: Any) -> str | None:
    """Statistics are a JSON text; some servers send the object itself."""
    if stats is None or isinstance(stats, str):
        return stats or None
    return msgspec.json.encode(stats).decode()
