"""The plan: which rows of the log and which files turn the mirror into its source."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from deltamirror.delta.actions import Line
from deltamirror.delta.snapshot import Replay, Snapshot
from deltamirror.mirror import names, plan
from deltamirror.mirror.errors import SourceContradicts
from deltamirror.mirror.plan import Plan
from deltamirror.mirror.settings import Settings
from deltamirror.sharing import (
    SharedDeletionVector,
    SharedFile,
    SharedSnapshot,
    TableMetadata,
    TableName,
    TableProtocol,
)

SETTINGS = Settings(TableName("s", "d", "t"), "local/default/t", 3600, 7200, 4)
UUID = "0b7558db-cbcc-4cd0-8a7f-dfdc0c335e55"


def file(id: str, vector: SharedDeletionVector | None = None, **changes: Any) -> SharedFile:
    base = SharedFile(id, f"https://x/{id}?sig=1", 10, {}, 1, '{"numRecords":5}', vector)
    return msgspec.structs.replace(base, **changes)


def vector(
    offset: int = 1, cardinality: int = 2, host: str = "https://x", signature: str = "1"
) -> SharedDeletionVector:
    return SharedDeletionVector("p", f"{host}/t/deletion_vector_{UUID}.bin?sig={signature}", 40, cardinality, offset)


def source(*files: SharedFile, version: int = 1, **metadata: Any) -> SharedSnapshot:
    shared = TableMetadata("id", '{"type":"struct","fields":[]}', [], {})
    protocol = TableProtocol(3, 7, ["deletionVectors"], ["deletionVectors"])
    return SharedSnapshot(version, "delta", protocol, msgspec.structs.replace(shared, **metadata), list(files))


def make(mirror: Snapshot | None, *files: SharedFile, **metadata: Any) -> Plan:
    return plan.make(mirror, source(*files, **metadata), SETTINGS, now_ms=1)


def after(mirror: Snapshot | None, done: Plan) -> Snapshot:
    replay = Replay(mirror)
    replay.commit(
        [Line(protocol=done.protocol), Line(meta_data=done.metadata)]
        + [Line(remove=r) for r in done.removes]
        + [Line(add=a) for a in done.adds]
    )
    return replay.snapshot(mirror.version + 1 if mirror else 0)


def mirrored(*files: SharedFile) -> Snapshot:
    return after(None, make(None, *files))


def test_the_first_plan_brings_everything() -> None:
    first = make(None, file("a"), file("b", vector()))
    assert [c.path for c in first.files] == [names.data_path("delta", file("a")), names.data_path("delta", file("b"))]
    assert [c.slices for c in first.vectors] == [((1, 40, 2),)]
    assert first.protocol is not None
    assert first.metadata is not None
    assert first.rows == 8


def test_nothing_new_is_an_empty_plan_even_under_other_urls() -> None:
    moved = vector(host="https://bucket.x", signature="2")
    second = make(mirrored(file("a"), file("b", vector())), file("b", moved, url="https://y/b?sig=2"), file("a"))
    assert second.empty
    assert not second.files
    assert not second.vectors


def test_a_delete_copies_a_vector_and_no_data() -> None:
    second = make(mirrored(file("a")), file("a", vector()))
    assert not second.files
    assert len(second.vectors) == 1
    [remove], [add] = second.removes, second.adds
    assert remove.path == add.path
    assert remove.deletion_vector is None
    assert add.deletion_vector is not None


def test_a_replaced_vector_names_the_one_it_cancels() -> None:
    before = mirrored(file("a", vector(offset=1)))
    second = make(before, file("a", vector(offset=49, cardinality=3)))
    [remove] = second.removes
    assert remove.key in before.files
    assert set(after(before, second).files) == {second.adds[0].key}


def test_a_restore_takes_the_vector_away_again() -> None:
    before = mirrored(file("a", vector()))
    second = make(before, file("a"))
    assert set(after(before, second).files) == {(names.data_path("delta", file("a")), None)}
    assert not second.vectors


def test_vectors_in_one_file_are_copied_once() -> None:
    first = make(None, file("a", vector(1)), file("b", vector(49)))
    assert [c.slices for c in first.vectors] == [((1, 40, 2), (49, 40, 2))]


def test_corrected_statistics_are_added_again_without_a_data_change() -> None:
    before = mirrored(file("a"), file("b"))
    second = make(before, file("a", stats='{"numRecords":5,"minValues":{}}'), file("b"))
    [add] = second.adds
    assert not add.data_change
    assert not second.removes, "an add replaces what the log says of the same file"
    assert not second.files


def test_a_file_that_left_is_removed() -> None:
    before = mirrored(file("a"), file("b"))
    second = make(before, file("b"))
    assert [r.path for r in second.removes] == [names.data_path("delta", file("a"))]
    assert second.removed_share == 0.5


def test_a_file_never_changes_its_size() -> None:
    with pytest.raises(SourceContradicts, match="changed its size"):
        make(mirrored(file("a")), file("a", size=11))


def test_a_vector_needs_a_row_count() -> None:
    with pytest.raises(SourceContradicts, match="no row count"):
        make(None, file("a", vector(), stats=None))


def test_rows_are_known_only_if_every_file_says_so() -> None:
    assert make(None, file("a"), file("b", stats=None)).rows is None


def test_a_new_schema_is_written_with_the_same_commit() -> None:
    second = make(mirrored(file("a")), file("a"), schema_string='{"type":"struct","fields":[1]}')
    assert second.metadata is not None
    assert not second.adds


def test_retention_is_the_mirrors_own() -> None:
    first = make(
        None, configuration={"delta.deletedFileRetentionDuration": "interval 1 hours", "delta.appendOnly": "true"}
    )
    assert first.metadata is not None
    assert first.metadata.configuration["delta.deletedFileRetentionDuration"] == "interval 3600 seconds"
    assert first.dropped == ["delta.appendOnly"]
