"""Clean-up: what nobody needs any more leaves the store. A step of the sync, after its commit, never beside one.

Only objects with names that a mirror gives are ever looked at, and none is deleted that a live file, a deletion vector of one, or a
tombstone within its retention needs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from deltamirror.delta import commit, log
from deltamirror.delta import deletion_vector as dv
from deltamirror.delta.actions import DeletionVector
from deltamirror.delta.log import FOLDER
from deltamirror.mirror.names import is_ours
from deltamirror.store import Store

ORPHANS_FOR = timedelta(hours=24)
"""How long an object that nothing names is kept: a sync may be about to name it."""


@dataclass(frozen=True, slots=True)
class Garbage:
    path: str
    size: int


def clean_log(store: Store, keep_seconds: float) -> int:
    """Deletes commits and checkpoints that are older than the retention and not needed for what is kept. How many went."""
    listing = log.list_log(store)
    cutoff = time.time() - keep_seconds
    expired = [v for v, entry in listing.commits.items() if entry.modified.timestamp() < cutoff]
    if not expired:
        return 0
    base = max((v for v in listing.checkpoints if v <= max(expired)), default=None)
    if base is None:
        return 0
    paths = [entry.path for v, entry in listing.commits.items() if v < base]
    paths += [path for v, files in listing.checkpoints.items() if v < base for path in files]
    store.delete(paths)
    return len(paths)


def needed(store: Store, removed_files_seconds: float) -> set[str]:
    """Every object that a reader of the kept versions may ask for."""
    oldest = (time.time() - removed_files_seconds) * 1000
    keep: set[str] = set()
    live: dict[tuple[str, str | None], tuple[str, ...]] = {}
    for _, line in log.actions(store, log.segment(log.list_log(store))):
        if line.add is not None:
            live[line.add.key] = _objects(line.add.path, line.add.deletion_vector)
        elif line.remove is not None:
            live.pop(line.remove.key, None)
            if (line.remove.deletion_timestamp or 0) > oldest:
                keep.update(_objects(line.remove.path, line.remove.deletion_vector))
    for objects in live.values():
        keep.update(objects)
    return keep


def garbage(store: Store, removed_files_seconds: float, orphans_for: timedelta = ORPHANS_FOR) -> Iterator[Garbage]:
    """Objects of the mirror that nobody needs, and that are too old to belong to a sync under way."""
    keep = needed(store, removed_files_seconds)
    young = datetime.now(UTC) - orphans_for
    for info in store.list():
        if is_ours(info.path) and info.path not in keep and info.modified < young:
            yield Garbage(info.path, info.size)


def abandoned_uploads(store: Store, older_than: timedelta = ORPHANS_FOR) -> int:
    """Aborts multipart uploads that a dead sync left behind; they cost money and cannot be seen. How many."""
    if store.s3 is None:
        return 0
    young = datetime.now(UTC) - older_than
    count = 0
    for upload in store.s3.open_uploads():
        if upload.started < young and (is_ours(upload.path) or upload.path.startswith(f"{FOLDER}/")):
            store.s3.abort(upload)
            count += 1
    return count


@dataclass(frozen=True, slots=True)
class Cleaned:
    objects: int
    bytes: int
    uploads: int
    log_files: int


def clean(
    store: Store, removed_files_seconds: float, log_seconds: float, orphans_for: timedelta = ORPHANS_FOR
) -> Cleaned:
    """Deletes what nobody needs any more: objects, abandoned uploads and old versions of the log."""
    log_files = clean_log(store, log_seconds)
    found = list(garbage(store, removed_files_seconds, orphans_for))
    store.delete(item.path for item in found)
    return Cleaned(len(found), sum(item.size for item in found), abandoned_uploads(store, orphans_for), log_files)


def erase(store: Store) -> Cleaned:
    """Deletes everything that the newest version does not need, now: for data that must be gone. Time travel ends with it.

    Not to be run beside a sync, which may be about to name what it copied.
    """
    version = log.list_log(store).latest
    commit.write_checkpoint(store, version, tombstones_for_seconds=0)
    listing = log.list_log(store)
    old = [entry.path for v, entry in listing.commits.items() if v < version]
    old += [path for v, files in listing.checkpoints.items() if v < version for path in files]
    store.delete(old)
    rest = clean(store, removed_files_seconds=0, log_seconds=float("inf"), orphans_for=timedelta(0))
    return Cleaned(rest.objects, rest.bytes, rest.uploads, len(old))


def _objects(path: str, vector: DeletionVector | None) -> tuple[str, ...]:
    if vector is not None and vector.storage_type == "u":
        return path, dv.relative_path(vector)
    return (path,)
