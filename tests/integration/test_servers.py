"""The servers of the tests do what the other tests rely on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import urllib3
from botocore.exceptions import ClientError

from tests.servers.processes import ServerError, ServerProcess, wait_until
from tests.servers.s3 import S3Server
from tests.servers.spark import row_hash, time_travel_of_any_age

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.servers.kubernetes import ApiServer

TABLES = Path(__file__).parents[1] / "data" / "tables"


def versions_of_all_tables() -> Iterator[tuple[str, int, int, int]]:
    for file in sorted(TABLES.glob("*.expected.json")):
        expected = json.loads(file.read_text(encoding="utf-8"))
        for version, rows in expected["versions"].items():
            yield expected["table"], int(version), rows["count"], rows["hash"]


@pytest.fixture(scope="module")
def bucket(s3: S3Server) -> str:
    return s3.make_bucket("servers")


def test_the_second_conditional_put_of_a_key_loses(s3: S3Server, bucket: str) -> None:
    s3.boto3().put_object(Bucket=bucket, Key="log/0.json", Body=b"first", IfNoneMatch="*")
    with pytest.raises(ClientError, match="PreconditionFailed"):
        s3.boto3().put_object(Bucket=bucket, Key="log/0.json", Body=b"second", IfNoneMatch="*")
    assert s3.boto3().get_object(Bucket=bucket, Key="log/0.json")["Body"].read() == b"first"


def test_a_presigned_url_gives_a_range_and_refuses_a_changed_signature(s3: S3Server, bucket: str) -> None:
    s3.boto3().put_object(Bucket=bucket, Key="data", Body=b"0123456789")
    url = s3.boto3().generate_presigned_url("get_object", {"Bucket": bucket, "Key": "data"}, ExpiresIn=60)
    part = urllib3.request("GET", url, headers={"Range": "bytes=2-4"})
    assert (part.status, part.data) == (206, b"234")
    assert urllib3.request("GET", url.replace("/data?", "/other?")).status == 403


def test_a_folder_is_uploaded_with_its_odd_names(s3: S3Server, bucket: str, tmp_path: Path) -> None:
    names = ["p=a b%2Fc/file", "p=ünï/file", "top"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name, encoding="utf-8")
    assert s3.upload_folder(bucket, "/odd/", tmp_path) == [f"odd/{name}" for name in names]
    listed = s3.boto3().list_objects_v2(Bucket=bucket, Prefix="odd/")["Contents"]
    assert sorted(entry["Key"] for entry in listed) == [f"odd/{name}" for name in names]


def test_the_api_server_allows_what_rbac_allows_and_nothing_else(api_server: ApiServer) -> None:
    kubectl = api_server.kubectl
    kubectl("create", "namespace", "rbac")
    kubectl("create", "serviceaccount", "reader", "--namespace=rbac")
    reader = api_server.service_account_kubeconfig("rbac", "reader")
    with pytest.raises(ServerError, match="forbidden"):
        kubectl("get", "configmaps", "--namespace=rbac", kubeconfig=reader)

    kubectl("create", "role", "reader", "--verb=list", "--resource=configmaps", "--namespace=rbac")
    kubectl("create", "rolebinding", "reader", "--role=reader", "--serviceaccount=rbac:reader", "--namespace=rbac")

    def may_list_config_maps() -> bool:
        try:
            kubectl("get", "configmaps", "--namespace=rbac", kubeconfig=reader)
        except ServerError:
            return False
        return True

    wait_until(may_list_config_maps, "allowed", seconds=10)  # the authorizer learns of it through a watch
    with pytest.raises(ServerError, match="forbidden"):
        kubectl("get", "secrets", "--namespace=rbac", kubeconfig=reader)


def test_the_api_server_says_which_kubernetes_it_is(api_server: ApiServer) -> None:
    assert api_server.kubectl_json("version")["serverVersion"]["gitVersion"].startswith("v1.")


@pytest.mark.parametrize(
    ("table", "version", "count", "hash"),
    [pytest.param(*case, id=f"{case[0]}-v{case[1]}") for case in versions_of_all_tables()],
)
def test_spark_reads_the_expected_rows(spark: SparkSession, table: str, version: int, count: int, hash: int) -> None:
    with time_travel_of_any_age(spark):
        rows = spark.read.format("delta").option("versionAsOf", version).load(str(TABLES / table))
        assert row_hash(rows) == (count, hash)


def test_spark_reads_a_table_with_deletion_vectors_from_s3(spark: SparkSession, s3: S3Server, bucket: str) -> None:
    s3.upload_folder(bucket, "tables/dv_part", TABLES / "dv_part")
    table, _, count, hash = [case for case in versions_of_all_tables() if case[0] == "dv_part"][-1]
    assert row_hash(spark.read.format("delta").load(f"s3a://{bucket}/tables/{table}")) == (count, hash)


def test_a_server_that_does_not_start_is_reported_with_its_log(tmp_path: Path) -> None:
    command = ["/bin/sh", "-c", "echo the disk is full; exit 3"]
    with (
        ServerProcess("thing", command, tmp_path / "log") as server,
        pytest.raises(ServerError, match=r"(?s)thing ended with status 3 before ready.*the disk is full"),
    ):
        server.wait_until(lambda: False, "ready", seconds=10)


def test_a_server_ends_when_the_test_run_is_killed(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib; from tests.servers.processes import ServerProcess; "
        "print(ServerProcess('s', ['/bin/sleep', '600'], pathlib.Path(sys.argv[1])).pid, flush=True); "
        "sys.stdin.read()"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", program, tmp_path / "log"],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with run:
        assert run.stdout is not None
        server = Path("/proc", run.stdout.readline().decode().strip())
        assert server.exists()
        run.send_signal(signal.SIGKILL)
    wait_until(lambda: not server.exists(), "gone", seconds=10)
