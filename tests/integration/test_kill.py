"""Kill test: SIGKILL at every write of a sync in turn. The mirror is readable, and the next sync goes on from there."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from deltamirror.delta import deletion_vector as dv
from deltamirror.delta import log
from deltamirror.delta.errors import NotATable
from sharing_provider import Provider, serve
from tests.data import expected
from tests.integration.killing import sync_and_die
from tests.integration.test_engine import LATEST, TABLE, Place
from tests.sharing import config

EARLIER = 2


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def provider(place: Place) -> Iterator[Provider]:
    with serve(config([{"name": TABLE, "location": f"file://{place.source}"}])) as provider:
        yield provider


def rows(place: Place) -> int | None:
    """The rows of the mirror as its log counts them, after checking that every object it names is there; None: no table yet."""
    try:
        snapshot = log.load(place.store)
    except NotATable:
        return None
    total = 0
    for add in snapshot.files.values():
        assert (place.mirror / add.path).stat().st_size == add.size
        total += json.loads(add.stats or "")["numRecords"]
        if add.deletion_vector is not None:
            assert (place.mirror / dv.relative_path(add.deletion_vector)).exists()
            total -= add.deletion_vector.cardinality
    return total


@pytest.mark.parametrize("after", [False, True], ids=["before the write", "after the write"])
@pytest.mark.parametrize("begin", [None, EARLIER], ids=["first sync", "next sync"])
def test_a_sync_may_die_at_any_write(
    place: Place, provider: Provider, begin: int | None, after: bool, tmp_path: Path
) -> None:
    if begin is not None:
        place.show(begin)
        place.sync(provider)
        shutil.copytree(place.mirror, tmp_path / "before")
        place.show(LATEST)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.integration.killing"])
    old, new = (expected(TABLE)[begin]["count"] if begin is not None else None), expected(TABLE)[LATEST]["count"]
    number, files = 0, 0
    while True:
        number += 1
        shutil.rmtree(place.mirror, ignore_errors=True)
        if begin is not None:
            shutil.copytree(tmp_path / "before", place.mirror)
        arguments = (provider.profile(), f"file://{place.mirror}", place.settings, number, after)
        child = context.Process(target=sync_and_die, args=arguments)
        child.start()
        child.join(60)
        assert child.exitcode in (0, -signal.SIGKILL)
        assert rows(place) in (old, new), f"after the death at write {number}"
        there = {path.name for path in place.data_files()}
        result = place.sync(provider)
        assert rows(place) == new
        assert result.filesCopied == len(place.data_files()) - len(there), "nothing is copied twice"
        if child.exitcode == 0:
            break
        files = max(files, result.filesCopied)
    assert number > 3, "a sync writes more often than that"
    assert files > 0 or begin is not None
