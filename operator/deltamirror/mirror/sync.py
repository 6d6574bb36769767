"""One sync in Snapshot mode: one commit that moves the mirror to the newest version of its source."""

from __future__ import annotations

import logging
import time
import uuid
from dataclasses import asdict, dataclass
from typing import Any

from deltamirror import __version__
from deltamirror.delta import commit, log
from deltamirror.delta.actions import Line, Txn
from deltamirror.delta.errors import NotATable, VersionExists
from deltamirror.delta.snapshot import Replay, Snapshot
from deltamirror.mirror import copy, plan
from deltamirror.mirror.errors import FileUnavailable, MirrorModified, NotOurs, SourceRecreated
from deltamirror.mirror.plan import Plan
from deltamirror.mirror.progress import Progress
from deltamirror.mirror.settings import LAYOUT, Settings
from deltamirror.sharing import AnswerBroken, SharedSnapshot, SharingClient
from deltamirror.store import Store

APP_ID = "deltamirror"
CHECKPOINT_EVERY = 10
SUSPICIOUS_SHARE = 0.1
SUSPICIOUS_FROM = 10
_REPLANS = 5

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
        self, source: SharingClient, store: Store, settings: Settings, progress: Progress | None = None
    ) -> None:
        self._source = source
        self._store = store
        self._settings = settings
        self._progress = progress or Progress()

    def run(self, *, full: bool = False) -> SyncResult:
        """Makes the mirror equal to its source. With `full`, the source is listed even if its version stands still."""
        started = time.monotonic()
        requests = self._source.requests
        result = self._run(full)
        return SyncResult(
            **{
                **result.to_dict(),
                "requests": self._source.requests - requests,
                "seconds": round(time.monotonic() - started, 3),
            }
        )

    def plan(self) -> Plan:
        """What a sync would do."""
        mirror = self._open()
        return self._plan(mirror, self._list(mirror))

    def _run(self, full: bool) -> SyncResult:
        for attempt in range(1, _REPLANS + 1):
            mirror = self._open()
            if mirror is not None and not full and self._current(mirror):
                return self._unchanged(mirror)
            try:
                return self._advance(mirror, self._list(mirror))
            except (VersionExists, FileUnavailable) as error:
                # Another writer was first, or a file is gone from under its URL: look again, and plan anew.
                if attempt == _REPLANS:
                    raise
                logger.info("planning again: %s", error)
        raise AssertionError("the last attempt returns or raises")

    def _open(self) -> Snapshot | None:
        try:
            mirror = log.load(self._store)
        except NotATable:
            return None
        configuration = mirror.metadata.configuration
        uri = self._store.uri
        if "deltamirror.layout" not in configuration:
            raise NotOurs(f"{uri} holds a Delta table that is not a mirror: choose an empty destination")
        if configuration["deltamirror.layout"] != LAYOUT:
            raise NotOurs(
                f"{uri} is a mirror of layout {configuration['deltamirror.layout']}, written by a newer deltamirror"
            )
        owner = configuration.get("deltamirror.owner", "")
        if owner != self._settings.owner and not self._settings.adopt:
            raise NotOurs(
                f"{uri} is the mirror of {owner}, not of {self._settings.owner}:"
                " choose another destination, or annotate this resource with deltamirror.io/adopt to take it over"
            )
        if "deltamirror" not in mirror.commit_info:
            raise MirrorModified(
                f"somebody else committed version {mirror.version} to the mirror at {uri}"
                f" ({mirror.commit_info.get('operation', 'unknown operation')})"
            )
        return mirror

    def _current(self, mirror: Snapshot) -> bool:
        mark = mirror.commit_info["deltamirror"]
        if mark.get("digest") != self._settings.digest:
            return False
        return bool(self._source.version(self._settings.table) == mark.get("sourceVersion"))

    def _list(self, mirror: Snapshot | None) -> SharedSnapshot:
        source = self._source.snapshot(self._settings.table)
        if mirror is None:
            return source
        mirrored = int(mirror.commit_info["deltamirror"]["sourceVersion"])
        if source.version < mirrored:
            raise SourceRecreated(
                f"{self._settings.table} is at version {source.version}, but version {mirrored} was mirrored before:"
                " the source was made anew or restored from a backup"
            )
        scheme = mirror.metadata.configuration.get("deltamirror.idScheme")
        if source.id_scheme != scheme:
            raise AnswerBroken(
                f"the provider names files by {source.id_scheme!r} now; the mirror of {self._settings.table} knows them by {scheme!r}"
            )
        return source

    def _plan(self, mirror: Snapshot | None, source: SharedSnapshot) -> Plan:
        return plan.make(mirror, source, self._settings, int(time.time() * 1000))

    def _advance(self, mirror: Snapshot | None, source: SharedSnapshot) -> SyncResult:
        planned = self._plan(mirror, source)
        if mirror is not None and _suspicious(mirror, planned):
            self._confirm(source)
        self._progress.planned(planned)
        copied = copy.copy_files(planned, self._store, self._settings.concurrency, self._progress)
        mark = mirror.commit_info["deltamirror"] if mirror else {}
        unchanged = planned.empty and mark.get("digest") == self._settings.digest
        if mirror is not None and unchanged and mark.get("sourceVersion") == planned.source_version:
            return self._unchanged(mirror)

        version = mirror.version + 1 if mirror else 0
        lines = self._lines(planned)
        commit.write_commit(self._store, version, lines)
        if version % CHECKPOINT_EVERY == 0 and version > 0:
            replay = Replay(mirror)
            replay.commit(lines)
            commit.write_checkpoint(self._store, replay.snapshot(version), self._settings.removed_files_seconds)
        return SyncResult(
            sourceVersion=planned.source_version,
            mirrorVersion=version,
            mode="Snapshot",
            access="URL",
            filesAdded=len(planned.adds),
            filesRemoved=len(planned.removes),
            filesCopied=copied.files,
            bytesCopied=copied.bytes,
            deletionVectorsCopied=copied.vectors,
            files=planned.live_files,
            bytes=planned.live_bytes,
            deletionVectors=planned.live_vectors,
            rows=planned.rows,
            commits=1,
            dropped=tuple(planned.dropped),
            tableID=source.metadata.id,
        )

    def _confirm(self, source: SharedSnapshot) -> None:
        """A list that was cut short looks like a mass delete. Only a second, equal one is believed."""
        again = self._source.snapshot(self._settings.table, None)
        if again.version != source.version or {f.id for f in again.files} != {f.id for f in source.files}:
            raise AnswerBroken(
                f"the provider listed {len(source.files)} files of {self._settings.table} and, asked again, {len(again.files)}:"
                " nothing is deleted on such evidence"
            )

    def _lines(self, planned: Plan) -> list[Line]:
        now = int(time.time() * 1000)
        info = {
            "timestamp": now,
            "operation": "MIRROR",
            "operationParameters": {
                "mode": "Snapshot",
                "source": str(self._settings.table),
                "sourceVersion": str(planned.source_version),
            },
            "operationMetrics": {
                "numAddedFiles": str(len(planned.adds)),
                "numRemovedFiles": str(len(planned.removes)),
            },
            "isBlindAppend": False,
            "engineInfo": f"deltamirror/{__version__}",
            "deltamirror": {
                "sourceVersion": planned.source_version,
                "digest": self._settings.digest,
                "commitId": str(uuid.uuid4()),
                "rows": planned.rows,
            },
        }
        lines = [Line(commit_info=info)]
        if planned.protocol is not None:
            lines.append(Line(protocol=planned.protocol))
        if planned.metadata is not None:
            lines.append(Line(meta_data=planned.metadata))
        lines.append(Line(txn=Txn(APP_ID, planned.source_version, now)))
        lines.extend(Line(remove=remove) for remove in planned.removes)
        lines.extend(Line(add=add) for add in planned.adds)
        return lines

    def _unchanged(self, mirror: Snapshot) -> SyncResult:
        mark = mirror.commit_info["deltamirror"]
        return SyncResult(
            sourceVersion=mark["sourceVersion"],
            mirrorVersion=mirror.version,
            mode="Snapshot",
            access="URL",
            files=len(mirror.files),
            bytes=sum(add.size for add in mirror.files.values()),
            deletionVectors=sum(add.deletion_vector is not None for add in mirror.files.values()),
            rows=mark.get("rows"),
            tableID=mirror.metadata.id,
        )


def _suspicious(mirror: Snapshot, planned: Plan) -> bool:
    everything = bool(mirror.files) and planned.removed_share == 1.0
    return everything or (len(mirror.files) >= SUSPICIOUS_FROM and planned.removed_share > SUSPICIOUS_SHARE)
