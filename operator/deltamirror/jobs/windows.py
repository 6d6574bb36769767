"""Windows: every version of a mirror reaches every job at least once.

A window is the inclusive range of mirror versions that one run reads. It advances only on success; versions that arrive
meanwhile join the next one. What a job has read is kept in the resource's status, so a restart loses nothing.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import msgspec

from deltamirror.api.shared_table import Job
from deltamirror.api.status import ActiveWindow, JobStatus, WindowKind


class Outcome(enum.Enum):
    """How the object that runs a window is doing."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Window:
    from_version: int
    to_version: int
    kind: WindowKind


@dataclass(frozen=True, slots=True)
class Launch:
    """An object to create."""

    job: Job
    window: Window
    attempt: int


@dataclass(frozen=True, slots=True)
class Step:
    """What to do for one job now."""

    status: JobStatus
    launch: Launch | None = None
    finished: str | None = None
    """Name of an object whose result is recorded and that can be removed."""


def advance(job: Job, status: JobStatus | None, mirror_version: int, outcome: Outcome, failure: str = "") -> Step:
    """The next step of a job, from what it has read, how its active run is doing and how far the mirror is."""
    if status is None:
        skipped = mirror_version if job.start_from == "Latest" else None
        status = JobStatus(job.name, processed_through=skipped)
    active, finished = status.active, None
    if active is not None:
        window = Window(active.from_version, active.to_version, active.kind)
        match outcome:
            case Outcome.RUNNING:
                return Step(status)
            case Outcome.MISSING:
                # Recorded, but not created (or deleted by hand): the same run again.
                return Step(status, Launch(job, window, active.attempt))
            case Outcome.FAILED:
                status = msgspec.structs.replace(status, last_failure=failure)
                if active.attempt > job.backoff_limit:
                    return Step(status)
                again = msgspec.structs.replace(active, attempt=active.attempt + 1)
                return Step(
                    msgspec.structs.replace(status, active=again), Launch(job, window, again.attempt), active.ref
                )
            case Outcome.SUCCEEDED:
                finished = active.ref
                status = JobStatus(job.name, processed_through=active.to_version)
    done = status.processed_through
    if done is not None and done >= mirror_version:
        return Step(status, finished=finished)
    window = Window(0, mirror_version, "Initial") if done is None else Window(done + 1, mirror_version, "Incremental")
    started = ActiveWindow(window.from_version, window.to_version, window.kind, ref="", attempt=1)
    return Step(msgspec.structs.replace(status, active=started), Launch(job, window, 1), finished)
