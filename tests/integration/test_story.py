"""The whole way of the data, once: tables in a bucket, shared, mirrored into another bucket, read by Spark and by kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.data import expected, tables
from tests.servers.s3 import S3Server
from tests.servers.spark import row_hash
from tests.sharing import LivingTable, Recipient, kernel_read, share


def buckets(s3: S3Server, name: str) -> tuple[str, str]:
    name = name.replace("_", "-")
    return s3.make_bucket(f"{name}-source"), s3.make_bucket(f"{name}-lake")


@pytest.mark.parametrize("table", tables())
def test_a_mirror_follows_its_source_version_by_version(
    table: str, s3: S3Server, spark: SparkSession, tmp_path: Path
) -> None:
    source, lake = buckets(s3, f"follow-{table}")
    living = LivingTable(s3, source, table)
    with share(s3, source, table) as provider:
        recipient = Recipient(provider, s3, lake)
        for version, facts in expected(table).items():
            living.show(version)
            result = recipient.sync(table)
            assert (result.sourceVersion, result.mirrorVersion, result.rows) == (version, version, facts["count"])
            folder = recipient.download(table, tmp_path)
            if facts["count"]:
                by_kernel = spark.read.parquet(str(kernel_read(folder, tmp_path / f"{version}.parquet")))
                assert row_hash(by_kernel) == (facts["count"], facts["hash"]), f"kernel, version {version}"
        assert recipient.sync(table).commits == 0
    for version, facts in expected(table).items():
        by_spark = spark.read.format("delta").option("versionAsOf", version).load(f"s3a://{lake}/{table}")
        assert row_hash(by_spark) == (facts["count"], facts["hash"]), f"Spark, version {version}"
        assert by_spark.columns == facts["columns"]


@pytest.mark.parametrize("table", tables())
def test_a_mirror_jumps_to_the_newest_version(table: str, s3: S3Server, spark: SparkSession, tmp_path: Path) -> None:
    source, lake = buckets(s3, f"jump-{table}")
    [(version, facts)] = list(expected(table).items())[-1:]
    LivingTable(s3, source, table).show(version)
    with share(s3, source, table, history=False) as provider:
        recipient = Recipient(provider, s3, lake)
        result = recipient.sync(table)
        assert (result.sourceVersion, result.mirrorVersion, result.rows) == (version, 0, facts["count"])
        folder = recipient.download(table, tmp_path)
    assert row_hash(spark.read.format("delta").load(f"s3a://{lake}/{table}")) == (facts["count"], facts["hash"])
    by_kernel = spark.read.parquet(str(kernel_read(folder, tmp_path / "kernel.parquet")))
    assert row_hash(by_kernel) == (facts["count"], facts["hash"])


def test_a_delete_at_the_source_copies_one_deletion_vector_and_no_data(s3: S3Server) -> None:
    source, lake = buckets(s3, "delete")
    living = LivingTable(s3, source, "dv_basic")
    deletes = [v for v, facts in expected("dv_basic").items() if facts["op"] == "DELETE"]
    with share(s3, source, "dv_basic") as provider:
        recipient = Recipient(provider, s3, lake)
        living.show(deletes[0] - 1)
        recipient.sync("dv_basic")
        living.show(deletes[0])
        result = recipient.sync("dv_basic")
    assert (result.filesCopied, result.deletionVectorsCopied) == (0, 1)
    assert result.rows == expected("dv_basic")[deletes[0]]["count"]


def test_nothing_new_costs_one_request_and_writes_nothing(s3: S3Server) -> None:
    source, lake = buckets(s3, "no-op")
    LivingTable(s3, source, "dv_part").show(5)
    with share(s3, source, "dv_part") as provider:
        recipient = Recipient(provider, s3, lake)
        recipient.sync("dv_part")
        before = sorted(info.path for info in recipient.store("dv_part").list())
        result = recipient.sync("dv_part")
        assert (result.requests, result.commits) == (1, 0)
        assert sorted(info.path for info in recipient.store("dv_part").list()) == before
        full = recipient.sync("dv_part", full=True)
        assert (full.commits, full.filesCopied) == (0, 0)


def test_files_that_were_copied_before_a_crash_are_not_copied_again(s3: S3Server) -> None:
    source, lake = buckets(s3, "crash")
    LivingTable(s3, source, "dv_part").show(5)
    with share(s3, source, "dv_part") as provider:
        recipient = Recipient(provider, s3, lake)
        first = recipient.sync("dv_part")
        assert first.filesCopied > 0
        store = recipient.store("dv_part")
        store.delete(["_delta_log/00000000000000000000.json"])  # as if it had died before its commit
        again = recipient.sync("dv_part")
        assert (again.filesCopied, again.deletionVectorsCopied, again.commits) == (0, 0, 1)
        assert again.rows == first.rows
