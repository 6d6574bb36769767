"""Replay: the files of a version, whatever mixture of commits and checkpoints says so."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from deltamirror.delta import commit, log
from deltamirror.delta.actions import Add, DeletionVector, Format, Line, Metadata, Protocol, Remove, Txn
from deltamirror.delta.errors import LogCorrupt, NotATable, VersionExists, VersionNotFound
from deltamirror.delta.snapshot import Snapshot
from deltamirror.store import Store, open_store
from tests.data import TABLES, expected, tables


def open_folder(path: Path) -> Store:
    return open_store(f"file://{path}", environment={})


def rows(snapshot: Snapshot) -> int:
    return sum(
        json.loads(add.stats or "")["numRecords"] - (add.deletion_vector.cardinality if add.deletion_vector else 0)
        for add in snapshot.files.values()
    )


METADATA = Metadata("id", '{"type":"struct","fields":[]}', [], {"a": "b"}, Format(), created_time=5)
VECTOR = DeletionVector("u", "k" * 20, 40, 3, 1)


def add(path: str, vector: DeletionVector | None = None, **partition: str | None) -> Add:
    return Add(path, partition, 10, 1, True, '{"numRecords":1}', deletion_vector=vector)


@pytest.mark.parametrize("table", tables())
def test_every_version_of_a_spark_table_has_the_rows_that_spark_counted(table: str) -> None:
    store = open_folder(TABLES / table)
    for version, facts in expected(table).items():
        assert rows(log.load(store, version)) == facts["count"], version


def test_a_folder_without_a_log_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(NotATable):
        log.load(open_folder(tmp_path))


def test_a_version_that_is_not_there(tmp_path: Path) -> None:
    store = open_folder(TABLES / "dv_basic")
    with pytest.raises(VersionNotFound, match="ends at version 10"):
        log.load(store, 11)


def test_a_hole_in_the_log_is_not_passed_over(tmp_path: Path) -> None:
    shutil.copytree(TABLES / "dv_part", tmp_path / "t")
    (tmp_path / "t/_delta_log/00000000000000000002.json").unlink()
    with pytest.raises(LogCorrupt, match="no commit 2"):
        log.load(open_folder(tmp_path / "t"))


def test_a_file_is_known_by_its_path_and_its_vector(tmp_path: Path) -> None:
    store = open_folder(tmp_path)
    commit.write_commit(
        store,
        0,
        [Line(protocol=Protocol(3, 7)), Line(meta_data=METADATA), Line(add=add("a")), Line(add=add("b"))],
        "c0",
    )
    update = [Line(add=add("a", VECTOR)), Line(remove=Remove("a", True))]
    commit.write_commit(store, 1, update, "c1")
    commit.write_commit(store, 2, [Line(remove=Remove("a", True))], "c2")  # names no vector: another logical file
    assert set(log.load(store).files) == {("a", VECTOR.unique_id), ("b", None)}


def test_a_checkpoint_says_what_the_commits_said(tmp_path: Path) -> None:
    store = open_folder(tmp_path)
    lines = [
        Line(commit_info={"operation": "X"}),
        Line(protocol=Protocol(3, 7, ["deletionVectors"], ["deletionVectors"])),
        Line(meta_data=METADATA),
        Line(txn=Txn("app", 7, 1)),
        Line(add=add("a", VECTOR, p="", q=None, r="ü %")),
        Line(add=add("b")),
        Line(remove=Remove("c", True, deletion_timestamp=2**60, size=3, partition_values={"p": None})),
        Line(remove=Remove("d", True, deletion_timestamp=1)),
    ]
    commit.write_commit(store, 0, lines, "c0")
    before = log.load(store)
    commit.write_checkpoint(store, 0, tombstones_for_seconds=3600)
    (tmp_path / "_delta_log/00000000000000000000.json").unlink()
    after = log.load(store)
    assert (after.protocol, after.metadata, after.txns) == (before.protocol, before.metadata, before.txns)
    assert {k: v.partition_values for k, v in after.files.items()} == {
        k: v.partition_values for k, v in before.files.items()
    }
    assert [a.stats for a in after.files.values()] == [a.stats for a in before.files.values()]
    assert set(after.tombstones) == {("c", None)}, "d has done its work"


def test_an_unfinished_multi_part_checkpoint_is_no_checkpoint(tmp_path: Path) -> None:
    shutil.copytree(TABLES / "dv_part", tmp_path / "t")
    part = tmp_path / "t/_delta_log/00000000000000000003.checkpoint.0000000001.0000000002.parquet"
    part.write_bytes(b"half")
    assert log.load(open_folder(tmp_path / "t")).checkpoint_version is None


def test_a_version_is_committed_once(tmp_path: Path) -> None:
    store = open_folder(tmp_path)
    commit.write_commit(store, 0, [Line(commit_info={"id": "one"})], "one")
    with pytest.raises(VersionExists):
        commit.write_commit(store, 0, [Line(commit_info={"id": "two"})], "two")


def test_a_commit_that_meets_itself_was_written(tmp_path: Path) -> None:
    """A PUT whose answer got lost is sent again, and finds its own object."""
    store = open_folder(tmp_path)
    commit.write_commit(store, 0, [Line(commit_info={"id": "one"})], "one")
    commit.write_commit(store, 0, [Line(commit_info={"id": "one"})], "one")
