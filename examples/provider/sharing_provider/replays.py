"""Replayed snapshots, kept for the next request: a poll of a table with many files is then one listing of its log.

A kept snapshot counts as long as the commit that made it is the same object: same path, size and modification time,
and the same checkpoints before it. So a table that was dropped and made again is replayed again. Stores tell times to
the second, and what was written a moment ago may be written again within the same one: such a snapshot is not kept.

From the newest one that counts, only the commits after it are read.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from deltamirror.delta import log
from deltamirror.delta.log import Listing
from deltamirror.delta.snapshot import Snapshot
from deltamirror.delta.storage import LogStorage

MAX_FILES = 500_000
"""In all kept snapshots together; one is kept whatever its size."""
SETTLED = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class _Kept:
    made_by: Hashable
    snapshot: Snapshot

    @property
    def weight(self) -> int:
        return 100 + len(self.snapshot.files) + len(self.snapshot.tombstones)  # an empty table is not for free


class Replays:
    """Of all tables, in the order of their last use."""

    def __init__(self, max_files: int = MAX_FILES) -> None:
        self._max_files = max_files
        self._kept: OrderedDict[tuple[str, int], _Kept] = OrderedDict()
        self._lock = threading.Lock()
        self._loading: dict[str, threading.Lock] = {}

    def load(self, location: str, storage: LogStorage, listing: Listing, version: int | None = None) -> Snapshot:
        listed = datetime.now(UTC)
        wanted = listing.latest if version is None else version
        with self._loading.setdefault(location, threading.Lock()):  # many polls at once replay once
            known = self._newest_known(location, listing, wanted)
            if known is None:
                snapshot = log.load(storage, wanted, listing)
            elif known.version == wanted:
                return known
            else:
                snapshot = _advanced(known, storage, wanted)
            if wanted in listing.commits and listed - listing.commits[wanted].modified > SETTLED:
                self._keep(location, listing, snapshot)
            return snapshot

    def _newest_known(self, location: str, listing: Listing, wanted: int) -> Snapshot | None:
        base = max((v for v in listing.checkpoints if v <= wanted), default=0)
        with self._lock:
            for version in range(wanted, base - 1, -1):
                if version not in listing.commits:
                    return None  # a hole: the whole replay has the words for it
                kept = self._kept.get((location, version))
                if kept is not None and kept.made_by == _made_by(listing, version):
                    self._kept.move_to_end((location, version))
                    return kept.snapshot
        return None

    def _keep(self, location: str, listing: Listing, snapshot: Snapshot) -> None:
        with self._lock:
            self._kept[location, snapshot.version] = _Kept(_made_by(listing, snapshot.version), snapshot)
            self._kept.move_to_end((location, snapshot.version))
            while len(self._kept) > 1 and sum(kept.weight for kept in self._kept.values()) > self._max_files:
                self._kept.popitem(last=False)


def _advanced(known: Snapshot, storage: LogStorage, wanted: int) -> Snapshot:
    """Delta protocol: Action Reconciliation, of what an answer is made from."""
    protocol, metadata, files = known.protocol, known.metadata, dict(known.files)
    for number in range(known.version + 1, wanted + 1):
        for line in log.read_commit(storage, number):
            if line.add is not None:
                files[line.add.key] = line.add
            elif line.remove is not None:
                files.pop(line.remove.key, None)
            elif line.meta_data is not None:
                metadata = line.meta_data
            elif line.protocol is not None:
                protocol = line.protocol
    return Snapshot(wanted, protocol, metadata, files)


def _made_by(listing: Listing, version: int) -> Hashable:
    commit = listing.commits[version]
    return commit.path, commit.size, commit.modified, tuple(sorted(v for v in listing.checkpoints if v <= version))
