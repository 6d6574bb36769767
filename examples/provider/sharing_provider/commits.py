"""The commits of a log one by one, as ranges and change feeds need them: with their change files and their times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from deltamirror.delta.actions import Add, Metadata, PartitionValues, Protocol, Remove
from deltamirror.delta.errors import LogCorrupt
from deltamirror.delta.log import Listing, commit_path
from deltamirror.delta.storage import LogStorage

EPOCH, MILLISECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)
_MERGE_COUNTS = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


class ChangeFile(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Delta protocol: Add CDC File."""

    path: str
    partition_values: PartitionValues
    size: int
    tags: dict[str, str | None] | None = None


class CommitInfo(msgspec.Struct, frozen=True, rename="camel"):
    operation: str | None = None
    operation_metrics: dict[str, Any] | None = None

    @property
    def changed_nothing(self) -> bool:
        """Whether a MERGE rewrote files although no row is another one now."""
        metrics = self.operation_metrics or {}
        return self.operation == "MERGE" and all(metrics.get(count) == "0" for count in _MERGE_COUNTS)


FileAction = Add | Remove | ChangeFile
Action = CommitInfo | Protocol | Metadata | FileAction


class _Line(msgspec.Struct, frozen=True, rename="camel"):
    commit_info: CommitInfo | None = None
    protocol: Protocol | None = None
    meta_data: Metadata | None = None
    add: Add | None = None
    remove: Remove | None = None
    cdc: ChangeFile | None = None

    @property
    def action(self) -> Action | None:
        found = (self.commit_info, self.protocol, self.meta_data, self.add, self.remove, self.cdc)
        return next((action for action in found if action is not None), None)


_decode = msgspec.json.Decoder(_Line).decode


@dataclass(frozen=True, slots=True)
class Commit:
    version: int
    timestamp: int
    """Milliseconds since the epoch."""
    actions: list[Action]
    """In the order of the log, without those that are never shared."""


def read(storage: LogStorage, listing: Listing, versions: range) -> Iterator[Commit]:
    """The commits that are there; whether a missing one matters is for the caller to say."""
    times = commit_times(listing)
    for version in versions:
        if version not in listing.commits:
            continue
        try:
            lines = [_decode(text) for text in storage.get(commit_path(version)).split(b"\n") if text.strip()]
        except msgspec.MsgspecError as error:
            raise LogCorrupt(f"commit {version} holds a line that is no Delta action: {error}") from None
        yield Commit(version, times[version], [line.action for line in lines if line.action is not None])


def commit_times(listing: Listing) -> dict[int, int]:
    """When each version was committed, in milliseconds, made to increase as Delta readers do."""
    times: dict[int, int] = {}
    last = None
    for version, entry in sorted(listing.commits.items()):
        modified = (entry.modified - EPOCH) // MILLISECOND
        last = times[version] = modified if last is None else max(modified, last + 1)
    return times
