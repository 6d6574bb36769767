"""A mirror as its own log tells it, kept small: what the next diff needs, for a million files.

Statistics stay in the log; here is only a digest that tells whether they changed.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass, field
from typing import Any

import msgspec

from deltamirror.delta import deletion_vector as dv
from deltamirror.delta import log
from deltamirror.delta.actions import Add, DeletionVector, Line, Metadata, PartitionValues, Protocol
from deltamirror.delta.errors import LogCorrupt
from deltamirror.delta.storage import LogStorage

VECTOR_TAG = "deltamirror.vector"
"""Tag of an add: the identity under which the source now knows a deletion vector that we keep under an older name."""
MARK = "deltamirror"
"""Our part of a commit's commitInfo."""


class LiveFile(msgspec.Struct, gc=False):
    size: int
    facts: bytes
    partition_values: PartitionValues
    vector: DeletionVector | None = None
    vector_identity: uuid.UUID | None = None
    seen: bool = False
    """Found again in the source's list."""


class Mark(msgspec.Struct, frozen=True, rename="camel"):
    """What a commit of ours says about the source."""

    source_version: int
    digest: str
    commit_id: str
    rows: int | None = None
    listed_at: int = 0
    """When the source was last compared file by file, in milliseconds."""


@dataclass(slots=True)
class MirrorState:
    version: int
    protocol: Protocol
    metadata: Metadata
    files: dict[str, LiveFile]
    commit_info: dict[str, Any]
    checkpoint_version: int | None
    commits_since_checkpoint: int
    mark: Mark | None = field(init=False)
    """None if the newest commit is not ours."""

    def __post_init__(self) -> None:
        try:
            self.mark = msgspec.convert(self.commit_info.get(MARK), Mark)
        except msgspec.ValidationError:
            self.mark = None

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files.values())

    @property
    def vectors(self) -> int:
        return sum(file.vector is not None for file in self.files.values())

    def setting(self, name: str) -> str | None:
        return self.metadata.configuration.get(f"deltamirror.{name}")


def facts(partition_values: PartitionValues, stats: str | None) -> bytes:
    """Tells whether what the log says about a file's contents has changed."""
    content = msgspec.msgpack.encode([sorted(partition_values.items()), stats])
    return hashlib.blake2b(content, digest_size=8).digest()


def load(storage: LogStorage, listing: log.Listing | None = None) -> MirrorState:
    """Replays the mirror's log. Raises NotATable if there is none."""
    part = log.segment(listing or log.list_log(storage))
    replay = _Replay(part.version)
    for version, line in log.actions(storage, part):
        replay.apply(version, line)
    return replay.state(part)


class _Replay:
    def __init__(self, version: int) -> None:
        self._version = version
        self._protocol: Protocol | None = None
        self._metadata: Metadata | None = None
        self._files: dict[str, LiveFile] = {}
        self._commit_info: dict[str, Any] = {}
        self._partitions: dict[tuple[tuple[str, str | None], ...], PartitionValues] = {}
        self._current = -1
        self._displaced: dict[str, str | None] = {}

    def apply(self, version: int, line: Line) -> None:
        if version != self._current:
            self._end_commit()
            self._current = version
        if line.add is not None:
            self._add(line.add)
        elif line.remove is not None:
            path, vector_id = line.remove.key
            known = self._files.get(path)
            if known is not None and _vector_id(known) == vector_id:
                del self._files[path]
            elif self._displaced.get(path, "") == vector_id:
                del self._displaced[path]
        elif line.meta_data is not None:
            self._metadata = line.meta_data
        elif line.protocol is not None:
            self._protocol = line.protocol
        elif line.commit_info is not None and version == self._version:
            self._commit_info = line.commit_info

    def _add(self, add: Add) -> None:
        known = self._files.get(add.path)
        if known is not None and _vector_id(known) != add.key[1]:
            self._displaced[add.path] = _vector_id(known)
        values = add.partition_values
        if values:  # files of one partition share one dict
            values = self._partitions.setdefault(tuple(sorted(values.items())), values)
        self._files[add.path] = LiveFile(
            add.size, facts(add.partition_values, add.stats), values, add.deletion_vector, _identity(add)
        )

    def _end_commit(self) -> None:
        """A path has one live entry. Readers do not check it; two would double its rows."""
        if self._displaced:
            path = next(iter(self._displaced))
            raise LogCorrupt(f"the mirror's log has two live entries for {path} at version {self._current}")

    def state(self, part: log.Segment) -> MirrorState:
        self._end_commit()
        if self._protocol is None or self._metadata is None:
            raise LogCorrupt(f"the log up to version {part.version} has no protocol or no metadata")
        return MirrorState(
            part.version,
            self._protocol,
            self._metadata,
            self._files,
            self._commit_info,
            part.checkpoint,
            len(part.commits),
        )


def _vector_id(file: LiveFile) -> str | None:
    return file.vector.unique_id if file.vector else None


def _identity(add: Add) -> uuid.UUID | None:
    if add.deletion_vector is None or add.deletion_vector.storage_type != "u":
        return None
    tag = (add.tags or {}).get(VECTOR_TAG)
    return uuid.UUID(tag) if tag else dv.file_uuid(add.deletion_vector)
