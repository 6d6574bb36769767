"""An S3 store with the semantics that commits rely on: conditional PUT, presigned URLs, multipart, checksums.

versitygw over a folder: it checks signatures and expiry and keeps If-None-Match under races, which the usual
fakes do not.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import boto3
from botocore.config import Config

import tools
from tests.servers.processes import ServerProcess, free_port

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

UPLOAD_THREADS = 8


class S3Server:
    """A running store. Objects must come through the API: files laid into the folder have no ETag."""

    region = "us-east-1"

    def __init__(self, folder: Path, access_key: str = "test-access-key", secret_key: str = "test-secret-key") -> None:
        self.folder = folder
        self.access_key = access_key
        self.secret_key = secret_key
        self.port = free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self._running = contextlib.ExitStack()

    def __enter__(self) -> Self:
        buckets = self.folder / "buckets"
        buckets.mkdir(parents=True, exist_ok=True)
        flags = ["--quiet", "--keep-alive", "--region", self.region, "--port", f"127.0.0.1:{self.port}"]
        keys = {"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key}
        with contextlib.ExitStack() as starting:
            server = starting.enter_context(
                ServerProcess(
                    "versitygw",
                    [tools.path("versitygw"), *flags, "posix", buckets],
                    self.folder / "versitygw.log",
                    keys,
                )
            )
            server.wait_until(self._answers, "answering", seconds=20)
            self._running = starting.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.close()

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        with contextlib.closing(connection):
            connection.request("GET", "/")
            return connection.getresponse().status == http.HTTPStatus.FORBIDDEN  # we sent no signature

    def boto3(self) -> S3Client:
        return self._client

    @functools.cached_property
    def _client(self) -> S3Client:
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=self.region,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            config=Config(
                signature_version="s3v4",
                s3={"addressing_style": "path"},
                max_pool_connections=UPLOAD_THREADS,
            ),
        )

    def make_bucket(self, name: str) -> str:
        self.boto3().create_bucket(Bucket=name)
        return name

    def upload_folder(self, bucket: str, prefix: str, folder: Path) -> list[str]:
        """Put every file of the folder under the prefix; the keys, sorted."""
        files = sorted(file for file in folder.rglob("*") if file.is_file())
        start = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        keys = [start + file.relative_to(folder).as_posix() for file in files]

        def upload(key: str, file: Path) -> None:
            self.boto3().put_object(Bucket=bucket, Key=key, Body=file.read_bytes())

        with ThreadPoolExecutor(UPLOAD_THREADS) as threads:
            for _ in threads.map(upload, keys, files):
                pass
        return keys
