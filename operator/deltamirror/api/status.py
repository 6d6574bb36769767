"""The status of a SharedTable: everything the operator knows, and all it needs to know after a restart."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
ConditionType = Literal[
    "Ready", "Reconciling", "Stalled", "SourceReachable", "MirrorCurrent", "CredentialsValid", "JobsHealthy"
]
WindowKind = Literal["Initial", "Incremental", "Reset"]


class _Status(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Unknown fields are passed over: a newer operator may have written them before a rollback."""


class Condition(_Status, frozen=True):
    """One thing that is so, is not so, or is not known."""

    type: Annotated[str, Meta(description="What the condition is about.", pattern="^[A-Za-z]+$", max_length=316)]
    status: Annotated[Literal["True", "False", "Unknown"], Meta(description="Whether it is so.")]
    reason: Annotated[str, Meta(description="Why, in one word for programs.", pattern="^[A-Za-z]+$", max_length=1024)]
    message: Annotated[str, Meta(description="Why, in a sentence for people.", max_length=32768)]
    last_transition_time: Annotated[Time, Meta(description="When the status last changed.")]
    observed_generation: Annotated[int, Meta(description="Generation of the spec that it is about.")] = 0


class SourceStatus(_Status, frozen=True):
    """The shared table, as it was last seen."""

    table_id: Annotated[str, Meta(description="Identity of the shared table's log.")] = msgspec.field(
        default="", name="tableID"
    )
    version: Annotated[int | None, Meta(description="Newest version seen at the provider.")] = None
    access: Annotated[str, Meta(description="How files are read.")] = ""


class MirrorStatus(_Status, frozen=True):
    """Your copy, as of its newest commit."""

    uri: Annotated[str, Meta(description="Where Spark reads the mirror.")] = ""
    version: Annotated[int | None, Meta(description="Newest version of the mirror.")] = None
    source_version: Annotated[int | None, Meta(description="Version of the source that it equals.")] = None
    files: Annotated[int | None, Meta(description="Data files of that version.")] = None
    bytes: Annotated[int | None, Meta(description="Bytes of those files.")] = None
    rows: Annotated[int | None, Meta(description="Rows, if every file says how many it has.")] = None
    deletion_vectors: Annotated[int | None, Meta(description="Files with deleted rows.")] = None
    dropped_features: Annotated[
        list[str], Meta(description="Features and properties of the source that the mirror does without.")
    ] = []


class ProgressStatus(_Status, frozen=True):
    """How far the sync that runs now has come."""

    files_done: Annotated[int, Meta(description="Files copied.")] = 0
    files_total: Annotated[int, Meta(description="Files to copy.")] = 0
    bytes_done: Annotated[int, Meta(description="Bytes copied.")] = 0
    bytes_total: Annotated[int, Meta(description="Bytes to copy.")] = 0


class ActiveWindow(_Status, frozen=True):
    """The run of a job that is under way."""

    from_version: Annotated[int, Meta(description="First mirror version of the window.")] = msgspec.field(name="from")
    to_version: Annotated[int, Meta(description="Last mirror version of the window.")] = msgspec.field(name="to")
    kind: Annotated[
        WindowKind, Meta(description="Initial: the first one. Incremental: what came since. Reset: read all again.")
    ]
    ref: Annotated[str, Meta(description="Name of the object that runs it.")]
    attempt: Annotated[int, Meta(description="1, and one more for each retry.")] = 1


class JobStatus(_Status, frozen=True):
    """How far a job has come."""

    name: Annotated[str, Meta(description="Name of the job in the spec.")]
    processed_through: Annotated[
        int | None, Meta(description="Newest mirror version that the job has read with success.")
    ] = None
    active: ActiveWindow | None = None
    last_failure: Annotated[str, Meta(description="Why the last run failed, if it did.")] = ""


class SyncRecord(_Status, frozen=True):
    """One sync that did something."""

    time: Annotated[Time, Meta(description="When it ended.")]
    result: Annotated[str, Meta(description="Synced, or the reason of the failure.")]
    source_version: Annotated[int | None, Meta(description="Version of the source that was read.")] = None
    mirror_version: Annotated[int | None, Meta(description="Version of the mirror that was committed.")] = None
    bytes_copied: Annotated[int | None, Meta(description="Bytes that were copied.")] = None
    seconds: Annotated[float | None, Meta(description="How long it took.")] = None
    message: Annotated[str, Meta(description="What happened, in a sentence.")] = ""


class SharedTableStatus(_Status, frozen=True):
    """What the operator knows of the shared table, its mirror and its jobs."""

    observed_generation: Annotated[
        int,
        # In the schema too, so that a resource no operator has seen yet does not pass for one that is up to date.
        Meta(description="Generation of the spec that this status is about.", extra_json_schema={"default": -1}),
    ] = -1
    conditions: Annotated[
        list[Condition],
        Meta(
            description="Ready says whether the mirror can be relied on; the others say why not, and what goes on.",
            extra_json_schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = []
    source: SourceStatus = SourceStatus()
    mirror: MirrorStatus = MirrorStatus()
    progress: ProgressStatus | None = None
    last_sync_time: Annotated[Time | None, Meta(description="End of the last successful sync.")] = None
    last_sync_duration: Annotated[str | None, Meta(description="How long it took.")] = None
    last_full_check_time: Annotated[Time | None, Meta(description="When the whole file list was last compared.")] = None
    next_sync_time: Annotated[Time | None, Meta(description="When the source is looked at next.")] = None
    consecutive_failures: Annotated[int, Meta(description="Syncs that failed since the last success.")] = 0
    last_handled_reconcile_at: Annotated[
        str, Meta(description="The newest value of the annotation deltamirror.io/requestedAt that was acted on.")
    ] = ""
    jobs: Annotated[
        list[JobStatus],
        Meta(
            description="The jobs of the spec, and how far each has come.",
            extra_json_schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = []
    history: Annotated[
        list[SyncRecord], Meta(description="The last syncs that did something, newest first.", max_length=5)
    ] = []


def decode(raw: object) -> SharedTableStatus:
    """The status of an object as it was read; one that cannot be understood counts as none."""
    try:
        return msgspec.convert(raw or {}, SharedTableStatus)
    except msgspec.ValidationError:
        return SharedTableStatus()
