"""From `kubectl apply` to rows in Spark and a Job per window, with no more rights than the chart gives."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.data import expected
from tests.servers.kubernetes import ApiServer
from tests.servers.operator import Namespace, condition, operator
from tests.servers.processes import wait_until
from tests.servers.s3 import S3Server
from tests.servers.spark import row_hash
from tests.sharing import LivingTable, share

TABLE = "dv_basic"


@pytest.fixture
def analytics(api_server: ApiServer, tmp_path: Path) -> Iterator[Namespace]:
    with operator(api_server, "analytics", tmp_path) as namespace:
        yield namespace


def secret(name: str, **values: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": values}


def shared_table(s3: S3Server, lake: str, name: str = TABLE, profile: str = "acme", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "deltamirror.io/v1alpha1",
        "kind": "SharedTable",
        "metadata": {"name": name.replace("_", "-")},
        "spec": {
            "source": {"profileSecretRef": {"name": profile}, "share": "s", "schema": "d", "table": TABLE},
            "destination": {
                "uri": f"s3://{lake}/{name}",
                "credentialsSecretRef": {"name": "lake"},
                "s3": {"endpoint": s3.endpoint},
            },
            "refresh": {"interval": "1s"},
            **spec,
        },
    }


JOB = {
    "name": "enrich",
    "job": {
        "image": "ghcr.io/acme/jobs:1",
        "mainApplicationFile": "local:///opt/jobs/enrich.py",
        "arguments": ["--table", "$(MIRROR_URI)", "--from", "$(FROM_VERSION)", "--to", "$(TO_VERSION)"],
    },
}


def complete(namespace: Namespace, job: str) -> None:
    """What the Job controller of a whole cluster writes when the pod ended well."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    done = [
        {
            "type": kind,
            "status": "True",
            "lastProbeTime": now,
            "lastTransitionTime": now,
            "reason": "CompletionsReached",
        }
        for kind in ("SuccessCriteriaMet", "Complete")
    ]
    status = {"startTime": now, "completionTime": now, "succeeded": 1, "conditions": done}
    namespace.kubectl("patch", "job", job, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))


def windows(namespace: Namespace) -> dict[tuple[str, str, str], str]:
    """The Job objects of a namespace by window."""
    prefix = "deltamirror.io"
    return {
        tuple(
            job["metadata"]["labels"][f"{prefix}/{part}"] for part in ("from-version", "to-version", "window-kind")
        ): job["metadata"]["name"]
        for job in namespace.list("jobs")
    }


def mirrored(version: int) -> Any:
    return lambda status: (
        status.get("mirror", {}).get("sourceVersion") == version
        and condition(status, "Ready")
        == (
            "True",
            "Synced",
        )
    )


def test_a_shared_table_is_mirrored_followed_suspended_and_its_jobs_are_started(
    s3: S3Server, spark: SparkSession, analytics: Namespace
) -> None:
    source, lake = s3.make_bucket("operator-source"), s3.make_bucket("operator-lake")
    living = LivingTable(s3, source, TABLE)
    deletes = [v for v, facts in expected(TABLE).items() if facts["op"] == "DELETE"]
    first, then = deletes[0] - 1, deletes[0]

    def spark_reads(mirror_version: int, source_version: int) -> None:
        rows = spark.read.format("delta").option("versionAsOf", mirror_version).load(f"s3a://{lake}/{TABLE}")
        facts = expected(TABLE)[source_version]
        assert row_hash(rows) == (facts["count"], facts["hash"])

    living.show(first)
    with share(s3, source, TABLE) as provider:
        analytics.apply(
            secret("acme", **{"profile.json": json.dumps(provider.profile())}),
            secret("lake", AWS_ACCESS_KEY_ID=s3.access_key, AWS_SECRET_ACCESS_KEY=s3.secret_key),
            shared_table(s3, lake, jobs=[JOB]),
        )
        found = analytics.wait("dv-basic", "mirrored", mirrored(first))
        assert found["status"]["mirror"]["rows"] == expected(TABLE)[first]["count"]
        assert found["status"]["mirror"]["uri"] == f"s3a://{lake}/{TABLE}"
        spark_reads(0, first)

        wait_until(lambda: ("0", "0", "Initial") in windows(analytics), "the first window has its Job", 20)
        job = analytics.get("job", windows(analytics)["0", "0", "Initial"])
        assert job["metadata"]["ownerReferences"][0]["uid"] == found["metadata"]["uid"]

        living.show(then)
        analytics.wait("dv-basic", "following a delete", mirrored(then))
        spark_reads(1, then)
        assert set(windows(analytics)) == {("0", "0", "Initial")}, "the second window waits for the first"
        complete(analytics, job["metadata"]["name"])
        wait_until(lambda: set(windows(analytics)) == {("1", "1", "Incremental")}, "the second window has its Job", 20)
        [status] = analytics.table("dv-basic")["status"]["jobs"]
        assert status["processedThrough"] == 0
        assert status["active"]["from"] == 1

        analytics.kubectl("patch", "sharedtable", "dv-basic", "--type=merge", "-p", '{"spec":{"suspend":true}}')
        analytics.wait("dv-basic", "suspended", lambda s: condition(s, "Ready") == ("True", "Suspended"))
        living.show(then + 1)
        time.sleep(3)  # three intervals in which nothing may happen
        assert analytics.table("dv-basic")["status"]["mirror"]["sourceVersion"] == then
        analytics.kubectl("patch", "sharedtable", "dv-basic", "--type=merge", "-p", '{"spec":{"suspend":false}}')
        analytics.wait("dv-basic", "following again", mirrored(then + 1))
        spark_reads(2, then + 1)

        events = {event["reason"] for event in analytics.list("events")}
        assert {"Synced", "JobStarted"} <= events


def test_a_missing_secret_waits_and_heals(s3: S3Server, api_server: ApiServer, tmp_path: Path) -> None:
    source, lake = s3.make_bucket("late-source"), s3.make_bucket("late-lake")
    LivingTable(s3, source, TABLE).show(1)
    with share(s3, source, TABLE) as provider, operator(api_server, "late", tmp_path) as late:
        late.apply(shared_table(s3, lake, profile="tomorrow"))
        found = late.wait("dv-basic", "waiting", lambda s: condition(s, "Ready") == ("False", "SecretNotFound"))
        assert condition(found["status"], "Stalled") is None
        assert condition(found["status"], "Reconciling") == ("True", "SecretNotFound")
        late.apply(
            secret("tomorrow", **{"profile.json": json.dumps(provider.profile())}),
            secret("lake", AWS_ACCESS_KEY_ID=s3.access_key, AWS_SECRET_ACCESS_KEY=s3.secret_key),
        )
        late.wait("dv-basic", "healed", mirrored(1))


def test_a_request_is_answered_and_a_manual_table_waits_for_one(
    s3: S3Server, api_server: ApiServer, tmp_path: Path
) -> None:
    source, lake = s3.make_bucket("manual-source"), s3.make_bucket("manual-lake")
    living = LivingTable(s3, source, TABLE)
    living.show(1)
    with share(s3, source, TABLE) as provider, operator(api_server, "manual", tmp_path) as manual:
        manual.apply(
            secret("acme", **{"profile.json": json.dumps(provider.profile())}),
            secret("lake", AWS_ACCESS_KEY_ID=s3.access_key, AWS_SECRET_ACCESS_KEY=s3.secret_key),
            shared_table(s3, lake, refresh={"policy": "Manual"}),
        )
        manual.wait("dv-basic", "mirrored", mirrored(1))
        living.show(2)
        manual.kubectl("annotate", "sharedtable", "dv-basic", "deltamirror.io/requestedAt=one")
        found = manual.wait("dv-basic", "mirrored on request", mirrored(2))
        assert found["status"]["lastHandledReconcileAt"] == "one"
        assert "nextSyncTime" not in found["status"]


def test_a_wrong_token_stalls_with_a_sentence_and_shows_no_token(
    s3: S3Server, api_server: ApiServer, tmp_path: Path
) -> None:
    source, lake = s3.make_bucket("stall-source"), s3.make_bucket("stall-lake")
    LivingTable(s3, source, TABLE).show(1)
    with share(s3, source, TABLE) as provider, operator(api_server, "stall", tmp_path) as stall:
        profile = {**provider.profile(), "bearerToken": "WRONG-TOKEN"}
        stall.apply(
            secret("acme", **{"profile.json": json.dumps(profile)}),
            secret("lake", AWS_ACCESS_KEY_ID=s3.access_key, AWS_SECRET_ACCESS_KEY=s3.secret_key),
            shared_table(s3, lake),
        )
        found = stall.wait("dv-basic", "stalled", lambda s: condition(s, "Stalled") == ("True", "CredentialsRejected"))
        assert "WRONG-TOKEN" not in json.dumps(found["status"])
        assert "WRONG-TOKEN" not in stall.kubectl("get", "events", "-o", "json")
        assert "WRONG-TOKEN" not in (tmp_path / "operator-stall.log").read_text()
