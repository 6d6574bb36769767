"""The plan: which lines of the log and which files turn the mirror into its source."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest

from deltamirror.delta import commit
from deltamirror.delta import deletion_vector as dv
from deltamirror.delta.actions import Line
from deltamirror.mirror import state
from deltamirror.mirror.errors import FilterInvalid, SourceContradicts
from deltamirror.mirror.names import Names, is_ours
from deltamirror.mirror.plan import Entry, Plan, Planner
from deltamirror.mirror.settings import Settings
from deltamirror.mirror.state import MirrorState
from deltamirror.sharing import SharedDeletionVector, SharedFile, TableMetadata, TableName, TableProtocol
from deltamirror.store import open_store

SETTINGS = Settings(TableName("s", "d", "t"), "local/default/t", 3600, 7200)
UUID = "0b7558db-cbcc-4cd0-8a7f-dfdc0c335e55"
NAMES = Names("seed", "delta")
SCHEMA = (
    '{"type":"struct","fields":[{"name":"country","type":"string","nullable":true,"metadata":'
    '{"delta.columnMapping.physicalName":"col-1"}},{"name":"year","type":"integer","nullable":true,"metadata":{}}]}'
)


def file(id: str, vector: SharedDeletionVector | None = None, **changes: Any) -> SharedFile:
    base = SharedFile(id, f"https://x/{id}?sig=1", 10, {}, 1, '{"numRecords":5}', vector)
    return msgspec.structs.replace(base, **changes)


def vector(offset: int = 1, cardinality: int = 2, host: str = "https://x", **changes: Any) -> SharedDeletionVector:
    base = SharedDeletionVector("p", f"{host}/t/deletion_vector_{UUID}.bin?sig=1", 40, cardinality, offset)
    return msgspec.structs.replace(base, **changes)


class World:
    """A mirror in a folder, to which plans are committed as they are."""

    def __init__(self, folder: Path) -> None:
        self.store = open_store(f"file://{folder}", environment={})
        self.mirror: MirrorState | None = None

    def plan(self, *files: SharedFile, settings: Settings = SETTINGS, **metadata: Any) -> Plan:
        shared = msgspec.structs.replace(TableMetadata("id", SCHEMA, ["country", "year"], {}), **metadata)
        protocol = TableProtocol(3, 7, ["deletionVectors"], ["deletionVectors"])
        planner = Planner(self.mirror, protocol, shared, "delta", 1, settings, "seed", now_ms=1)
        for one in files:
            planner.take(one)
        return planner.finish()

    def commit(self, plan: Plan) -> World:
        version = self.mirror.version + 1 if self.mirror else 0
        lines = [Line(protocol=plan.protocol), Line(meta_data=plan.metadata)]
        lines += [Line(remove=remove) for remove in plan.gone]
        lines += [Line(remove=entry.cancels) for entry in plan.entries if entry.cancels]
        lines += [Line(add=entry.add) for entry in plan.entries]
        commit.write_commit(self.store, version, lines, str(uuid.uuid4()))
        self.mirror = state.load(self.store)
        return self

    def has(self, *files: SharedFile) -> World:
        return self.commit(self.plan(*files))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def entries(plan: Plan) -> list[Entry]:
    return list(plan.entries)


def test_the_first_plan_brings_everything(world: World) -> None:
    first = world.plan(file("a"), file("b", vector()))
    assert [e.add.path for e in first.entries] == [NAMES.data("a", 10), NAMES.data("b", 10)]
    assert all(e.copy for e in first.entries)
    assert [c.slices for c in first.vectors.values()] == [{(1, 40, 2)}]
    assert (first.files_to_copy, first.bytes_to_copy) == (2, 20)
    assert first.protocol is not None
    assert first.metadata is not None
    assert first.rows == 8


def test_nothing_new_is_an_empty_plan_even_under_other_urls(world: World) -> None:
    moved = vector(host="https://bucket.x")
    second = world.has(file("a"), file("b", vector())).plan(file("b", moved, url="https://y/b?sig=2"), file("a"))
    assert second.empty
    assert not second.vectors


def test_a_delete_copies_a_vector_and_no_data(world: World) -> None:
    second = world.has(file("a")).plan(file("a", vector()))
    assert second.files_to_copy == 0
    assert len(second.vectors) == 1
    [entry] = second.entries
    assert entry.cancels is not None
    assert entry.cancels.path == entry.add.path
    assert entry.cancels.deletion_vector is None
    assert entry.add.deletion_vector is not None


def test_a_replaced_vector_names_the_one_it_cancels(world: World) -> None:
    world.has(file("a", vector(offset=1))).has(file("a", vector(offset=49, cardinality=3)))
    assert world.mirror is not None
    [live] = world.mirror.files.values()
    assert live.vector is not None
    assert live.vector.cardinality == 3


def test_a_restore_takes_the_vector_away_again(world: World) -> None:
    second = world.has(file("a", vector())).plan(file("a"))
    assert not second.vectors
    world.commit(second)
    assert world.mirror is not None
    assert [live.vector for live in world.mirror.files.values()] == [None]


def test_a_file_whose_rows_are_all_deleted_stays_with_its_vector(world: World) -> None:
    assert world.plan(file("a", vector(cardinality=5))).rows == 0


def test_vectors_in_one_file_are_copied_once(world: World) -> None:
    first = world.plan(file("a", vector(1)), file("b", vector(49)))
    assert [c.slices for c in first.vectors.values()] == [{(1, 40, 2), (49, 40, 2)}]


def test_an_inline_vector_is_kept_inline(world: World) -> None:
    from tests.unit.test_deletion_vector import framed

    data = framed([1, 5, 9])[4:-4]
    data += b"\0" * (-len(data) % 4)
    inline = SharedDeletionVector("i", dv.z85_encode(data), len(data), 3)
    [entry] = world.plan(file("a", inline)).entries
    assert entry.add.deletion_vector is not None
    assert entry.add.deletion_vector.storage_type == "i"
    assert world.has(file("a", inline)).plan(file("a", inline)).empty


def test_a_vector_that_gets_another_name_is_compared_before_it_is_believed(world: World) -> None:
    """A server that starts to send deletionVectorFileId gives every vector a new identity."""
    second = world.has(file("a", vector())).plan(file("a", vector(file_id="new")))
    [entry] = second.entries
    assert entry.compare


def test_corrected_statistics_are_added_again_without_a_data_change(world: World) -> None:
    second = world.has(file("a"), file("b")).plan(file("a", stats='{"numRecords":5,"minValues":{}}'), file("b"))
    [entry] = second.entries
    assert not entry.add.data_change
    assert not entry.copy
    assert entry.cancels is None, "an add replaces what the log says of the same file"


def test_corrected_partition_values_are_added_again(world: World) -> None:
    second = world.has(file("a", partition_values={"p": ""})).plan(file("a", partition_values={"p": None}))
    assert [e.add.partition_values for e in second.entries] == [{"p": None}]


def test_a_file_that_left_is_removed(world: World) -> None:
    second = world.has(file("a"), file("b")).plan(file("b"))
    assert [r.path for r in second.gone] == [NAMES.data("a", 10)]


def test_a_file_never_changes_its_size(world: World) -> None:
    with pytest.raises(SourceContradicts, match="changed its size from 10 to 11"):
        world.has(file("a")).plan(file("a", size=11))


def test_a_vector_without_a_row_count_has_the_rows_counted(world: World) -> None:
    [entry] = world.plan(file("a", vector(), stats=None)).entries
    assert entry.count_rows


def test_rows_are_known_only_if_every_file_says_so(world: World) -> None:
    assert world.plan(file("a"), file("b", stats=None)).rows is None


def test_a_new_schema_is_written_with_the_same_commit(world: World) -> None:
    second = world.has(file("a")).plan(file("a"), schema_string='{"type":"struct","fields":[]}')
    assert second.metadata is not None
    assert not len(second.entries)


def test_retention_is_the_mirrors_own(world: World) -> None:
    first = world.plan(
        configuration={"delta.deletedFileRetentionDuration": "interval 1 hours", "delta.appendOnly": "true"}
    )
    assert first.metadata is not None
    assert first.metadata.configuration["delta.deletedFileRetentionDuration"] == "interval 3600 seconds"
    assert first.dropped == ["delta.appendOnly"]


def test_another_seed_gives_other_names() -> None:
    assert Names("a", "delta").data("f", 1) != Names("b", "delta").data("f", 1)
    assert is_ours(NAMES.data("f", 1))
    assert not is_ours("part-00000-something.parquet")


def equal(column: str, kind: str, value: str) -> dict[str, Any]:
    leaves = [{"op": "column", "name": column, "valueType": kind}, {"op": "literal", "value": value, "valueType": kind}]
    return {"op": "equal", "children": leaves}


def mirrored_ids(world: World, predicate: dict[str, Any]) -> set[str]:
    settings = Settings(TableName("s", "d", "t"), "local/default/t", partition_filter=predicate)
    files = [
        file("de", partition_values={"col-1": "DE", "year": "2024"}),
        file("fr", partition_values={"col-1": "FR", "year": "2025"}),
        file("null", partition_values={"col-1": None, "year": "9"}),
    ]
    return {entry.file_id for entry in world.plan(*files, settings=settings).entries}


@pytest.mark.parametrize(
    ("predicate", "ids"),
    [
        (equal("country", "string", "DE"), {"de"}),
        (equal("COUNTRY", "string", "DE"), {"de"}),
        ({"op": "not", "children": [equal("country", "string", "DE")]}, {"fr"}),
        ({**equal("year", "int", "2024"), "op": "greaterThan"}, {"fr"}),
        ({**equal("year", "int", "10"), "op": "lessThan"}, {"null"}),
        ({"op": "isNull", "children": [{"op": "column", "name": "country", "valueType": "string"}]}, {"null"}),
        ({"op": "or", "children": [equal("country", "string", "DE"), equal("year", "int", "9")]}, {"de", "null"}),
        ({"op": "and", "children": [equal("country", "string", "DE"), equal("year", "int", "9")]}, set()),
    ],
)
def test_the_partition_filter_is_typed_and_knows_physical_names(
    world: World, predicate: dict[str, Any], ids: set[str]
) -> None:
    assert mirrored_ids(world, predicate) == ids


@pytest.mark.parametrize(
    ("predicate", "sentence"),
    [
        (equal("city", "string", "Bonn"), "'city', which is no partition column"),
        (equal("year", "int", "soon"), "'soon' as int"),
        ({"op": "like", "children": []}, "'like' that is not known"),
        ({"children": []}, "without an 'op'"),
    ],
)
def test_a_filter_that_does_not_fit_stalls(world: World, predicate: dict[str, Any], sentence: str) -> None:
    with pytest.raises(FilterInvalid, match=sentence):
        mirrored_ids(world, predicate)
