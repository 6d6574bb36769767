"""From what happened to a status: the only place where conditions are made (kstatus rules).

Ready is always there. Reconciling and Stalled are there only while they are True, and never together. Ready stays True through
routine refreshes. observedGeneration moves only when a generation ended in Ready or Stalled, or is known to be failing.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from deltamirror.api import SharedTable
from deltamirror.api.shared_table import REQUEST_ANNOTATION, ObjectMeta
from deltamirror.api.status import (
    Condition,
    ConditionType,
    JobStatus,
    MirrorStatus,
    ProgressStatus,
    SharedTableStatus,
    SourceStatus,
    SyncRecord,
)
from deltamirror.api.units import human
from deltamirror.controller.decide import next_sync, next_try
from deltamirror.errors import Fault, Kind
from deltamirror.mirror import SyncResult
from deltamirror.sharing import CredentialsRejected, ProfileInvalid, SharingError
from deltamirror.store import spark_uri

HISTORY = 5


def started(shared: SharedTable, status: SharedTableStatus, now: datetime) -> SharedTableStatus:
    """A first sync, a new generation or a recovery begins."""
    conditions = _Conditions(shared.metadata.generation, status, now)
    conditions.set("Reconciling", "True", "Syncing", "comparing the mirror with its source")
    if conditions.get("Ready") != "False":
        conditions.set("Ready", "Unknown", "Syncing", "the first sync is under way")
    conditions.drop("Stalled")
    return msgspec.structs.replace(status, conditions=conditions.list())


def copying(
    shared: SharedTable, status: SharedTableStatus, progress: ProgressStatus, now: datetime
) -> SharedTableStatus:
    conditions = _Conditions(shared.metadata.generation, status, now)
    if conditions.get("Reconciling") == "True":
        message = (
            f"copied {human(progress.bytes_done)} of {human(progress.bytes_total)},"
            f" {progress.files_done:,} of {progress.files_total:,} files"
        )
        conditions.set("Reconciling", "True", "Copying", message)
    return msgspec.structs.replace(status, conditions=conditions.list(), progress=progress)


def succeeded(
    shared: SharedTable, status: SharedTableStatus, result: SyncResult, *, full: bool, began: datetime, now: datetime
) -> SharedTableStatus:
    conditions = _Conditions(shared.metadata.generation, status, now)
    conditions.drop("Reconciling", "Stalled")
    conditions.set("Ready", "True", "Synced", current(result))
    conditions.set("SourceReachable", "True", "Reachable", "the provider answers")
    conditions.set("CredentialsValid", "True", "Accepted", "the provider accepts the profile")
    conditions.set("MirrorCurrent", "True", "Current", f"the mirror equals source version {result.sourceVersion}")
    history = status.history
    if result.commits:
        record = SyncRecord(
            time=stamp(now),
            result="Synced",
            source_version=result.sourceVersion,
            mirror_version=result.mirrorVersion,
            bytes_copied=result.bytesCopied,
            seconds=result.seconds,
        )
        history = [record, *history][:HISTORY]
    due = next_sync(shared, began)
    return msgspec.structs.replace(
        status,
        observed_generation=shared.metadata.generation,
        conditions=conditions.list(),
        source=SourceStatus(result.tableID, result.sourceVersion, result.access),
        mirror=MirrorStatus(
            uri=spark_uri(shared.spec.destination.uri),
            version=result.mirrorVersion,
            source_version=result.sourceVersion,
            files=result.files,
            bytes=result.bytes,
            rows=result.rows,
            deletion_vectors=result.deletionVectors,
            dropped_features=list(result.dropped) if result.commits else status.mirror.dropped_features,
        ),
        progress=None,
        last_sync_time=stamp(now),
        last_sync_duration=f"{result.seconds:.1f}s",
        last_full_check_time=stamp(began) if full or result.commits else status.last_full_check_time,
        next_sync_time=stamp(due) if due else None,
        consecutive_failures=0,
        last_handled_reconcile_at=shared.metadata.annotations.get(REQUEST_ANNOTATION, ""),
        history=history,
    )


def failed(shared: SharedTable, status: SharedTableStatus, fault: Fault, now: datetime) -> SharedTableStatus:
    conditions = _Conditions(shared.metadata.generation, status, now)
    message = str(fault)
    failures = status.consecutive_failures + 1
    conditions.set("Ready", "False", fault.reason, message)
    if fault.kind is Kind.STALLING:
        conditions.set("Stalled", "True", fault.reason, message)
        conditions.drop("Reconciling")
    else:
        conditions.set("Reconciling", "True", fault.reason, f"trying again: {message}")
        conditions.drop("Stalled")
    if isinstance(fault, (CredentialsRejected, ProfileInvalid)):
        conditions.set("CredentialsValid", "False", fault.reason, message)
    elif isinstance(fault, SharingError):
        conditions.set("SourceReachable", "False", fault.reason, message)
    if status.mirror.version is not None:
        conditions.set("MirrorCurrent", "Unknown", fault.reason, "the source could not be compared")
    record = SyncRecord(time=stamp(now), result=fault.reason, message=message)
    known = status.history[0] if status.history else None
    history = (
        status.history
        if known and (known.result, known.message) == (record.result, message)
        else [record, *status.history]
    )
    return msgspec.structs.replace(
        status,
        observed_generation=shared.metadata.generation,
        conditions=conditions.list(),
        progress=None,
        consecutive_failures=failures,
        next_sync_time=stamp(next_try(shared, fault, failures, now)),
        last_handled_reconcile_at=shared.metadata.annotations.get(REQUEST_ANNOTATION, ""),
        history=history[:HISTORY],
    )


def suspended(shared: SharedTable, status: SharedTableStatus, now: datetime) -> SharedTableStatus:
    """Whatever the mirror was, it stays; only the message says that nobody looks at the source any more."""
    conditions = _Conditions(shared.metadata.generation, status, now)
    ready = conditions.get("Ready") or "Unknown"
    conditions.drop("Reconciling")
    conditions.set("Ready", ready, "Suspended", "suspended: the source is not looked at")
    return msgspec.structs.replace(
        status,
        observed_generation=shared.metadata.generation,
        conditions=conditions.list(),
        progress=None,
        next_sync_time=None,
    )


def with_jobs(
    shared: SharedTable, status: SharedTableStatus, jobs: list[JobStatus], failures: list[str], now: datetime
) -> SharedTableStatus:
    conditions = _Conditions(shared.metadata.generation, status, now)
    if not shared.spec.jobs:
        conditions.drop("JobsHealthy")
    elif failures:
        conditions.set("JobsHealthy", "False", "JobFailed", "; ".join(failures)[:1000])
    else:
        conditions.set("JobsHealthy", "True", "Healthy", "no job needs a person")
    return msgspec.structs.replace(status, conditions=conditions.list(), jobs=jobs)


def invalid(meta: ObjectMeta, status: SharedTableStatus, error: Fault, now: datetime) -> SharedTableStatus:
    """A spec that cannot be meant, though the API server let it through."""
    conditions = _Conditions(meta.generation, status, now)
    conditions.set("Ready", "False", error.reason, str(error))
    conditions.set("Stalled", "True", error.reason, str(error))
    conditions.drop("Reconciling")
    return msgspec.structs.replace(
        status, observed_generation=meta.generation, conditions=conditions.list(), progress=None, next_sync_time=None
    )


def is_ready(status: SharedTableStatus) -> bool | None:
    """True, False, or None while it is not known yet."""
    ready = next((c.status for c in status.conditions if c.type == "Ready"), "Unknown")
    return None if ready == "Unknown" else ready == "True"


def transition(before: SharedTableStatus, after: SharedTableStatus) -> bool:
    """Whether Ready tells another story than before: only then an event is worth posting."""

    def story(status: SharedTableStatus) -> list[tuple[str, str]]:
        return [(c.status, c.reason) for c in status.conditions if c.type == "Ready"]

    return story(before) != story(after)


def merge_patch(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The JSON merge patch from one object to another: what changed, and null for what is gone."""
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            if inner := merge_patch(before, value):
                patch[key] = inner
        elif before != value:
            patch[key] = value
    return patch


def stamp(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def current(result: SyncResult) -> str:
    rows = f", {result.rows:,} rows" if result.rows is not None else ""
    return f"mirror version {result.mirrorVersion} is source version {result.sourceVersion}{rows}"


class _Conditions:
    """The conditions of an object, changed one by one; a transition time moves only with the status of its condition."""

    def __init__(self, generation: int, status: SharedTableStatus, now: datetime) -> None:
        self._generation = generation
        self._now = stamp(now)
        self._known = {condition.type: condition for condition in status.conditions}

    def get(self, kind: ConditionType) -> str | None:
        known = self._known.get(kind)
        return known.status if known else None

    def set(self, kind: ConditionType, status: str, reason: str, message: str) -> None:
        known = self._known.get(kind)
        since = known.last_transition_time if known and known.status == status else self._now
        self._known[kind] = msgspec.convert(
            {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": message,
                "lastTransitionTime": since,
                "observedGeneration": self._generation,
            },
            Condition,
        )

    def drop(self, *kinds: ConditionType) -> None:
        for kind in kinds:
            self._known.pop(kind, None)

    def list(self) -> list[Condition]:
        return list(self._known.values())
