"""The NDJSON lines of metadata, query and change answers, one at a time.

Delta Sharing protocol: API Response Actions in Delta Format, and in Parquet Format. Lines of unknown kinds and unknown fields are
passed over; a line that says something about a file and cannot be understood is an error, because leaving it out would lose rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from deltamirror.sharing.actions import (
    Action,
    ChangeFile,
    Count,
    EndOfStream,
    QueryStatus,
    RemovedFile,
    SharedDeletionVector,
    SharedFile,
    TableMetadata,
    TableProtocol,
)
from deltamirror.sharing.errors import AnswerBroken, NotUnderstood
from deltamirror.sharing.words import plain

LONGEST_LINE = 64 * 1024 * 1024
_LARGEST_BLOCK = 1024 * 1024

_Long = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_Id = Annotated[str, Meta(min_length=1)]


class _Wire(msgspec.Struct, rename="camel", gc=False):
    """Fields are in the order in which servers send them: that is how they are found fastest."""


class _Add(_Wire):
    path: str
    partition_values: dict[str, str | None]
    size: Count
    modification_time: _Long = 0
    stats: str | dict[str, Any] | None = None
    deletion_vector: SharedDeletionVector | None = None


class _Remove(_Wire):
    path: str
    partition_values: dict[str, str | None] | None = None
    size: Count | None = None
    deletion_vector: SharedDeletionVector | None = None


class _Cdc(_Wire):
    path: str
    partition_values: dict[str, str | None]
    size: Count


class _SingleAction(_Wire):
    add: _Add | None = None
    remove: _Remove | None = None
    cdc: _Cdc | None = None


class _File(_Wire):
    """A file line of either format: `deltaSingleAction` in delta, `url` and `size` in parquet."""

    id: _Id
    deletion_vector_file_id: str | None = None
    version: Count | None = None
    timestamp: _Long | None = None
    expiration_timestamp: _Long | None = None
    delta_single_action: _SingleAction | None = None
    url: str | None = None
    size: Count | None = None
    partition_values: dict[str, str | None] | None = None
    stats: str | dict[str, Any] | None = None


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
    created_time: _Long | None = None


class _Extras(_Wire):
    """What sharing adds to the metadata of a table: beside it in delta format, within it in parquet format."""

    version: Count | None = None
    size: Count | None = None
    num_files: Count | None = None
    location: str | None = None
    access_modes: list[str] | None = None


class _DeltaMetadata(_Extras, kw_only=True):
    delta_metadata: _Metadata


class _Protocol(_Wire):
    min_reader_version: Count
    min_writer_version: Count = 2
    reader_features: list[str] | None = None
    writer_features: list[str] | None = None


class _DeltaProtocol(_Wire, kw_only=True):
    delta_protocol: _Protocol
    version: Count | None = None


class _Line(_Wire):
    """One kind of thing each. A member that is there and null is not what the protocol says, and may have been a file."""

    file: _File | UnsetType = UNSET
    protocol: msgspec.Raw | UnsetType = UNSET
    meta_data: msgspec.Raw | UnsetType = UNSET
    end_stream_action: EndOfStream | UnsetType = UNSET
    query_status: QueryStatus | UnsetType = UNSET
    add: _File | UnsetType = UNSET
    remove: _File | UnsetType = UNSET
    cdf: _File | UnsetType = UNSET


_decoder = msgspec.json.Decoder(_Line)


def parse(chunks: Iterable[bytes], response_format: str) -> Iterator[Action]:
    """Turns the bytes of an answer into actions. Memory holds the lines of one chunk at a time."""
    to_action = _delta_action if response_format == "delta" else _parquet_action
    number = 1
    for block in _blocks(chunks):
        try:
            lines = _decoder.decode_lines(block)
            actions: Iterable[Action] = list(filter(None, map(to_action, lines)))
        except (ValueError, RecursionError, NotUnderstood):
            yield from _to_the_broken_line(bytes(block), number, to_action)
            raise AssertionError("one of the lines is broken") from None
        yield from actions
        number += len(lines)


def _blocks(chunks: Iterable[bytes]) -> Iterator[bytes | memoryview]:
    """The same bytes, cut at line ends: many lines at once are decoded faster than one by one.

    Only what lies at the ends of chunks is copied.
    """
    rest: list[bytes] = []
    waiting = 0
    for chunk in chunks:
        first = chunk.find(b"\n") + 1
        rest.append(chunk[:first] if first else chunk)
        waiting += len(rest[-1])
        if first:
            yield b"".join(rest)
            view, last = memoryview(chunk), chunk.rfind(b"\n") + 1
            while first < last:  # a compressed answer may come in huge chunks
                end = chunk.rfind(b"\n", first, first + _LARGEST_BLOCK) + 1 or chunk.find(b"\n", first) + 1
                yield view[first:end]
                first = end
            rest, waiting = [chunk[last:]], len(chunk) - last
        if waiting > LONGEST_LINE:
            raise AnswerBroken("the provider sent an endless line")
    if waiting:
        yield b"".join(rest)


def _to_the_broken_line(block: bytes, first: int, to_action: Callable[[_Line], Action | None]) -> Iterator[Action]:
    """What is before the broken line counts, and its number is for people."""
    for number, text in enumerate(block.split(b"\n"), first):
        if not text or text.isspace():
            continue
        try:
            action = to_action(_decoder.decode(text))
        except (ValueError, RecursionError) as error:
            # msgspec names fields and types, never values: no signed URL gets out. The others may show bytes.
            what = str(error) if isinstance(error, msgspec.MsgspecError) else type(error).__name__
            raise AnswerBroken(
                f"line {number} of the provider's answer is not what the protocol says: {what}"
            ) from None
        except NotUnderstood as error:
            raise NotUnderstood(f"line {number} of the provider's answer: {error}") from None
        if action is not None:
            yield action


# ---- delta format ------------------------------------------------------------------------------------------


def _delta_action(line: _Line) -> Action | None:
    file = line.file
    if file is UNSET:
        if line.protocol is not UNSET:
            outer = msgspec.json.decode(line.protocol, type=_DeltaProtocol)
            return _protocol(outer.delta_protocol, outer.version)
        if line.meta_data is not UNSET:
            described = msgspec.json.decode(line.meta_data, type=_DeltaMetadata)
            return _metadata(described.delta_metadata, described)
        return _other(line)
    single = file.delta_single_action
    if single is None:
        raise NotUnderstood("a file line carries no action")
    add = single.add
    if add is not None:
        vector, stats = add.deletion_vector, add.stats
        if vector is not None and (vector.storage_type != "p" or file.deletion_vector_file_id is not None):
            vector = _vector(vector, file.deletion_vector_file_id)
        if stats.__class__ is not str or not stats:
            stats = _stats(stats)
        return SharedFile(
            file.id,
            add.path,
            add.size,
            add.partition_values,
            add.modification_time,
            stats,
            vector,
            file.expiration_timestamp,
            file.version,
            file.timestamp,
        )
    if (gone := single.remove) is not None:
        vector = gone.deletion_vector
        if vector is not None:
            vector = _vector(vector, file.deletion_vector_file_id)
        return RemovedFile(file.id, gone.path, gone.size, gone.partition_values, vector, file.version, file.timestamp)
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
    raise NotUnderstood("a file line carries no add, remove or cdc action")


def _vector(vector: SharedDeletionVector, file_id: str | None) -> SharedDeletionVector:
    if vector.storage_type not in ("p", "i"):
        raise NotUnderstood(
            f"a deletion vector has storage type {plain(vector.storage_type, 10)!r}, which no recipient can read"
        )
    return vector if file_id is None else msgspec.structs.replace(vector, file_id=file_id)


# ---- parquet format ----------------------------------------------------------------------------------------


def _parquet_action(line: _Line) -> Action | None:
    for file in (line.file, line.add):
        if file is not UNSET:
            url, size = _located(file)
            values, stats = file.partition_values or {}, _stats(file.stats)
            return SharedFile(
                file.id, url, size, values, 0, stats, None, file.expiration_timestamp, file.version, file.timestamp
            )
    if (gone := line.remove) is not UNSET:
        url, size = _located(gone)
        return RemovedFile(gone.id, url, size, gone.partition_values, None, gone.version, gone.timestamp)
    if (cdf := line.cdf) is not UNSET:
        url, size = _located(cdf)
        values = cdf.partition_values or {}
        return ChangeFile(cdf.id, url, size, values, cdf.expiration_timestamp, cdf.version, cdf.timestamp)
    if line.protocol is not UNSET:
        return _protocol(msgspec.json.decode(line.protocol, type=_Protocol), None)
    if line.meta_data is not UNSET:
        described = msgspec.json.decode(line.meta_data, type=_Metadata)
        return _metadata(described, msgspec.json.decode(line.meta_data, type=_Extras))
    return _other(line)


def _located(file: _File) -> tuple[str, int]:
    if file.url is None or file.size is None:
        raise NotUnderstood("a file line carries no URL or no size")
    return file.url, file.size


# ---- either ------------------------------------------------------------------------------------------------


def _other(line: _Line) -> Action | None:
    if line.end_stream_action is not UNSET:
        return line.end_stream_action
    if line.query_status is not UNSET:
        return line.query_status
    return None


def _protocol(protocol: _Protocol, version: int | None) -> TableProtocol:
    return TableProtocol(
        protocol.min_reader_version,
        protocol.min_writer_version,
        protocol.reader_features,
        protocol.writer_features,
        version,
    )


def _metadata(metadata: _Metadata, extras: _Extras) -> TableMetadata:
    return TableMetadata(
        metadata.id,
        metadata.schema_string,
        metadata.partition_columns,
        metadata.configuration or {},
        metadata.format.provider,
        metadata.name,
        metadata.description,
        metadata.created_time,
        extras.version,
        extras.size,
        extras.num_files,
        extras.location,
        extras.access_modes,
    )


def _stats(stats: str | dict[str, Any] | None) -> str | None:
    """Statistics are a JSON text; some servers send the object itself."""
    if stats is None or isinstance(stats, str):
        return stats or None
    return msgspec.json.encode(stats).decode()
