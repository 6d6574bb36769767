"""A window as a batch/v1 Job: spark-submit in client mode, the driver in the Job's own pod."""

from __future__ import annotations

import hashlib
from typing import Any

from deltamirror.api import SharedTable, units
from deltamirror.api.shared_table import GROUP, KIND, VERSION, JobLauncher
from deltamirror.jobs.windows import Launch, Outcome
from deltamirror.store import spark_uri

CONTAINER = "spark"
LABEL_TABLE = f"{GROUP}/table"
LABEL_JOB = f"{GROUP}/job"


def name(shared: SharedTable, launch: Launch) -> str:
    """The same run always has the same name, so creating it twice is harmless."""
    window = launch.window
    identity = [
        shared.metadata.uid,
        shared.spec.destination.uri,
        launch.job.name,
        window.from_version,
        window.to_version,
    ]
    digest = hashlib.sha256("\0".join(map(str, [*identity, window.kind, launch.attempt])).encode()).hexdigest()[:8]
    return f"{shared.metadata.name[:20].rstrip('-.')}-{launch.job.name[:20].rstrip('-')}-{window.to_version}-{digest}"


def manifest(shared: SharedTable, launch: Launch, launcher: JobLauncher) -> dict[str, Any]:
    window = launch.window
    labels = {
        "app.kubernetes.io/managed-by": "deltamirror",
        LABEL_TABLE: shared.metadata.name[:63],
        LABEL_JOB: launch.job.name,
        f"{GROUP}/from-version": str(window.from_version),
        f"{GROUP}/to-version": str(window.to_version),
        f"{GROUP}/window-kind": window.kind,
        f"{GROUP}/attempt": str(launch.attempt),
    }
    owner = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "name": shared.metadata.name,
        "uid": shared.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
    template = _pod(shared, launch, launcher)
    template["metadata"] = merged(template.get("metadata", {}), {"labels": labels})
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name(shared, launch),
            "namespace": shared.metadata.namespace,
            "labels": labels,
            "ownerReferences": [owner],
        },
        "spec": {
            "backoffLimit": 0,  # retries are ours: each has a name and a place in status
            "activeDeadlineSeconds": int(units.seconds(launch.job.timeout)),
            "template": template,
        },
    }


def outcome(job: dict[str, Any] | None) -> tuple[Outcome, str]:
    """How a Job is doing and, if it failed, why."""
    if job is None:
        return Outcome.MISSING, ""
    for condition in job.get("status", {}).get("conditions") or []:
        if condition.get("status") == "True":
            if condition.get("type") == "Complete":
                return Outcome.SUCCEEDED, ""
            if condition.get("type") == "Failed":
                return Outcome.FAILED, f"{condition.get('reason', 'Failed')}: {condition.get('message', '')}"[:500]
    return Outcome.RUNNING, ""


def _pod(shared: SharedTable, launch: Launch, launcher: JobLauncher) -> dict[str, Any]:
    """The user's template, with what the run needs laid over it."""
    template: dict[str, Any] = merged({}, launcher.pod_template)
    spec: dict[str, Any] = template.setdefault("spec", {})
    containers: list[dict[str, Any]] = spec.setdefault("containers", [])
    container = next((c for c in containers if c.get("name") == CONTAINER), None)
    if container is None:
        container = {"name": CONTAINER}
        containers.insert(0, container)
    container["image"] = launcher.image
    container["command"] = ["/opt/spark/bin/spark-submit"]
    container["args"] = [
        *("--master", "local[*]"),
        *(word for key, value in sorted(launcher.spark_conf.items()) for word in ("--conf", f"{key}={value}")),
        launcher.main_application_file,
        *launcher.arguments,  # $(MIRROR_URI) and the like are filled in by Kubernetes from the environment below
    ]
    container["env"] = [*_environment(shared, launch), *container.get("env", [])]
    credentials = shared.spec.destination.credentials_secret_ref
    if credentials is not None:
        container["envFrom"] = [*container.get("envFrom", []), {"secretRef": {"name": credentials.name}}]
    spec.setdefault("restartPolicy", "Never")
    return template


def _environment(shared: SharedTable, launch: Launch) -> list[dict[str, str]]:
    destination, window = shared.spec.destination, launch.window
    values = {
        "MIRROR_URI": spark_uri(destination.uri),
        "FROM_VERSION": str(window.from_version),
        "TO_VERSION": str(window.to_version),
        "WINDOW_KIND": window.kind,
    }
    if destination.s3.endpoint:
        values["AWS_ENDPOINT_URL"] = destination.s3.endpoint
    if destination.s3.region:
        values["AWS_REGION"] = destination.s3.region
    return [{"name": key, "value": value} for key, value in values.items()]


def merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Two objects as one; where both say something, `over` wins."""
    result = dict(under)
    for key, value in over.items():
        below = result.get(key)
        result[key] = merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return result
