"""SharedTable: a table somebody shares with you, and how fresh you want your own copy of it.

These models are the only definition of the resource: manifests are decoded with them, the CRD is rendered from them,
and the descriptions here are what `kubectl explain` prints.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from deltamirror.api.units import Duration, Quantity

GROUP = "deltamirror.io"
VERSION = "v1alpha1"
KIND = "SharedTable"
PLURAL = "sharedtables"

REQUEST_ANNOTATION = f"{GROUP}/requestedAt"
ADOPT_ANNOTATION = f"{GROUP}/adopt"

SecretName = Annotated[str, Meta(min_length=1, max_length=253)]
SharedName = Annotated[str, Meta(min_length=1, max_length=255)]
CronLine = Annotated[str, Meta(pattern=r"^([0-9A-Za-z*/,-]+ +){4}[0-9A-Za-z*/,-]+$", max_length=128)]
TimeZone = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$", max_length=64)]
Template = Annotated[dict[str, Any], Meta(extra_json_schema={"x-kubernetes-preserve-unknown-fields": True})]


class _Model(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Unknown fields are errors: a field that an older operator does not know may decide which rows are right."""


class SecretKeyRef(_Model, frozen=True):
    """A key of a Secret."""

    name: Annotated[SecretName, Meta(description="Name of a Secret in the namespace of this SharedTable.")]
    key: Annotated[str, Meta(description="Key in the Secret that holds the profile.", min_length=1, max_length=253)] = (
        "profile.json"
    )


class SecretRef(_Model, frozen=True):
    """A whole Secret."""

    name: Annotated[SecretName, Meta(description="Name of a Secret in the namespace of this SharedTable.")]


class Source(_Model, frozen=True):
    """The shared table, as the provider names it."""

    profile_secret_ref: Annotated[
        SecretKeyRef, Meta(description="The Delta Sharing profile file, as the provider sent it.")
    ]
    share: Annotated[SharedName, Meta(description="Name of the share.")]
    schema: Annotated[SharedName, Meta(description="Name of the schema in the share.")]
    table: Annotated[SharedName, Meta(description="Name of the table in the schema.")]
    access: Annotated[
        Literal["Auto", "URL", "Directory"],
        Meta(
            description="How files are read: by signed URLs, or with temporary credentials for the table's directory."
        ),
    ] = "Auto"
    partition_filter: Annotated[
        Template | None,
        Meta(
            description="A Delta Sharing JSON predicate on partition columns: only matching partitions are mirrored. Snapshot mode only."
        ),
    ] = None


class S3(_Model, frozen=True):
    """Settings of s3:// destinations."""

    endpoint: Annotated[str | None, Meta(description="Endpoint of an S3-compatible store; AWS where absent.")] = None
    region: Annotated[str | None, Meta(description="Region of the bucket.")] = None
    kms_key_id: Annotated[str | None, Meta(description="Encrypt every object with this KMS key (SSE-KMS).")] = (
        msgspec.field(default=None, name="kmsKeyID")
    )


class Destination(_Model, frozen=True):
    """Where your copy lives."""

    uri: Annotated[
        str,
        Meta(
            description="Root of the mirror: s3://bucket/folder, gs://, abfss:// or, where allowed, file:///. Cannot be changed.",
            pattern=r"^(s3|gs|abfss|file)://.+",
            max_length=1024,
        ),
    ]
    credentials_secret_ref: Annotated[
        SecretRef | None,
        Meta(description="Secret with AWS_*, GOOGLE_* or AZURE_* keys; the pod's own identity where absent."),
    ] = None
    s3: S3 = S3()
    write_protection: Annotated[
        bool,
        Meta(
            description="Marks the mirror with a private writer feature, so that other engines refuse to write or vacuum it."
        ),
    ] = False
    allow_unsafe_commits: Annotated[
        bool, Meta(description="Accept a store without conditional writes. You promise that nothing else writes here.")
    ] = False


class Refresh(_Model, frozen=True):
    """How fresh the mirror is kept."""

    policy: Annotated[
        Literal["Interval", "Schedule", "Manual"],
        Meta(
            description="Interval: again after `interval`. Schedule: at the times of a cron line. Manual: only when asked."
        ),
    ] = "Interval"
    interval: Annotated[
        Duration | None, Meta(description="Time between two looks at the source, from start to start. Default 10m.")
    ] = None
    schedule: Annotated[CronLine | None, Meta(description="Five cron fields, for policy Schedule.")] = None
    time_zone: Annotated[
        TimeZone | None, Meta(description="IANA time zone of the schedule, such as Europe/Berlin. Default UTC.")
    ] = None
    full_check: Annotated[
        Duration,
        Meta(
            description="The whole file list is compared at least this often, even if the source's version stands still."
        ),
    ] = "24h"


class History(_Model, frozen=True):
    """Settings of History mode."""

    start_version: Annotated[
        str,
        Meta(
            description="First version to mirror: Latest, Oldest, or a number.",
            pattern=r"^(Latest|Oldest|[0-9]{1,18})$",
        ),
    ] = "Latest"
    commit_times: Annotated[
        Literal["Reported", "Exact"],
        Meta(description="Reported: times that the server sends along. Exact: found by asking for each version."),
    ] = "Reported"
    change_data_feed: Annotated[bool, Meta(description="Mirror change data files too.")] = False
    on_gap: Annotated[
        Literal["Fail", "Bridge"],
        Meta(description="When versions can no longer be had: stop, or move on in one commit."),
    ] = "Fail"
    max_versions_per_sync: Annotated[int, Meta(description="Versions that one sync commits at the most.", ge=1)] = 500


class Retention(_Model, frozen=True):
    """How long the past is kept."""

    removed_files: Annotated[
        Duration,
        Meta(description="How long files that left the table stay in the mirror, for running readers and time travel."),
    ] = "168h"
    log: Annotated[Duration, Meta(description="How long old versions stay in the mirror's log.")] = "720h"


class Transfer(_Model, frozen=True):
    """How bytes are moved."""

    run_in: Annotated[
        Literal["Auto", "Operator", "Job", "Spark"],
        Meta(description="Where a sync runs; Auto decides by the planned bytes."),
    ] = "Auto"
    concurrency: Annotated[int, Meta(description="Files or parts in flight at once.", ge=1, le=256)] = 16
    bytes_per_second: Annotated[Quantity | None, Meta(description="Bandwidth limit of one sync.")] = None
    max_bytes_per_sync: Annotated[
        Quantity | None, Meta(description="A sync that would copy more than this stops before it copies anything.")
    ] = None
    timeout: Annotated[Duration, Meta(description="A sync that takes longer is stopped and tried again.")] = "2h"
    pod_template: Annotated[Template, Meta(description="Pod template of transfer Jobs, merged under what we set.")] = {}


class JobLauncher(_Model, frozen=True):
    """A batch/v1 Job that runs spark-submit in client mode, with the driver in the Job's own pod."""

    image: Annotated[str, Meta(description="Image with Spark, Delta and your program.", min_length=1)]
    main_application_file: Annotated[
        str, Meta(description="Your program, e.g. local:///opt/jobs/enrich.py.", min_length=1)
    ]
    arguments: Annotated[
        list[str],
        Meta(description="Arguments; $(MIRROR_URI), $(FROM_VERSION), $(TO_VERSION) and $(WINDOW_KIND) are filled in."),
    ] = []
    spark_conf: Annotated[dict[str, str], Meta(description="Spark properties.")] = {}
    pod_template: Annotated[Template, Meta(description="Pod template, merged under what we set.")] = {}


class Dependency(_Model, frozen=True):
    """Another SharedTable that a job reads too."""

    name: Annotated[
        str,
        Meta(
            description="A SharedTable in the same namespace that must be current first.",
            min_length=1,
            max_length=253,
        ),
    ]


class Job(_Model, frozen=True):
    """A PySpark job that is started on each window of new versions."""

    name: Annotated[
        str,
        Meta(
            description="Name of the job, unique in this SharedTable.",
            pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
            max_length=40,
        ),
    ]
    start_from: Annotated[
        Literal["Earliest", "Latest"],
        Meta(description="For a job added to a living mirror: start with all of it, or with what comes next."),
    ] = "Earliest"
    concurrency_policy: Annotated[
        Literal["Forbid", "Replace"],
        Meta(
            description="Forbid: versions that arrive meanwhile join the next window. Replace: stop the run and start over."
        ),
    ] = "Forbid"
    backoff_limit: Annotated[int, Meta(description="Retries of a window before the job needs a person.", ge=0)] = 3
    timeout: Annotated[Duration, Meta(description="A run that takes longer is stopped and counts as failed.")] = "1h"
    depends_on: Annotated[
        list[Dependency], Meta(description="Other SharedTables that must be current first.", max_length=32)
    ] = []
    job: JobLauncher | None = None
    spark_application: Annotated[
        Template | None, Meta(description="Template of a kubeflow SparkApplication (sparkoperator.k8s.io/v1beta2).")
    ] = None
    apache_spark: Annotated[
        Template | None, Meta(description="Template of an Apache SparkApplication (spark.apache.org/v1).")
    ] = None


class SharedTableSpec(_Model, frozen=True):
    """The shared table, and the copy of it that you want."""

    source: Source
    destination: Destination
    refresh: Refresh = Refresh()
    mode: Annotated[
        Literal["Snapshot", "History"],
        Meta(
            description="Snapshot: each sync is one commit to the newest version. History: one commit per source version, under the same number. Cannot be changed."
        ),
    ] = "Snapshot"
    history: History = History()
    on_source_recreated: Annotated[
        Literal["Fail", "Restart"],
        Meta(description="When the source was dropped and made anew: stop, or take the new table over."),
    ] = "Fail"
    on_mirror_modified: Annotated[
        Literal["Fail", "Overwrite"],
        Meta(description="When somebody else wrote into the mirror: stop, or make it equal to the source again."),
    ] = "Fail"
    retention: Retention = Retention()
    transfer: Transfer = Transfer()
    jobs: Annotated[
        list[Job],
        Meta(
            description="PySpark jobs that follow the mirror.",
            max_length=32,
            extra_json_schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = []
    deletion_policy: Annotated[
        Literal["Retain", "Delete"], Meta(description="What happens to the mirror when this resource is deleted.")
    ] = "Retain"
    suspend: Annotated[bool, Meta(description="Stop looking at the source and starting jobs.")] = False


class ObjectMeta(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What is needed of an object's metadata; the rest is the API server's business."""

    name: Annotated[str, Meta(max_length=63)]  # it is the value of a label on what we start
    namespace: str = "default"
    annotations: dict[str, str] = {}
    generation: int = 0
    uid: str = ""


class SharedTable(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A table that somebody shares with you, and how fresh you want your own copy of it."""

    api_version: Literal["deltamirror.io/v1alpha1"]
    kind: Literal["SharedTable"]
    metadata: ObjectMeta
    spec: SharedTableSpec

    @property
    def name(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def table(self) -> str:
        source = self.spec.source
        return f"{source.share}.{source.schema}.{source.table}"
