"""The lines of a sharing server's answers."""

from __future__ import annotations

import json

import pytest

from deltamirror.sharing.actions import Action, EndOfStream, SharedFile, TableMetadata, TableProtocol
from deltamirror.sharing.errors import AnswerBroken
from deltamirror.sharing.lines import parse
from tests.data import RECORDINGS


def recorded(table: str, name: str) -> bytes:
    lines = map(json.loads, (RECORDINGS / f"{table}.jsonl").read_text().splitlines())
    return next(str(r["body"]).encode() for r in lines if r["name"] == name)


def actions(body: bytes, response_format: str = "delta", chunk: int = 7) -> list[Action]:
    return list(parse((body[i : i + chunk] for i in range(0, len(body), chunk)), response_format))


def test_a_recorded_delta_answer() -> None:
    found = actions(recorded("dv_basic", "snapshot, delta"))
    assert [type(a) for a in found] == [TableProtocol, TableMetadata, SharedFile, EndOfStream]
    file = found[2]
    assert isinstance(file, SharedFile)
    assert file.deletion_vector is not None
    assert file.deletion_vector.storage_type == "p"
    assert file.stats is not None


def test_a_recorded_parquet_answer_gives_the_same_kinds() -> None:
    found = actions(recorded("orders", "snapshot, parquet"), "parquet")
    assert isinstance(found[0], TableProtocol)
    assert isinstance(found[1], TableMetadata)
    assert all(isinstance(a, SharedFile | EndOfStream) for a in found[2:])
    assert any(isinstance(a, SharedFile) and a.partition_values for a in found)


def test_lines_of_kinds_that_are_not_known_are_passed_over() -> None:
    assert actions(b'{"somethingNew": {"a": 1}}\n\n{"endStreamAction":{}}') == [EndOfStream()]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b'{"file":{"id":"1","deltaSingleAction":{"new":{}}}}', "no add, remove or cdc action"),
        (b'{"file":{"id":1}}', "line 1 of the provider's answer"),
        (b'{"file":', "line 1"),
        (b"\xff\xfe", "line 1"),
        (
            b'{"file":{"id":"1","deltaSingleAction":{"add":{"path":"https://x/?sig=SECRET","size":1,"partitionValues":{},'
            b'"deletionVector":{"storageType":"u","pathOrInlineDv":"SECRET","sizeInBytes":1,"cardinality":1}}}}}',
            "storage type 'u'",
        ),
    ],
)
def test_a_broken_line_is_an_error_that_tells_nothing_secret(line: bytes, sentence: str) -> None:
    with pytest.raises(AnswerBroken) as caught:
        actions(line)
    assert sentence in str(caught.value)
    assert "SECRET" not in str(caught.value)
