"""Writing the log: commits by put-if-absent, then a checkpoint, then the pointer to it, in that order."""

from __future__ import annotations

import time
from collections.abc import Iterable

import msgspec

from deltamirror.delta import checkpoint
from deltamirror.delta.actions import Line, encode_line
from deltamirror.delta.errors import VersionExists
from deltamirror.delta.log import FOLDER, commit_path
from deltamirror.delta.snapshot import Snapshot
from deltamirror.delta.storage import LogStorage

LAST_CHECKPOINT = f"{FOLDER}/_last_checkpoint"


def write_commit(storage: LogStorage, version: int, lines: Iterable[Line]) -> None:
    data = b"".join(encode_line(line) + b"\n" for line in lines)
    if not storage.put_if_absent(commit_path(version), data) and storage.get(commit_path(version)) != data:
        # Equal bytes are our own: a PUT whose answer was lost and that was sent again meets itself. Every attempt
        # carries an id of its own in commitInfo, so no other writer's commit can be equal.
        raise VersionExists(version)


def write_checkpoint(storage: LogStorage, snapshot: Snapshot, tombstones_for_seconds: float) -> None:
    oldest = int((time.time() - tombstones_for_seconds) * 1000)
    data, count = checkpoint.write(snapshot, oldest)
    storage.put(f"{FOLDER}/{snapshot.version:020d}.checkpoint.parquet", data)
    hint = {"version": snapshot.version, "size": count, "sizeInBytes": len(data), "numOfAddFiles": len(snapshot.files)}
    storage.put(LAST_CHECKPOINT, msgspec.json.encode(hint))
