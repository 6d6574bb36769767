"""The difference of two snapshots, as copies, adds and removes. No clock, no network: a source's files come in, a plan comes out."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field

import msgspec

from deltamirror.delta import deletion_vector as dv
from deltamirror.delta import features
from deltamirror.delta.actions import Add, DeletionVector, Format, Metadata, PartitionValues, Protocol, Remove
from deltamirror.delta.errors import DeltaError
from deltamirror.mirror.errors import SourceContradicts
from deltamirror.mirror.filter import compile_filter
from deltamirror.mirror.names import Names
from deltamirror.mirror.settings import LAYOUT, Settings
from deltamirror.mirror.spool import Spool
from deltamirror.mirror.state import VECTOR_TAG, LiveFile, MirrorState, facts
from deltamirror.sharing import SharedDeletionVector, SharedFile, TableMetadata, TableProtocol


class Entry(msgspec.Struct, frozen=True):
    """One file that the next commit adds, and what has to happen before it may."""

    add: Add
    file_id: str
    url: str
    copy: bool
    """Its data is not in the mirror yet."""
    cancels: Remove | None = None
    """The entry of the same path that it takes the place of."""
    compare: bool = False
    """The source calls its deletion vector by a new name; if the bytes are ours, ours stays."""
    restore: bool = False
    """The log is right about it; only its objects have to be brought back."""
    count_rows: bool = False
    """It has a deletion vector and no row count, which the protocol demands: the Parquet footer has it."""


@dataclass(slots=True)
class VectorCopy:
    """A deletion vector file, copied once whoever points into it."""

    path: str
    url: str = field(repr=False)
    file_id: str
    """A file that uses it: new URLs are asked for by it."""
    slices: set[tuple[int, int, int]] = field(default_factory=set)
    """(offset, size, cardinality) of every vector in it that the table uses."""


@dataclass(slots=True)
class Plan:
    source_version: int
    protocol: Protocol | None
    """The new protocol, if it changes."""
    metadata: Metadata | None
    """The new metadata, if it changes."""
    dropped: list[str]
    """Features and properties of the source that the mirror does without."""
    entries: Spool[Entry]
    gone: Spool[Remove]
    """Files that left the table."""
    vectors: dict[str, VectorCopy]
    added: int = 0
    """Files that are new in the table."""
    files_to_copy: int = 0
    bytes_to_copy: int = 0
    live_files: int = 0
    live_bytes: int = 0
    live_vectors: int = 0
    rows: int | None = 0
    """Rows of the table after the commit, if every file says how many it has."""
    filtered_out: int = 0
    restored: int = 0
    """Files whose objects are damaged and come again."""

    @property
    def empty(self) -> bool:
        """Whether the log is right as it is. Objects may still have to be restored."""
        return not (self.log_entries or len(self.gone) or self.protocol or self.metadata)

    @property
    def log_entries(self) -> int:
        return len(self.entries) - self.restored

    @property
    def removes(self) -> int:
        return len(self.gone)


class _Stats(msgspec.Struct, rename="camel"):
    num_records: int | None = None


_decode_stats = msgspec.json.Decoder(_Stats).decode


class Planner:
    """Takes the files of a source one by one."""

    def __init__(
        self,
        mirror: MirrorState | None,
        protocol: TableProtocol,
        metadata: TableMetadata,
        id_scheme: str,
        version: int,
        settings: Settings,
        seed: str,
        now_ms: int,
        damaged: Set[str] = frozenset(),
    ) -> None:
        self._damaged = damaged
        self._live = mirror.files if mirror else {}
        self._stems = {path.partition("-")[0]: path for path in self._live}
        self._names = Names(seed, id_scheme)
        self._table = settings.table
        self._now_ms = now_ms
        self._wanted: Callable[[PartitionValues], bool] | None = None
        if settings.partition_filter is not None:
            self._wanted = compile_filter(settings.partition_filter, metadata.schema_string, metadata.partition_columns)
        new_protocol, dropped = features.mirror_protocol(
            Protocol(
                protocol.min_reader_version,
                protocol.min_writer_version,
                protocol.reader_features,
                protocol.writer_features,
            ),
            mirror.protocol if mirror else None,
            protected=settings.write_protection,
        )
        new_metadata, dropped_properties = _metadata(metadata, id_scheme, settings, seed)
        self._plan = Plan(
            source_version=version,
            protocol=new_protocol if mirror is None or new_protocol != mirror.protocol else None,
            metadata=new_metadata if mirror is None or new_metadata != mirror.metadata else None,
            dropped=sorted([*dropped, *dropped_properties]),
            entries=Spool(Entry),
            gone=Spool(Remove),
            vectors={},
        )

    def take(self, file: SharedFile) -> None:
        plan = self._plan
        if self._wanted is not None and not self._wanted(file.partition_values):
            plan.filtered_out += 1
            return
        path = self._names.data(file.id, file.size)
        live = self._live.get(path)
        if live is None and (before := self._stems.get(path.partition("-")[0])) is not None:
            raise SourceContradicts(
                f"a file of {self._table} changed its size from {self._live[before].size} to {file.size} bytes; files of a Delta"
                " table never change: ask the provider what happened to the table"
            )
        if live is not None:
            live.seen = True
        self._count(file)
        shared = file.deletion_vector
        if live is not None and self._same_vector(live, shared):
            if self._damaged and self._restore(path, live, file):
                return
            if live.facts != facts(file.partition_values, file.stats) and not (shared and _records(file.stats) is None):
                # Same rows, other facts about them: adding a file again replaces what the log says of it.
                self._spool(Entry(self._add(path, file, live.vector, False, live), file.id, file.url, copy=False))
            return
        vector = self._descriptor(shared) if shared else None
        moved = live is not None and self._only_renamed(live, vector)
        if shared is not None and shared.storage_type == "p":
            self._vector_copy(shared, file.id)
        entry = Entry(
            add=self._add(path, file, vector, True, None),
            file_id=file.id,
            url=file.url,
            copy=live is None,
            cancels=self._remove(path, live) if live is not None else None,
            compare=moved,
            count_rows=vector is not None and _records(file.stats) is None,
        )
        if entry.copy:
            plan.added += 1
            plan.files_to_copy += 1
            plan.bytes_to_copy += file.size
        self._spool(entry)

    def _restore(self, path: str, live: LiveFile, file: SharedFile) -> bool:
        vector_path = None
        if live.vector is not None and live.vector.storage_type == "u":
            vector_path = dv.relative_path(live.vector)
        broken_vector = vector_path in self._damaged
        if path not in self._damaged and not broken_vector:
            return False
        if broken_vector and vector_path is not None and file.deletion_vector is not None:
            self._vector_copy(file.deletion_vector, file.id, vector_path)
        copy = path in self._damaged
        self._plan.restored += 1
        if copy:
            self._plan.files_to_copy += 1
            self._plan.bytes_to_copy += file.size
        add = self._add(path, file, live.vector, False, live)
        self._spool(Entry(add, file.id, file.url, copy=copy, restore=True))
        return True

    def finish(self) -> Plan:
        for path, live in self._live.items():
            if not live.seen:
                remove = self._remove(path, live)
                self._plan.gone.append(remove, 200)
        return self._plan

    def _spool(self, entry: Entry) -> None:
        self._plan.entries.append(entry, 300 + len(entry.url) + len(entry.add.stats or ""))

    def _count(self, file: SharedFile) -> None:
        plan = self._plan
        plan.live_files += 1
        plan.live_bytes += file.size
        deleted = file.deletion_vector.cardinality if file.deletion_vector else 0
        plan.live_vectors += file.deletion_vector is not None
        records = _records(file.stats)
        plan.rows = None if plan.rows is None or records is None else plan.rows + records - deleted

    def _same_vector(self, live: LiveFile, shared: SharedDeletionVector | None) -> bool:
        ours = live.vector
        if ours is None or shared is None:
            return ours is None and shared is None
        if shared.storage_type == "i":
            return ours.storage_type == "i" and ours.path_or_inline_dv == shared.path_or_inline
        place = (shared.offset, shared.size_in_bytes, shared.cardinality)
        if (ours.offset, ours.size_in_bytes, ours.cardinality) != place or ours.storage_type != "u":
            return False
        return live.vector_identity == self._names.vector(shared)

    def _only_renamed(self, live: LiveFile, vector: DeletionVector | None) -> bool:
        """The same place in another file: perhaps the same vector, which the source calls by a new name."""
        ours = live.vector
        if ours is None or vector is None or ours.storage_type != "u" or vector.storage_type != "u":
            return False
        return (ours.offset, ours.size_in_bytes, ours.cardinality) == (
            vector.offset,
            vector.size_in_bytes,
            vector.cardinality,
        )

    def _descriptor(self, shared: SharedDeletionVector) -> DeletionVector:
        """Our descriptor of a file's deletion vector: the same bytes and offset, under a name of our own."""
        if shared.storage_type == "i":
            try:
                data = dv.z85_decode(shared.path_or_inline)[: shared.size_in_bytes]
                dv.check_bitmap(data, shared.cardinality)
            except (ValueError, KeyError, DeltaError) as error:
                raise SourceContradicts(f"an inline deletion vector of {self._table} cannot be read: {error}") from None
            return DeletionVector("i", shared.path_or_inline, shared.size_in_bytes, shared.cardinality)
        return dv.in_file(self._names.vector(shared), shared.offset, shared.size_in_bytes, shared.cardinality)

    def _vector_copy(self, shared: SharedDeletionVector, file_id: str, path: str | None = None) -> None:
        path = path or dv.file_name(self._names.vector(shared))
        copy = self._plan.vectors.setdefault(path, VectorCopy(path, shared.path_or_inline, file_id))
        copy.slices.add((shared.offset or 0, shared.size_in_bytes, shared.cardinality))

    def _add(
        self, path: str, file: SharedFile, vector: DeletionVector | None, data_change: bool, live: LiveFile | None
    ) -> Add:
        tags: dict[str, str | None] | None = None
        renamed = live is not None and live.vector is not None and live.vector.storage_type == "u"
        if (
            live is not None
            and live.vector is not None
            and renamed
            and live.vector_identity != dv.file_uuid(live.vector)
        ):
            tags = {VECTOR_TAG: str(live.vector_identity)}
        return Add(
            path=path,
            partition_values=file.partition_values,
            size=file.size,
            modification_time=file.modification_time,
            data_change=data_change,
            stats=file.stats,
            tags=tags,
            deletion_vector=vector,
        )

    def _remove(self, path: str, live: LiveFile) -> Remove:
        """Names the deletion vector that it cancels: without it, the remove would be about another logical file."""
        return Remove(
            path=path,
            data_change=True,
            deletion_timestamp=self._now_ms,
            extended_file_metadata=True,
            partition_values=live.partition_values,
            size=live.size,
            deletion_vector=live.vector,
        )


def _metadata(shared: TableMetadata, id_scheme: str, settings: Settings, seed: str) -> tuple[Metadata, list[str]]:
    configuration, dropped = features.mirror_configuration(shared.configuration)
    configuration |= {
        "delta.deletedFileRetentionDuration": f"interval {int(settings.removed_files_seconds)} seconds",
        "delta.logRetentionDuration": f"interval {int(settings.log_seconds)} seconds",
        "delta.enableExpiredLogCleanup": "false",
        "deltamirror.layout": LAYOUT,
        "deltamirror.seed": seed,
        "deltamirror.idScheme": id_scheme,
        "deltamirror.access": "URL",
        "deltamirror.owner": settings.owner,
    }
    if settings.partition_filter is not None:
        configuration["deltamirror.filter"] = msgspec.json.encode(settings.partition_filter, order="sorted").decode()
    metadata = Metadata(
        id=shared.id,
        schema_string=shared.schema_string,
        partition_columns=shared.partition_columns,
        configuration=dict(sorted(configuration.items())),
        format=Format(shared.provider),
        name=shared.name,
        description=shared.description,
        created_time=shared.created_time,
    )
    return metadata, dropped


def _records(stats: str | None) -> int | None:
    try:
        return _decode_stats(stats).num_records if stats else None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
