"""One sync in Snapshot mode: one commit that moves the mirror to the newest version of its source."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator, Set
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any

from deltamirror import __version__
from deltamirror.delta import commit, log
from deltamirror.delta.actions import Line, Txn
from deltamirror.delta.errors import LogCorrupt, NotATable, VersionExists
from deltamirror.mirror import audit, cleanup, state
from deltamirror.mirror.copy import Copied, Copier
from deltamirror.mirror.errors import (
    CommitsUnsafe,
    FileUnavailable,
    MirrorMissing,
    MirrorModified,
    NotOurs,
    TooMuch,
)
from deltamirror.mirror.plan import Plan
from deltamirror.mirror.progress import Progress
from deltamirror.mirror.settings import LAYOUT, Settings
from deltamirror.mirror.source import Source
from deltamirror.mirror.state import MARK, MirrorState
from deltamirror.sharing import SharingClient, StorageClient, VersionMoved
from deltamirror.store import Store, StoreError

APP_ID = "deltamirror"
CHECKPOINT_EVERY = 10
CHECKPOINT_AT_ACTIONS = 50_000
"""A commit as large as this gets a checkpoint at once: nobody should have to read it as JSON again."""
_REPLANS = 5
_PROBE = "_delta_log/.deltamirror-probe"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SyncResult:
    """What a sync did; `deltamirror sync --output json` prints it."""

    sourceVersion: int
    mirrorVersion: int
    mode: str
    access: str
    filesAdded: int = 0
    filesRemoved: int = 0
    filesCopied: int = 0
    bytesCopied: int = 0
    deletionVectorsCopied: int = 0
    files: int = 0
    bytes: int = 0
    deletionVectors: int = 0
    rows: int | None = None
    commits: int = 0
    requests: int = 0
    seconds: float = 0.0
    dropped: tuple[str, ...] = ()
    tableID: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class Sync:
    """A shared table, a store and the settings that bring them together."""

    def __init__(
        self, client: SharingClient, store: Store, settings: Settings, progress: Progress | None = None
    ) -> None:
        self._client = client
        self._source = Source(client, settings)
        self._store = store
        self._settings = settings
        self._progress = progress or Progress()

    def run(self, *, full: bool = False, known_version: int | None = None) -> SyncResult:
        """Makes the mirror equal to its source.

        With `full`, the source is listed even if its version stands still. `known_version` is a version that the mirror is known to
        have had: a mirror that is gone since then is not silently made anew.
        """
        started = time.monotonic()
        requests = self._client.requests
        result = self._run(full, known_version)
        return replace(result, requests=self._client.requests - requests, seconds=round(time.monotonic() - started, 3))

    def plan(self) -> Plan:
        """What a sync would do."""
        return self._source.plan(self._open(None))[0]

    def _run(self, full: bool, known_version: int | None) -> SyncResult:
        deadline = time.monotonic() + self._settings.timeout_seconds
        for attempt in range(1, _REPLANS + 1):
            mirror = self._open(known_version)
            if mirror is not None and not full and self._current(mirror):
                return self._unchanged(mirror)
            try:
                return self._advance(mirror, deadline, self._missing(mirror) if full else frozenset())
            except (VersionExists, VersionMoved, FileUnavailable) as error:
                # Another writer was first, or the source moved on under our hands: look again, and plan anew.
                if attempt == _REPLANS:
                    raise
                logger.info("%s: planning again: %s", self._settings.table, error)
        raise AssertionError("the last attempt returns or raises")

    # ---- the mirror ----------------------------------------------------------------------------------------

    def _open(self, known_version: int | None) -> MirrorState | None:
        """The mirror as its log tells it, if it is ours to write."""
        uri = self._store.uri
        try:
            listing = log.list_log(self._store)
            mirror = state.load(self._store, listing)
        except NotATable:
            if known_version is not None and not self._settings.overwrite_modifications:
                raise MirrorMissing(
                    f"the mirror at {uri} was at version {known_version} and is gone: restore it, or set onMirrorModified: Overwrite"
                    " to have it made anew"
                ) from None
            return None
        except LogCorrupt as error:
            raise MirrorModified(f"the log of the mirror at {uri} is damaged: {error}") from None
        self._check_ours(mirror)
        if mirror.checkpoint_version is None and min(listing.commits) > 0:
            # A bootstrap that died between its commit and its checkpoint: Spark cannot open the table until this is done.
            commit.write_checkpoint(self._store, mirror.version, self._settings.removed_files_seconds)
        return mirror

    def _check_ours(self, mirror: MirrorState) -> None:
        uri, owner = self._store.uri, mirror.setting("owner")
        layout = mirror.setting("layout")
        if layout is None:
            raise NotOurs(f"{uri} holds a Delta table that is not a mirror: choose an empty destination")
        if layout != LAYOUT:
            raise NotOurs(f"{uri} is a mirror of layout {layout}, which this version of deltamirror does not know")
        if owner != self._settings.owner and not self._settings.adopt:
            raise NotOurs(
                f"{uri} is the mirror of {owner}, not of {self._settings.owner}:"
                " choose another destination, or annotate this resource with deltamirror.io/adopt to take it over"
            )
        if mirror.mark is None and not self._settings.overwrite_modifications:
            operation = mirror.commit_info.get("operation", "an unknown operation")
            raise MirrorModified(
                f"somebody else committed version {mirror.version} to the mirror at {uri} ({operation}):"
                " set onMirrorModified: Overwrite to make it equal to its source again"
            )

    def _current(self, mirror: MirrorState) -> bool:
        mark = mirror.mark
        if mark is None or mark.digest != self._settings.digest:
            return False
        return self._source.version() == mark.source_version

    # ---- one step ------------------------------------------------------------------------------------------

    def _missing(self, mirror: MirrorState | None) -> Set[str]:
        """Objects that the mirror's log names and its store does not have, whoever took them."""
        if mirror is None or not mirror.files:
            return frozenset()
        present = {info.path: info.size for info in self._store.list()}
        lost = {path for path, live in mirror.files.items() if present.get(path) != live.size}
        lost |= {path for path, _ in audit.vectors(mirror) if path not in present}
        if lost:
            logger.warning(
                "%s: %d objects of the mirror are missing, and are copied again", self._settings.table, len(lost)
            )
            self._store.delete(path for path in lost if path in present)
        return lost

    def audit(self, *, repair: bool = False) -> audit.Audit:
        """Compares the mirror with its source and its store; with `repair`, damaged objects are copied again and the mirror is synced."""
        mirror = self._open(None)
        if mirror is None or mirror.mark is None:
            raise MirrorMissing(f"there is no mirror at {self._store.uri} yet: run a sync first")
        found = audit.audit(mirror, self._source.plan(mirror)[0], self._store, self._settings.concurrency)
        if repair and not found.clean:
            self._store.delete(found.damaged)
            self._advance(self._open(None), time.monotonic() + self._settings.timeout_seconds, found.damaged)
        return found

    def _advance(self, mirror: MirrorState | None, deadline: float, damaged: Set[str] = frozenset()) -> SyncResult:
        planned, table_id = self._source.plan(mirror, damaged)
        limit = self._settings.max_bytes
        if limit is not None and planned.bytes_to_copy > limit:
            raise TooMuch(
                f"a sync of {self._settings.table} would copy {planned.bytes_to_copy:,} bytes, more than"
                f" transfer.maxBytesPerSync allows ({limit:,})"
            )
        mark = mirror.mark if mirror else None
        same = mark is not None and (mark.digest, mark.source_version) == (
            self._settings.digest,
            planned.source_version,
        )
        if mirror is not None and planned.empty and same and not planned.restored:
            return self._unchanged(mirror)
        if mirror is None:
            self._probe_conditional_writes()
        self._progress.planned(planned)
        with StorageClient(self._client.endpoint, concurrency=self._settings.concurrency) as storage:
            copied = Copier(
                self._store,
                storage,
                self._source.fresh_urls(planned.source_version),
                concurrency=self._settings.concurrency,
                bytes_per_second=self._settings.bytes_per_second,
                deadline=deadline,
                progress=self._progress,
            ).run(planned)
        if mirror is not None and planned.empty and same:
            restored = self._unchanged(mirror)
            return replace(
                restored, filesCopied=copied.files, bytesCopied=copied.bytes, deletionVectorsCopied=copied.vectors
            )
        version = mirror.version + 1 if mirror else 0
        commit_id = str(uuid.uuid4())
        commit.write_commit(self._store, version, self._lines(planned, copied, commit_id), commit_id)
        self._after_commit(mirror, version, planned)
        return SyncResult(
            sourceVersion=planned.source_version,
            mirrorVersion=version,
            mode="Snapshot",
            access="URL",
            filesAdded=planned.log_entries,
            filesRemoved=planned.removes,
            filesCopied=copied.files,
            bytesCopied=copied.bytes,
            deletionVectorsCopied=copied.vectors,
            files=planned.live_files,
            bytes=planned.live_bytes,
            deletionVectors=planned.live_vectors,
            rows=planned.rows,
            commits=1,
            dropped=tuple(planned.dropped),
            tableID=table_id,
        )

    def _after_commit(self, mirror: MirrorState | None, version: int, planned: Plan) -> None:
        since = mirror.commits_since_checkpoint if mirror else 0
        large = len(planned.entries) + planned.removes >= CHECKPOINT_AT_ACTIONS
        if large or since + 1 >= CHECKPOINT_EVERY:
            commit.write_checkpoint(self._store, version, self._settings.removed_files_seconds)
            self._clean_up()

    def _clean_up(self) -> None:
        """After a commit, never beside one. What it cannot delete now, it will find again."""
        settings = self._settings
        kept = max(cleanup.ORPHANS_FOR, 2 * timedelta(seconds=settings.timeout_seconds))
        try:
            done = cleanup.clean(self._store, settings.removed_files_seconds, settings.log_seconds, kept)
        except StoreError as error:
            logger.warning("%s: clean-up failed: %s", settings.table, error)
        else:
            logger.info("%s: cleaned up %d objects and %d log files", settings.table, done.objects, done.log_files)

    def _lines(self, planned: Plan, copied: Copied, commit_id: str) -> Iterator[Line]:
        """The commit. Removes come before adds, and no path may have two entries in the end."""
        now = int(time.time() * 1000)
        yield Line(
            commit_info={
                "timestamp": now,
                "operation": "MIRROR",
                "operationParameters": {
                    "mode": "Snapshot",
                    "source": str(self._settings.table),
                    "sourceVersion": str(planned.source_version),
                },
                "operationMetrics": {
                    "numAddedFiles": str(planned.log_entries),
                    "numRemovedFiles": str(planned.removes),
                    "numCopiedBytes": str(copied.bytes),
                },
                "isBlindAppend": False,
                "engineInfo": f"deltamirror/{__version__}",
                MARK: {
                    "commitId": commit_id,
                    "sourceVersion": planned.source_version,
                    "digest": self._settings.digest,
                    "rows": planned.rows,
                    "listedAt": now,
                },
            }
        )
        if planned.protocol is not None:
            yield Line(protocol=planned.protocol)
        if planned.metadata is not None:
            yield Line(meta_data=planned.metadata)
        yield Line(txn=Txn(APP_ID, planned.source_version, now))
        for remove in planned.gone:
            yield Line(remove=remove)
        for entry in copied.entries:
            if entry.cancels is not None:
                yield Line(remove=entry.cancels)
        for entry in copied.entries:
            if not entry.restore:
                yield Line(add=entry.add)

    def _probe_conditional_writes(self) -> None:
        """At first contact: a store that overwrites what it should refuse would let two writers destroy a commit."""
        if self._settings.allow_unsafe_commits:
            return
        self._store.put_if_absent(_PROBE, b"probe")
        refused = not self._store.put_if_absent(_PROBE, b"probe again")
        self._store.delete([_PROBE])
        if not refused:
            raise CommitsUnsafe(
                f"{self._store.uri} has no conditional writes, on which safe commits rely: use another store, or set"
                " destination.allowUnsafeCommits and make sure that nothing else writes there"
            )

    def _unchanged(self, mirror: MirrorState) -> SyncResult:
        assert mirror.mark is not None
        return SyncResult(
            sourceVersion=mirror.mark.source_version,
            mirrorVersion=mirror.version,
            mode="Snapshot",
            access="URL",
            files=len(mirror.files),
            bytes=mirror.bytes,
            deletionVectors=mirror.vectors,
            rows=mirror.mark.rows,
            tableID=mirror.metadata.id,
        )
