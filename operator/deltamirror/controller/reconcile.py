"""One look at one SharedTable: read its Secrets, sync, start jobs, write status. Runs in a thread."""

from __future__ import annotations

import base64
import logging
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from deltamirror import api, jobs
from deltamirror.api import SharedTable
from deltamirror.api import status as api_status
from deltamirror.api.shared_table import GROUP, PLURAL, VERSION
from deltamirror.api.status import JobStatus, ProgressStatus, SharedTableStatus
from deltamirror.controller import conditions
from deltamirror.controller.cluster import Cluster, ClusterError
from deltamirror.controller.decide import Decision, decide, next_sync, parse_time
from deltamirror.controller.metrics import SYNCS
from deltamirror.delta import features
from deltamirror.errors import Fault, Kind
from deltamirror.jobs import Launch, Outcome, Step
from deltamirror.jobs import batch_job as batch
from deltamirror.mirror import Plan, Progress, Settings, Sync, SyncResult
from deltamirror.sharing import Profile, SharingClient, TableName
from deltamirror.store import S3Options, StoreMisconfigured, open_store

PROGRESS_EVERY = 10.0
logger = logging.getLogger(__name__)


class SecretMissing(Fault):
    kind = Kind.WAITING
    reason = "SecretNotFound"


class UnexpectedError(Fault):
    """A defect of ours. The log has the traceback; the object is tried again and blocks no other."""

    kind = Kind.TRANSIENT
    reason = "InternalError"


@dataclass(frozen=True, slots=True)
class Policy:
    """What this operator allows, whatever a SharedTable asks for."""

    cluster_id: str
    allow_file_destinations: bool = False


@dataclass(slots=True)
class Reconciler:
    cluster: Cluster
    policy: Policy
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    _verified: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By uid: the generation and source version at which this process saw a mirror current. A look that finds the same source version
    needs to ask nothing else, and opens no store."""

    def reconcile(
        self, body: dict[str, Any], not_before: datetime | None = None
    ) -> tuple[dict[str, Any], datetime | None]:
        """Brings one object on. Returns it as it is then, and when to look at it again."""
        run = _Run(self, body)
        try:
            shared = api.decode(body)
        except api.ManifestError as error:
            return run.refuse(error)
        run.shared = shared
        decision = decide(shared, run.status, _now(), not_before)
        if shared.spec.suspend:
            run.write(conditions.suspended(shared, run.status, _now()))
            return run.body, None
        run.due = decision.due
        if decision.sync:
            run.sync(decision)
        run.follow_jobs()
        return run.body, run.due

    def client(self, shared: SharedTable) -> SharingClient:
        ref = shared.spec.source.profile_secret_ref
        data = self._secret(shared, ref.name)
        if ref.key not in data:
            raise SecretMissing(
                f"the Secret {ref.name} has no key {ref.key!r} yet: put the provider's profile file there"
            )
        return SharingClient(Profile.from_bytes(data[ref.key]), features.readable())

    def stands_still(self, shared: SharedTable) -> bool:
        """Whether the source is where it was when the mirror was last seen current: one request, and nothing else."""
        known = self._verified.get(shared.metadata.uid)
        if known is None or known[0] != shared.metadata.generation:
            return False
        source = shared.spec.source
        with self.client(shared) as client:
            return client.version(TableName(source.share, source.schema, source.table)) == known[1]

    def sync(self, shared: SharedTable, progress: Progress, full: bool, known_version: int | None) -> SyncResult:
        result = self._sync(shared, progress, full, known_version)
        self._verified[shared.metadata.uid] = (shared.metadata.generation, result.sourceVersion)
        return result

    def _sync(self, shared: SharedTable, progress: Progress, full: bool, known_version: int | None) -> SyncResult:
        destination = shared.spec.destination
        if destination.uri.startswith("file:") and not self.policy.allow_file_destinations:
            raise StoreMisconfigured(
                f"{destination.uri} would be a folder of the operator's own pod: use an object store"
                " (the operator's flag --allow-file-destinations allows it for tests)"
            )
        environment = self.environment
        if destination.credentials_secret_ref is not None:
            secret = self._secret(shared, destination.credentials_secret_ref.name)
            environment = {name: value.decode().strip() for name, value in secret.items()}
        options = S3Options(destination.s3.endpoint, destination.s3.region, destination.s3.kms_key_id)
        store = open_store(destination.uri, environment=environment, s3=options)
        settings = Settings.of(shared, cluster=self.policy.cluster_id)
        with self.client(shared) as client:
            return Sync(client, store, settings, progress).run(full=full, known_version=known_version)

    def _secret(self, shared: SharedTable, name: str) -> dict[str, bytes]:
        namespace = shared.metadata.namespace
        found = self.cluster.get(f"/api/v1/namespaces/{namespace}/secrets/{name}")
        if found is None:
            raise SecretMissing(f"waiting for the Secret {name} in namespace {namespace}")
        return {key: base64.b64decode(value) for key, value in (found.get("data") or {}).items()}


class _Run:
    """The state of one reconcile: the object, and its status as last written."""

    shared: SharedTable

    def __init__(self, reconciler: Reconciler, body: dict[str, Any]) -> None:
        self._reconciler = reconciler
        self._cluster = reconciler.cluster
        self.body = body
        self.status = api_status.decode(body.get("status"))
        self.due: datetime | None = None
        """When to look again."""

    @property
    def _path(self) -> str:
        meta = self.body["metadata"]
        return f"/apis/{GROUP}/{VERSION}/namespaces/{meta['namespace']}/{PLURAL}/{meta['name']}"

    def refuse(self, error: api.ManifestError) -> tuple[dict[str, Any], None]:
        """The API server let something through that cannot be meant. A new spec is needed; nothing else helps."""
        meta = msgspec.convert(self.body["metadata"], api.ObjectMeta)
        self.write(conditions.invalid(meta, self.status, error, _now()))
        return self.body, None

    def sync(self, decision: Decision) -> None:
        began = _now()
        if decision.fresh:
            self.write(conditions.started(self.shared, self.status, began))
        routine = not (decision.fresh or decision.full or decision.requested)
        try:
            if routine and self._reconciler.stands_still(self.shared):
                self.due = next_sync(self.shared, began)  # a routine look that finds nothing new writes nothing
                return
            known_version = self.status.mirror.version
            result = self._reconciler.sync(self.shared, _StatusProgress(self), decision.full, known_version)
        except Fault as fault:
            self._fail(fault)
            return
        except Exception:
            logger.exception("sync of %s failed unexpectedly", self.shared.name)
            self._fail(UnexpectedError("deltamirror failed unexpectedly; the operator's log says where"))
            return
        SYNCS.labels("Synced" if result.commits else "Unchanged").inc()
        if routine and not result.commits:
            self.due = next_sync(self.shared, began)
            return
        if result.commits:
            logger.info(
                "%s: mirror version %d is source version %d",
                self.shared.name,
                result.mirrorVersion,
                result.sourceVersion,
            )
            self._event("Normal", "Synced", conditions.current(result))
        elif conditions.is_ready(self.status) is not True:
            self._event("Normal", "Recovered", conditions.current(result))
        self.write(conditions.succeeded(self.shared, self.status, result, full=decision.full, began=began, now=_now()))
        self.due = parse_time(self.status.next_sync_time)

    def follow_jobs(self) -> None:
        """Starts, repeats and settles the users' jobs, each by itself: one that fails holds no other back."""
        version = self.status.mirror.version
        if version is None or not (self.shared.spec.jobs or self.status.jobs):
            return
        known = {job.name: job for job in self.status.jobs}
        statuses: list[JobStatus] = []
        failures: list[str] = []
        steps: list[Step] = []
        for job in self.shared.spec.jobs:
            status = known.get(job.name)
            outcome, why = self._outcome(status)
            step = jobs.advance(job, status, version, outcome, why)
            if step.launch is not None and step.status.active is not None:
                ref = batch.name(self.shared, step.launch)
                active = msgspec.structs.replace(step.status.active, ref=ref)
                step = Step(msgspec.structs.replace(step.status, active=active), step.launch, step.finished)
            if step.launch is None and outcome is Outcome.FAILED:
                failures.append(f"{job.name} failed on versions {_window(status)}: {why}")
            statuses.append(step.status)
            steps.append(step)
        # Recorded before it is created: a run that is recorded and missing is created again under the same name.
        self.write(conditions.with_jobs(self.shared, self.status, statuses, failures, _now()))
        for step in steps:
            if step.launch is not None:
                self._launch(step.launch)
            if step.finished:
                self._cluster.delete(f"{self._jobs_path}/{step.finished}")

    @property
    def _jobs_path(self) -> str:
        return f"/apis/batch/v1/namespaces/{self.shared.metadata.namespace}/jobs"

    def _outcome(self, status: JobStatus | None) -> tuple[Outcome, str]:
        if status is None or status.active is None:
            return Outcome.MISSING, ""
        return jobs.outcome(self._cluster.get(f"{self._jobs_path}/{status.active.ref}"))

    def _launch(self, launch: Launch) -> None:
        if launch.job.job is None:
            return
        body = jobs.manifest(self.shared, launch, launch.job.job)
        if self._cluster.create(self._jobs_path, body):
            window = launch.window
            text = f"started {body['metadata']['name']} on versions {window.from_version} to {window.to_version} ({window.kind})"
            self._event("Normal", "JobStarted", text)

    def _fail(self, fault: Fault) -> None:
        SYNCS.labels(fault.reason).inc()
        status = conditions.failed(self.shared, self.status, fault, _now())
        if conditions.transition(self.status, status):
            logger.warning("%s: %s: %s", self.shared.name, fault.reason, fault)
            self._event("Warning", fault.reason, str(fault))
        self.write(status)
        self.due = parse_time(status.next_sync_time)

    def write(self, status: SharedTableStatus) -> None:
        """Writes a status if it says anything new."""
        patch = conditions.merge_patch(self.body.get("status") or {}, msgspec.to_builtins(status))
        self.status = status
        if patch:
            self.body = self._cluster.patch(f"{self._path}/status", {"status": patch})

    def _event(self, kind: str, reason: str, message: str) -> None:
        meta = self.body["metadata"]
        now = conditions.stamp(_now())
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{meta['name']}-", "namespace": meta["namespace"]},
            "involvedObject": {
                "apiVersion": f"{GROUP}/{VERSION}",
                "kind": "SharedTable",
                **{k: meta[k] for k in ("name", "namespace", "uid", "resourceVersion")},
            },
            "type": kind,
            "reason": reason,
            "message": message[:1000],
            "source": {"component": "deltamirror"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            self._cluster.create(f"/api/v1/namespaces/{meta['namespace']}/events", event)
        except ClusterError as error:
            logger.warning("event not recorded: %s", error)


class _StatusProgress(Progress):
    """Shows how far a long sync is, a few times a minute."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._lock = threading.Lock()
        self._progress = ProgressStatus()
        self._written = time.monotonic()

    def planned(self, plan: Plan) -> None:
        self._progress = ProgressStatus(0, plan.files_to_copy + len(plan.vectors), 0, plan.bytes_to_copy)

    def copied(self, size: int) -> None:
        self._count(bytes_done=size)

    def file_done(self) -> None:
        self._count(files_done=1)

    def _count(self, files_done: int = 0, bytes_done: int = 0) -> None:
        with self._lock:
            known = self._progress
            self._progress = msgspec.structs.replace(
                known, files_done=known.files_done + files_done, bytes_done=known.bytes_done + bytes_done
            )
            if time.monotonic() - self._written < PROGRESS_EVERY:
                return
            self._written = time.monotonic()
            try:
                self._run.write(conditions.copying(self._run.shared, self._run.status, self._progress, _now()))
            except ClusterError as error:
                logger.warning("progress not written: %s", error)


def _window(status: JobStatus | None) -> str:
    active = status.active if status else None
    return f"{active.from_version} to {active.to_version}" if active else "none"


def _now() -> datetime:
    return datetime.now(UTC)
