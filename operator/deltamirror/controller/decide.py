"""The reconcile decision: a pure function of (spec, status, now). A restart is a recomputation."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta

from deltamirror.api import SharedTable, units
from deltamirror.api.shared_table import REQUEST_ANNOTATION
from deltamirror.api.status import SharedTableStatus
from deltamirror.errors import Fault, Kind

DEFAULT_INTERVAL = "10m"
JITTER = 0.05
SHORTEST_BACKOFF = timedelta(seconds=2)
LONGEST_WAIT = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Decision:
    sync: bool
    due: datetime | None = None
    """When to decide again, if nothing happens before; None: not until something does."""
    fresh: bool = False
    """The first sync, a new spec or a recovery: shown as Reconciling, unlike a routine refresh."""
    full: bool = False
    """List the whole source even if its version stands still."""
    requested: bool = False
    """Somebody asked for it and is to be answered."""


def decide(
    shared: SharedTable, status: SharedTableStatus, now: datetime, not_before: datetime | None = None
) -> Decision:
    """`not_before` is when a routine look that wrote no status said to look again; it wins over an older written time."""
    if shared.spec.suspend:
        return Decision(sync=False)
    never = status.last_sync_time is None
    new_spec = status.observed_generation != shared.metadata.generation
    requested = shared.metadata.annotations.get(REQUEST_ANNOTATION, "") not in ("", status.last_handled_reconcile_at)
    due = max(filter(None, (parse_time(status.next_sync_time), not_before)), default=None)
    full = is_full_check_due(shared, status, now)
    if new_spec or requested:
        return Decision(sync=True, fresh=new_spec or never, full=full or new_spec, requested=requested)
    if due is None:
        waits = shared.spec.refresh.policy == "Manual" and not never
        return Decision(sync=not waits, fresh=never, full=full)
    if due <= now:
        return Decision(sync=True, fresh=never or status.consecutive_failures > 0, full=full)
    return Decision(sync=False, due=due)


def is_full_check_due(shared: SharedTable, status: SharedTableStatus, now: datetime) -> bool:
    last = parse_time(status.last_full_check_time)
    return last is None or last + units.delta(shared.spec.refresh.full_check) <= now


def next_sync(shared: SharedTable, started: datetime) -> datetime | None:
    """When the source is looked at again after a success: from start to start, spread by the object's identity."""
    if shared.spec.refresh.policy == "Manual":
        return None
    interval = units.delta(shared.spec.refresh.interval or DEFAULT_INTERVAL)
    return started + interval * (1 + JITTER * spread(shared.metadata.uid))


def next_try(shared: SharedTable, fault: Fault, failures: int, now: datetime) -> datetime:
    """When to try again after a failure."""
    interval = units.delta(shared.spec.refresh.interval or DEFAULT_INTERVAL)
    if fault.kind is Kind.STALLING:
        return now + interval
    backoff = SHORTEST_BACKOFF * (1 << min(failures - 1, 16))
    ceiling = LONGEST_WAIT if fault.kind is Kind.WAITING else max(interval, LONGEST_WAIT)
    retry_after: float | None = getattr(fault, "retry_after", None)
    if retry_after is not None:
        return now + max(timedelta(seconds=retry_after), SHORTEST_BACKOFF)
    return now + min(backoff, ceiling)


def spread(uid: str) -> float:
    """A number in [-1, 1] that is always the same for an object."""
    return int.from_bytes(hashlib.sha256(uid.encode()).digest()[:4]) / 2**31 - 1


def parse_time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None
