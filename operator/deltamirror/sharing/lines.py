"""The NDJSON lines of metadata and query answers, one at a time (Delta Sharing protocol: API Response Format in Delta)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from deltamirror.sharing.actions import SharedDeletionVector, SharedFile, TableMetadata, TableProtocol
from deltamirror.sharing.errors import AnswerBroken


class EndOfStream(msgspec.Struct, frozen=True, rename="camel"):
    error_message: str | None = None
    http_status_error_code: int | None = None
    next_page_token: str | None = None
    refresh_token: str | None = None
    min_url_expiration_timestamp: int | None = None


Action = TableProtocol | TableMetadata | SharedFile | EndOfStream


class _DeletionVector(msgspec.Struct, rename="camel"):
    storage_type: str
    path_or_inline_dv: str
    size_in_bytes: int
    cardinality: int
    offset: int | None = None


class _Add(msgspec.Struct, rename="camel"):
    path: str
    size: int
    partition_values: dict[str, str | None]
    modification_time: int = 0
    stats: Any = None
    deletion_vector: _DeletionVector | None = None


class _SingleAction(msgspec.Struct, rename="camel"):
    add: _Add | None = None


class _File(msgspec.Struct, rename="camel"):
    """Both forms of a file line: delta (`deltaSingleAction`) and parquet (`url`, `size`, …)."""

    id: str
    delta_single_action: _SingleAction | None = None
    deletion_vector_file_id: str | None = None
    expiration_timestamp: int | None = None
    url: str | None = None
    size: int | None = None
    partition_values: dict[str, str | None] | None = None
    stats: Any = None


class _Format(msgspec.Struct, frozen=True):
    provider: str = "parquet"


class _Metadata(msgspec.Struct, rename="camel"):
    id: str
    schema_string: str
    partition_columns: list[str] = []
    configuration: dict[str, str] | None = None
    format: _Format = _Format()
    name: str | None = None
    description: str | None = None
    created_time: int | None = None
    num_files: int | None = None


class _DeltaMetadata(msgspec.Struct, rename="camel"):
    delta_metadata: _Metadata
    num_files: int | None = None


class _Protocol(msgspec.Struct, rename="camel"):
    min_reader_version: int
    min_writer_version: int = 2
    reader_features: list[str] | None = None
    writer_features: list[str] | None = None


class _DeltaProtocol(msgspec.Struct, rename="camel"):
    delta_protocol: _Protocol


_ABSENT = msgspec.Raw()


class _Line(msgspec.Struct, rename="camel"):
    file: _File | None = None
    protocol: msgspec.Raw = _ABSENT
    meta_data: msgspec.Raw = _ABSENT
    end_stream_action: EndOfStream | None = None


_decode_line = msgspec.json.Decoder(_Line).decode


def parse(chunks: Iterator[bytes], response_format: str) -> Iterator[Action]:
    """Turns the bytes of an answer into actions. Lines of kinds that are not known are passed over."""
    for number, text in _numbered_lines(chunks):
        try:
            action = _action(_decode_line(text), response_format)
        except msgspec.MsgspecError as error:
            # The text of msgspec's errors names fields and types, never values: no signed URL gets out.
            raise AnswerBroken(
                f"line {number} of the provider's answer is not what the protocol says: {error}"
            ) from None
        except AnswerBroken as error:
            raise AnswerBroken(f"line {number} of the provider's answer: {error}") from None
        if action is not None:
            yield action


def _numbered_lines(chunks: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    number = 0
    rest = b""
    for chunk in chunks:
        lines = (rest + chunk).split(b"\n")
        rest = lines.pop()
        for line in lines:
            number += 1
            if line.strip():
                yield number, line
    if rest.strip():
        yield number + 1, rest


def _action(line: _Line, response_format: str) -> Action | None:
    if line.file is not None:
        return _delta_file(line.file) if response_format == "delta" else _parquet_file(line.file)
    if line.protocol is not _ABSENT:
        if response_format == "delta":
            p = msgspec.json.decode(line.protocol, type=_DeltaProtocol).delta_protocol
        else:
            p = msgspec.json.decode(line.protocol, type=_Protocol)
        return TableProtocol(p.min_reader_version, p.min_writer_version, p.reader_features, p.writer_features)
    if line.meta_data is not _ABSENT:
        return _metadata(line.meta_data, response_format)
    return line.end_stream_action


def _metadata(raw: msgspec.Raw, response_format: str) -> TableMetadata:
    if response_format == "delta":
        outer = msgspec.json.decode(raw, type=_DeltaMetadata)
        m, num_files = outer.delta_metadata, outer.num_files
    else:
        m = msgspec.json.decode(raw, type=_Metadata)
        num_files = m.num_files
    return TableMetadata(
        m.id,
        m.schema_string,
        m.partition_columns,
        m.configuration or {},
        m.format.provider,
        m.name,
        m.description,
        m.created_time,
        num_files,
    )


def _delta_file(file: _File) -> SharedFile:
    add = file.delta_single_action.add if file.delta_single_action else None
    if add is None:
        raise AnswerBroken("a file line of a snapshot carries no add action")
    vector = None
    if (dv := add.deletion_vector) is not None:
        if dv.storage_type not in ("p", "i"):
            raise AnswerBroken(f"a deletion vector has storage type {dv.storage_type!r}, which no recipient can read")
        vector = SharedDeletionVector(
            dv.storage_type,
            dv.path_or_inline_dv,
            dv.size_in_bytes,
            dv.cardinality,
            dv.offset,
            file.deletion_vector_file_id,
        )
    return SharedFile(
        file.id,
        add.path,
        add.size,
        add.partition_values,
        add.modification_time,
        _stats(add.stats),
        vector,
        file.expiration_timestamp,
    )


def _parquet_file(file: _File) -> SharedFile:
    if file.url is None or file.size is None:
        raise AnswerBroken("a file line carries no URL or no size")
    return SharedFile(
        file.id,
        file.url,
        file.size,
        file.partition_values or {},
        stats=_stats(file.stats),
        expires_at=file.expiration_timestamp,
    )


def _stats(stats: Any) -> str | None:
    """Statistics are a JSON text; some servers send the object itself."""
    if stats is None or isinstance(stats, str):
        return stats or None
    return msgspec.json.encode(stats).decode()
