"""The difference of two snapshots, as copies, adds and removes. A pure function: no clock, no network."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from deltamirror.delta import deletion_vector as dv
from deltamirror.delta import features
from deltamirror.delta.actions import Add, DeletionVector, Format, Metadata, Protocol, Remove
from deltamirror.delta.snapshot import Snapshot
from deltamirror.mirror import names
from deltamirror.mirror.errors import SourceContradicts
from deltamirror.mirror.settings import LAYOUT, Settings
from deltamirror.sharing import SharedDeletionVector, SharedFile, SharedSnapshot


@dataclass(frozen=True, slots=True)
class FileCopy:
    path: str
    url: str = field(repr=False)
    size: int


@dataclass(frozen=True, slots=True)
class VectorCopy:
    """A deletion vector file, copied once whoever points into it."""

    path: str
    url: str = field(repr=False)
    slices: tuple[tuple[int, int, int], ...]
    """(offset, size, cardinality) of every vector in it that the table uses."""


@dataclass(frozen=True, slots=True)
class Plan:
    source_version: int
    adds: list[Add]
    removes: list[Remove]
    protocol: Protocol | None
    """The new protocol, if it changes."""
    metadata: Metadata | None
    """The new metadata, if it changes."""
    files: list[FileCopy]
    vectors: list[VectorCopy]
    dropped: list[str]
    """Features and properties of the source that the mirror does without."""
    live_files: int
    live_bytes: int
    live_vectors: int
    rows: int | None
    """Rows of the table after the commit, if every file says how many it has."""
    removed_share: float
    """Which part of the mirror's files leaves it."""

    @property
    def empty(self) -> bool:
        return not (self.adds or self.removes or self.protocol or self.metadata)

    @property
    def bytes_to_copy(self) -> int:
        return sum(copy.size for copy in self.files)


class _Stats(msgspec.Struct, rename="camel"):
    num_records: int | None = None


_decode_stats = msgspec.json.Decoder(_Stats).decode


def make(mirror: Snapshot | None, source: SharedSnapshot, settings: Settings, now_ms: int) -> Plan:
    previous = mirror.metadata if mirror else None
    protocol, dropped_features = features.mirror_protocol(
        Protocol(
            source.protocol.min_reader_version,
            source.protocol.min_writer_version,
            source.protocol.reader_features,
            source.protocol.writer_features,
        ),
        mirror.protocol if mirror else None,
    )
    metadata, dropped_properties = _metadata(source, previous, settings)

    live = {add.path: add for add in mirror.files.values()} if mirror else {}
    stems = {path.partition("-")[0]: path for path in live}
    wanted: dict[str, Add] = {}
    copies: list[FileCopy] = []
    shared_vectors: list[SharedDeletionVector] = []
    for file in source.files:
        add = _add(file, source.id_scheme)
        if add.path in wanted:
            raise SourceContradicts(f"{settings.table} lists two files under one id: {file.id}")
        wanted[add.path] = add
        if add.path not in live:
            before = stems.get(add.path.partition("-")[0])
            if before is not None:
                raise SourceContradicts(
                    f"the file {file.id} of {settings.table} changed its size; files of a Delta table never change:"
                    " ask the provider what happened to the table"
                )
            copies.append(FileCopy(add.path, file.url, file.size))
        if file.deletion_vector is not None and (add.path not in live or live[add.path].key != add.key):
            shared_vectors.append(file.deletion_vector)

    adds: list[Add] = []
    removes: list[Remove] = []
    for path, add in wanted.items():
        old = live.get(path)
        if old is None:
            adds.append(add)
        elif old.key != add.key:
            removes.append(_remove(old, now_ms, data_change=True))
            adds.append(add)
        elif (old.partition_values, old.stats) != (add.partition_values, add.stats):
            # Same rows, other facts about them. Adding a file again replaces what the log says of it.
            adds.append(msgspec.structs.replace(add, data_change=False))
    gone = [old for path, old in live.items() if path not in wanted]
    removes.extend(_remove(old, now_ms, data_change=True) for old in gone)

    return Plan(
        source_version=source.version,
        adds=adds,
        removes=removes,
        protocol=protocol if mirror is None or protocol != mirror.protocol else None,
        metadata=metadata if metadata != previous else None,
        files=copies,
        vectors=_vector_copies(shared_vectors),
        dropped=sorted([*dropped_features, *dropped_properties]),
        live_files=len(wanted),
        live_bytes=sum(add.size for add in wanted.values()),
        live_vectors=sum(add.deletion_vector is not None for add in wanted.values()),
        rows=_rows(wanted),
        removed_share=len(gone) / len(live) if live else 0.0,
    )


def _metadata(source: SharedSnapshot, previous: Metadata | None, settings: Settings) -> tuple[Metadata, list[str]]:
    shared = source.metadata
    configuration, dropped = features.mirror_configuration(shared.configuration)
    configuration |= {
        "delta.deletedFileRetentionDuration": f"interval {int(settings.removed_files_seconds)} seconds",
        "delta.logRetentionDuration": f"interval {int(settings.log_seconds)} seconds",
        "delta.enableExpiredLogCleanup": "false",
        "deltamirror.layout": LAYOUT,
        "deltamirror.idScheme": source.id_scheme,
        "deltamirror.access": "URL",
        "deltamirror.owner": settings.owner,
    }
    return (
        Metadata(
            id=shared.id,
            schema_string=shared.schema_string,
            partition_columns=shared.partition_columns,
            configuration=configuration,
            format=Format(shared.provider),
            name=shared.name,
            description=shared.description,
            created_time=shared.created_time,
        ),
        dropped,
    )


def _add(file: SharedFile, id_scheme: str) -> Add:
    return Add(
        path=names.data_path(id_scheme, file),
        partition_values=file.partition_values,
        size=file.size,
        modification_time=file.modification_time,
        data_change=True,
        stats=file.stats,
        deletion_vector=_descriptor(file),
    )


def _descriptor(file: SharedFile) -> DeletionVector | None:
    """Our descriptor of a file's deletion vector: the same bytes and offset, under a name of our own."""
    vector = file.deletion_vector
    if vector is None:
        return None
    if _num_records(file.stats) is None:
        raise SourceContradicts(
            f"the file {file.id} has a deletion vector, but no row count; the Delta protocol demands one"
        )
    if vector.storage_type == "i":
        dv.check_bitmap(dv.z85_decode(vector.path_or_inline)[: vector.size_in_bytes], vector.cardinality)
        return DeletionVector("i", vector.path_or_inline, vector.size_in_bytes, vector.cardinality)
    return dv.in_file(names.vector_file(vector), vector.offset, vector.size_in_bytes, vector.cardinality)


def _vector_copies(vectors: list[SharedDeletionVector]) -> list[VectorCopy]:
    slices: dict[str, set[tuple[int, int, int]]] = {}
    urls: dict[str, str] = {}
    for vector in vectors:
        if vector.storage_type != "i":
            path = dv.file_name(names.vector_file(vector))
            urls[path] = vector.path_or_inline
            slices.setdefault(path, set()).add((vector.offset or 0, vector.size_in_bytes, vector.cardinality))
    return [VectorCopy(path, urls[path], tuple(sorted(found))) for path, found in slices.items()]


def _remove(add: Add, now_ms: int, *, data_change: bool) -> Remove:
    """Names the deletion vector that it cancels: without it, the remove would be about another logical file."""
    return Remove(
        path=add.path,
        data_change=data_change,
        deletion_timestamp=now_ms,
        extended_file_metadata=True,
        partition_values=add.partition_values,
        size=add.size,
        deletion_vector=add.deletion_vector,
    )


def _num_records(stats: str | None) -> int | None:
    try:
        return _decode_stats(stats).num_records if stats else None
    except msgspec.MsgspecError:
        return None


def _rows(wanted: dict[str, Add]) -> int | None:
    total = 0
    for add in wanted.values():
        records = _num_records(add.stats)
        if records is None:
            return None
        total += records - (add.deletion_vector.cardinality if add.deletion_vector else 0)
    return total
