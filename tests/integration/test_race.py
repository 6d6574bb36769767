"""Race test: several engines on one mirror. Every version is committed once, and all of them end content."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deltamirror.delta import log
from deltamirror.delta.log import read_commit
from sharing_provider import Provider, serve
from tests.data import expected
from tests.integration.test_engine import LATEST, TABLE, Place
from tests.sharing import config

ENGINES = 4


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def provider(place: Place) -> Iterator[Provider]:
    with serve(config([{"name": TABLE, "location": f"file://{place.source}"}])) as provider:
        yield provider


def test_every_version_is_committed_once(place: Place, provider: Provider) -> None:
    for version in range(LATEST + 1):
        place.show(version)
        with ThreadPoolExecutor(ENGINES) as engines:
            results = [f.result() for f in [engines.submit(place.sync, provider) for _ in range(ENGINES)]]
        assert sum(result.commits for result in results) == 1, f"version {version}"
        assert {result.mirrorVersion for result in results} == {version}
        assert {result.rows for result in results} == {expected(TABLE)[version]["count"]}
    listing = log.list_log(place.store)
    assert sorted(listing.commits) == list(range(LATEST + 1))
    sources = [
        line.commit_info["deltamirror"]["sourceVersion"]
        for version in sorted(listing.commits)
        for line in read_commit(place.store, version)
        if line.commit_info
    ]
    assert sources == list(range(LATEST + 1))
