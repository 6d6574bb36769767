"""The servers as fixtures: one of each per test run (per worker under pytest-xdist), started on first use.

Their modules are imported on first use too: pyspark and boto3 would cost the unit tests more than they take.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.servers.kubernetes import ApiServer
    from tests.servers.s3 import S3Server


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    from tests.servers.s3 import S3Server

    folder = tmp_path_factory.mktemp("s3")
    with S3Server(folder) as server:
        yield server
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def spark(s3: S3Server) -> Iterator[SparkSession]:
    """A session that reads and writes folders and the buckets of the `s3` fixture (s3a://)."""
    from tests.servers.spark import s3a_conf, spark_session

    with spark_session(**s3a_conf(s3)) as session:
        yield session


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    from tests.servers.kubernetes import ApiServer

    folder = tmp_path_factory.mktemp("kubernetes")
    with ApiServer(folder) as server:
        yield server
    shutil.rmtree(folder)
