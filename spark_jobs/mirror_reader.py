"""What a PySpark job needs to read the window of mirror versions it was started for.

Import it, or start from `count_window.py`:

    spark = mirror_reader.session("enrich")
    window = mirror_reader.Window.from_arguments()
    after = mirror_reader.read(spark, window.table, window.to_version)
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import DataFrame, SparkSession

Kind = Literal["Initial", "Incremental", "Reset"]


@dataclass(frozen=True)
class Window:
    """The inclusive range of mirror versions that one run of a job is to read."""

    table: str
    from_version: int
    to_version: int
    kind: Kind
    """Initial: the first run. Incremental: the versions since the last one. Reset: read everything at TO again."""

    @classmethod
    def from_arguments(cls, arguments: Sequence[str] | None = None) -> Window:
        parser = argparse.ArgumentParser(description="Reads a window of a mirror.")
        parser.add_argument("--table", required=True, help="the mirror, as Spark reads it: s3a://…")
        parser.add_argument("--from", dest="from_version", type=int, required=True)
        parser.add_argument("--to", dest="to_version", type=int, required=True)
        parser.add_argument("--kind", choices=["Initial", "Incremental", "Reset"], default="Incremental")
        found = parser.parse_args(arguments)
        if not 0 <= found.from_version <= found.to_version:
            parser.error(f"{found.from_version}..{found.to_version} is no window")
        return cls(found.table, found.from_version, found.to_version, found.kind)

    @property
    def before(self) -> int | None:
        """The version that the last run ended with; nothing for a run that reads everything."""
        return self.from_version - 1 if self.kind == "Incremental" and self.from_version > 0 else None


def session(name: str, **settings: str) -> SparkSession:
    """A session that reads Delta tables, and S3 with the credentials and endpoint of the usual AWS_* variables."""
    builder = (
        SparkSession.builder.appName(name)
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    )
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        builder = (
            builder.config("spark.hadoop.fs.s3a.endpoint", endpoint)
            .config("spark.hadoop.fs.s3a.endpoint.region", os.environ.get("AWS_REGION", "us-east-1"))
            .config("spark.hadoop.fs.s3a.path.style.access", "true")
            .config("spark.hadoop.fs.s3a.connection.ssl.enabled", str(endpoint.startswith("https:")).lower())
        )
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def read(spark: SparkSession, table: str, version: int) -> DataFrame:
    """The mirror as it was at a version."""
    return spark.read.format("delta").option("versionAsOf", version).load(table)
