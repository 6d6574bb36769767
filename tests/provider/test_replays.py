"""Polling is cheap, and what a poll says is true: nothing kept outlives the table that it was read from."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from deltamirror.delta import log
from deltamirror.delta.errors import LogCorrupt
from deltamirror.store import Store, open_store
from sharing_provider.replays import Replays
from tests.provider.hand_written import Action, add, checkpoint, metadata, protocol, remove, write

LONG_AGO = 1704067200
FIRST = [protocol(), metadata()]


class Watched:
    """A store that notes what is read from it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.read: list[str] = []
        self.store: Store = open_store(f"file://{folder}", environment={})

    def __getattr__(self, name: str) -> object:
        found = getattr(self.store, name)
        if name not in ("get", "stream"):
            return found

        def noting(path: str) -> object:
            self.read.append(path.rpartition("/")[2].lstrip("0") or path)
            return found(path)

        return noting


class Polled:
    def __init__(self, folder: Path, replays: Replays | None = None) -> None:
        self.watched = Watched(folder)
        self.replays = replays or Replays()

    def files(self, version: int | None = None) -> list[str]:
        store = self.watched.store
        found = self.replays.load(store.uri, self.watched, log.list_log(store), version)  # type: ignore[arg-type]
        return sorted(add.path for add in found.files.values())

    def read(self) -> list[str]:
        """What was read since the last time."""
        read, self.watched.read = self.watched.read, []
        return read


def _commit(folder: Path, version: int, *actions: Action, at: float | None = None) -> None:
    write(folder, {version: actions})
    seconds = LONG_AGO + version if at is None else at
    os.utime(folder / "_delta_log" / f"{version:020d}.json", (seconds, seconds))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table = tmp_path / "t"
    _commit(table, 0, *FIRST, add("a"))
    _commit(table, 1, add("b"))
    return table


@pytest.fixture
def polled(folder: Path) -> Polled:
    found = Polled(folder)
    assert found.files() == ["a", "b"]
    found.read()
    return found


def test_a_second_poll_reads_nothing(polled: Polled) -> None:
    assert polled.files() == ["a", "b"]
    assert polled.read() == []


def test_a_new_commit_is_all_that_is_read(polled: Polled, folder: Path) -> None:
    _commit(folder, 2, remove("a"), add("c"))
    assert polled.files() == ["b", "c"]
    assert polled.read() == ["2.json"]
    assert polled.files(1) == ["a", "b"]
    assert polled.read() == []


def test_a_version_before_the_known_ones_is_replayed(polled: Polled) -> None:
    assert polled.files(0) == ["a"]
    assert len(polled.read()) == 1


def test_a_new_checkpoint_is_read(polled: Polled, folder: Path) -> None:
    checkpoint(folder)
    assert polled.files() == ["a", "b"]
    assert any("checkpoint" in path for path in polled.read())


def test_a_table_that_was_made_again_is_noticed(polled: Polled, folder: Path) -> None:
    shutil.rmtree(folder)
    _commit(folder, 0, *FIRST, add("x"), at=LONG_AGO + 60)
    _commit(folder, 1, add("y"), at=LONG_AGO + 61)
    assert polled.files() == ["x", "y"]


def test_a_table_that_was_made_again_and_has_grown_further_is_noticed(polled: Polled, folder: Path) -> None:
    shutil.rmtree(folder)
    for version, path in enumerate("xyz"):
        _commit(folder, version, *(FIRST if version == 0 else []), add(path), at=LONG_AGO + 60 + version)
    assert polled.files() == ["x", "y", "z"]


def test_a_commit_of_this_moment_is_not_trusted(folder: Path) -> None:
    """Its successor could have the same size and, to the second, the same time."""
    polled = Polled(folder)
    now = int(time.time())
    _commit(folder, 2, add("c"), at=now)
    assert polled.files() == ["a", "b", "c"]
    _commit(folder, 2, add("d"), at=now)
    assert polled.files() == ["a", "b", "d"]


def test_a_hole_is_found_though_what_lies_before_it_is_known(polled: Polled, folder: Path) -> None:
    _commit(folder, 3, add("d"))
    with pytest.raises(LogCorrupt):
        polled.files()


def test_what_was_not_asked_for_of_late_is_forgotten(folder: Path, tmp_path: Path) -> None:
    replays = Replays(max_files=250)
    one = Polled(folder, replays)
    others = []
    for name in "uvw":
        shutil.copytree(folder, tmp_path / name)
        others.append(Polled(tmp_path / name, replays))
    for polled in (one, *others, one):
        polled.files()
    assert len(one.read()) == 4  # twice both commits
    others[-1].read()
    others[-1].files()
    assert others[-1].read() == []
