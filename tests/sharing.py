"""A provider and a recipient on one S3 server: tables that grow version by version, and mirrors of them."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltamirror.delta import features
from deltamirror.mirror import Settings, Sync, SyncResult
from deltamirror.sharing import Profile, SharingClient, TableName
from deltamirror.store import S3Options, Store, open_store
from sharing_provider import Config, Provider, serve
from sharing_provider import parse as parse_config
from tests.data import TABLES
from tests.servers.s3 import S3Server


@dataclass
class LivingTable:
    """A table of tests/data in the provider's bucket, of which only the first versions are to be seen yet."""

    s3: S3Server
    bucket: str
    name: str
    _shown: int = field(default=-1, init=False)

    def __post_init__(self) -> None:
        for file in self._files():
            if file.parent.name != "_delta_log":
                self._upload(file)

    def show(self, version: int) -> None:
        """Commits everything up to a version."""
        for file in self._files():
            number = re.match(r"\d{20}", file.name)
            if file.parent.name == "_delta_log" and number and self._shown < int(number.group()) <= version:
                self._upload(file)
        self._shown = version

    def _files(self) -> list[Path]:
        return sorted(file for file in (TABLES / self.name).rglob("*") if file.is_file())

    def _upload(self, file: Path) -> None:
        key = f"{self.name}/{file.relative_to(TABLES / self.name).as_posix()}"
        self.s3.boto3().put_object(Bucket=self.bucket, Key=key, Body=file.read_bytes())


@contextlib.contextmanager
def share(s3: S3Server, bucket: str, *tables: str, history: bool = True) -> Iterator[Provider]:
    """Shares tables of a bucket as s.d.NAME."""
    shared = [{"name": t, "location": f"s3://{bucket}/{t}", "historyShared": history} for t in tables]
    with serve(config(shared, s3)) as provider:
        yield provider


def config(tables: list[dict[str, Any]], s3: S3Server | None = None, **more: Any) -> Config:
    content: dict[str, Any] = {
        "bearerToken": "test-token",
        "shares": [{"name": "s", "schemas": [{"name": "d", "tables": tables}]}],
        **more,
    }
    if s3 is not None:
        content["s3"] = {"endpoint": s3.endpoint, "accessKey": s3.access_key, "secretKey": s3.secret_key}
    return parse_config(json.dumps(content))


@dataclass(frozen=True)
class Recipient:
    """Mirrors the tables of a provider into a bucket of its own."""

    provider: Provider
    s3: S3Server
    bucket: str

    def store(self, table: str) -> Store:
        keys = {"AWS_ACCESS_KEY_ID": self.s3.access_key, "AWS_SECRET_ACCESS_KEY": self.s3.secret_key}
        options = S3Options(endpoint=self.s3.endpoint, region=self.s3.region)
        return open_store(f"s3://{self.bucket}/{table}", environment=keys, s3=options)

    def sync(self, table: str, *, full: bool = False) -> SyncResult:
        settings = Settings(TableName("s", "d", table), f"local/test/{table}", concurrency=8)
        with SharingClient(Profile.from_dict(self.provider.profile()), features.readable()) as client:
            return Sync(client, self.store(table), settings).run(full=full)

    def download(self, table: str, folder: Path) -> Path:
        """The mirror as a folder, for readers that know no S3; what is there already is not fetched again."""
        store = self.store(table)
        prefix = f"{table}/"
        pages = self.s3.boto3().get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        for page in pages:
            for item in page.get("Contents", []):
                path = item["Key"].removeprefix(prefix)
                target = folder / table / path
                if not target.exists() or path.endswith("_last_checkpoint"):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(store.get(path))
        return folder / table


def kernel_read(folder: Path, parquet: Path) -> Path:
    """Reads the newest version of a table with delta-kernel-rs, a reader that shares no code with Spark, into a Parquet file."""
    import delta_kernel_rust_sharing_wrapper as kernel

    interface = kernel.PythonInterface(f"file://{folder}")
    snapshot = kernel.Table(f"file://{folder}").snapshot(interface)
    rows = pa.Table.from_batches(kernel.ScanBuilder(snapshot).build().execute(interface))
    pq.write_table(rows, parquet)
    return parquet
