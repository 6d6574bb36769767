"""Ranges and changes: what happened between two versions, and what the reference server does not tell about it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from sharing_provider.config import Table
from tests.data import TABLES
from tests.provider.asking import (
    CAPABILITIES,
    Asker,
    Line,
    asking,
    files_of,
    lines_of,
    refusal_of,
    share,
    version_of,
)
from tests.provider.hand_written import add, change_file, checkpoint, commit_info, metadata, protocol, remove, write

PARQUET = "responseformat=parquet"
START = 1704067200
CDF = {"enableChangeDataFeed": "true"}
NO_ROWS = {"numTargetRowsInserted": "0", "numTargetRowsUpdated": "0", "numTargetRowsDeleted": "0"}
HISTORIES = {
    "evolving": {
        0: [protocol(), metadata(), add("a", tags={"k": "v"})],
        1: [metadata(appendOnly="false"), add("b")],
        2: [commit_info("OPTIMIZE"), remove("a", dataChange=False), add("c", dataChange=False)],
        3: [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 4}}, metadata(**CDF)],
        4: [add("d"), remove("b")],
    },
    "feed": {
        0: [protocol(), metadata(**CDF), add("a")],
        1: [commit_info("UPDATE"), remove("a"), change_file("_change_data/1"), add("b")],
        2: [commit_info("MERGE", **NO_ROWS), remove("b"), add("c")],
        3: [commit_info("MERGE", **NO_ROWS | {"numTargetRowsUpdated": "1"}), remove("c"), add("d")],
        4: [metadata(**CDF, appendOnly="false"), add("e", dataChange=False), add("f")],
    },
    "interrupted": {
        0: [protocol(), metadata(**CDF), add("a")],
        1: [metadata(), add("b")],
        2: [metadata(**CDF), add("c")],
    },
    "holey": {
        0: [protocol(), metadata(**CDF), add("a")],
        1: [add("b")],
        2: [add("c")],
        3: [add("d")],
    },
    "downgraded": {
        0: [protocol("deletionVectors"), metadata(), add("a")],
        1: [protocol(), add("b")],
    },
    "ancient": {0: [protocol(), metadata(), add("a")], 1: [{"remove": {"path": "a", "dataChange": True}}]},
}


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    folder = tmp_path_factory.mktemp("histories")
    for name, commits in HISTORIES.items():
        write(folder / name, commits)
        for commit in (folder / name / "_delta_log").glob("*.json"):  # a commit each hour
            os.utime(commit, (START + 3600 * int(commit.stem),) * 2)
    checkpoint(folder / "holey")  # readers of the newest version do not see the hole
    (folder / "holey" / "_delta_log" / f"{1:020d}.json").unlink()
    tables = [Table(name, f"file://{folder}/{name}", history_shared=True) for name in HISTORIES]
    data = [Table(name, f"file://{TABLES}/{name}", history_shared=True) for name in ("orders", "dv_part", "v2ckpt")]
    since = Table("since2", f"file://{folder}/feed", history_shared=True, start_version=2)
    unshared = Table("unshared", f"file://{folder}/feed")
    with asking(share(*tables, *data, since, unshared)) as ask:
        yield ask


def _actions(answer: httpx.Response) -> list[str]:
    """Each line as a word, with its version where it has one."""
    return [_word(line) for line in lines_of(answer)]


def _word(line: Line) -> str:
    ((kind, value),) = line.items()
    version = f" {value['version']}" if "version" in value else ""
    if kind == "file":
        ((kind, action),) = value["deltaSingleAction"].items()
        return f"{kind} {action['path'].split('?')[0].split('/')[-1]}{version}"
    if "url" in value:
        return f"{kind} {value['url'].split('?')[0].split('/')[-1]}{version}"
    return f"{kind}{version}"


def test_a_range_has_what_changed_data_and_the_metadata_on_the_way(ask: Asker) -> None:
    answer = ask.query("evolving", startingVersion=0)
    assert _actions(answer) == [
        "protocol",
        "metaData 0",
        "add a 0",
        "metaData 1",
        "add b 1",
        "metaData 3",
        "add d 4",
        "remove b 4",
    ]
    assert version_of(answer) == "0"


def test_a_range_starts_with_the_metadata_of_its_first_version(ask: Asker) -> None:
    answer = ask.query("evolving", startingVersion=3, endingVersion=3)
    assert _actions(answer) == ["protocol", "metaData 3"]
    assert version_of(answer) == "3"
    assert lines_of(answer)[1]["metaData"]["deltaMetadata"]["configuration"] == {"delta.enableChangeDataFeed": "true"}


def test_every_file_of_a_range_has_the_time_of_its_commit(ask: Asker) -> None:
    files = files_of(ask.query("evolving", startingVersion=0))
    assert [(file["version"], file["timestamp"]) for file in files] == [
        (version, (START + 3600 * version) * 1000) for version in (0, 1, 4, 4)
    ]


def test_protocols_on_the_way_are_shown_on_demand(ask: Asker) -> None:
    answer = ask.query("evolving", startingVersion=0, endingVersion=3, includeHistoricalProtocol=True)
    assert _actions(answer) == [
        "protocol 0",
        "metaData 0",
        "add a 0",
        "metaData 1",
        "add b 1",
        "protocol 3",
        "metaData 3",
    ]
    parquet = ask.query("evolving", PARQUET, startingVersion=0, endingVersion=3, includeHistoricalProtocol=True)
    assert [word for word in _actions(parquet) if "protocol" in word] == ["protocol"]


def test_a_range_in_the_parquet_format_has_lines_of_their_own(ask: Asker) -> None:
    answer = ask.query("evolving", PARQUET, startingVersion=3)
    assert _actions(answer) == ["protocol", "metaData 3", "add d 4", "remove b 4"]
    removed = lines_of(answer)[-1]["remove"]
    assert removed.keys() == {
        "url",
        "id",
        "expirationTimestamp",
        "partitionValues",
        "size",
        "version",
        "timestamp",
    }


def test_schemas_in_a_range_are_spelt_otherwise_than_in_its_head(ask: Asker) -> None:
    head, inside = (line["metaData"]["deltaMetadata"]["schemaString"] for line in _metadata(ask, "evolving"))
    assert head != inside
    assert json.loads(head) == json.loads(inside)


def _metadata(ask: Asker, table: str) -> list[Line]:
    lines = lines_of(ask.query(table, startingVersion=0, endingVersion=1))
    return [line for line in lines if "metaData" in line]


def test_tags_come_along_in_a_range_and_not_in_a_snapshot(ask: Asker) -> None:
    (add_in_range,) = files_of(ask.query("evolving", startingVersion=0, endingVersion=0))
    assert add_in_range["deltaSingleAction"]["add"]["tags"] == {"k": "v"}
    (add_in_snapshot,) = files_of(ask.query("evolving", version=0))
    assert "tags" not in add_in_snapshot["deltaSingleAction"]["add"]


def test_a_removal_without_size_has_no_line_in_the_parquet_format(ask: Asker) -> None:
    assert _actions(ask.query("ancient", startingVersion=1)) == ["protocol", "metaData 1", "remove a 1"]
    assert ask.query("ancient", PARQUET, startingVersion=1).status_code == 500


INVALID, UNSUPPORTED = "400 INVALID_PARAMETER_VALUE: ", "400 UNSUPPORTED_OPERATION: "
TOO_NEW = UNSUPPORTED + "\nDelta protocol version (3,7) is too new for this version of Delta\nStandalone"


@pytest.mark.parametrize(
    ("table", "body", "refusal"),
    [
        ("feed", {"startingVersion": 5}, INVALID + "Cannot time travel Delta table to version 5. Available versions: [0, 4]."),
        ("feed", {"startingVersion": -1}, INVALID + "startingVersion cannot be negative."),
        ("feed", {"startingVersion": 2, "version": 2}, INVALID + "Please only provide one of: version,timestamp,startingVersion"),
        ("feed", {"startingVersion": 2, "endingVersion": 1}, INVALID + "startingVersion(2) must be smaller than or equal to endingVersion(1)."),
        ("feed", {"startingVersion": 2, "endingVersion": 9}, INVALID + "Provided end version(9) is invalid. End version cannot be greater than the latest version of the table(4)."),
        ("feed", {"startingVersion": 2, "includeRefreshToken": True}, INVALID + "includeRefreshToken cannot be used when querying a specific version."),
        ("since2", {"startingVersion": 1}, INVALID + "You can only query table data since version 2."),
        ("unshared", {"startingVersion": 0}, INVALID + "Reading table by version or timestamp is not supported"),
        ("dv_part", {"startingVersion": 0}, TOO_NEW),
        ("dv_part", {"predicateHints": ["p = 'plain'"]}, TOO_NEW),
        ("dv_part", {"maxFiles": 5}, TOO_NEW),
        ("downgraded", {"startingVersion": 0}, TOO_NEW),
        ("v2ckpt", {"startingVersion": 5}, "500 INTERNAL_ERROR: "),
        ("holey", {"startingVersion": 0}, "500 INTERNAL_ERROR: "),
    ],
)  # fmt: skip
def test_ranges_that_are_refused(ask: Asker, table: str, body: dict[str, Any], refusal: str) -> None:
    assert refusal_of(ask.query(table, **body)).startswith(refusal)


def test_a_range_without_the_missing_commit_is_answered(ask: Asker) -> None:
    assert _actions(ask.query("holey", startingVersion=3)) == ["protocol", "metaData 3", "add d 3"]


def test_a_range_before_the_start_of_a_cleaned_up_log_is_refused(tmp_path: Path) -> None:
    shutil.copytree(TABLES / "dv_basic", tmp_path / "t")
    for version in range(5):
        (tmp_path / "t" / "_delta_log" / f"{version:020d}.json").unlink()
    write(tmp_path / "t", {11: [protocol()]})
    with asking(share(Table("t", f"file://{tmp_path}/t", history_shared=True))) as ask:
        assert refusal_of(ask.query("t", startingVersion=4)) == (
            INVALID + "Cannot time travel Delta table to version 4. Available versions: [5, 11]."
        )


def test_changes_are_change_files_where_there_are_any_and_else_files(ask: Asker) -> None:
    answer = ask.changes("feed", startingVersion=0)
    assert _actions(answer) == [
        "protocol",
        "metaData 4",
        "add a 0",
        "cdc 1 1",
        "remove c 3",
        "add d 3",
        "add f 4",
    ]
    assert version_of(answer) == "0"


def test_changes_with_the_metadata_of_then(ask: Asker) -> None:
    answer = ask.changes("feed", startingVersion=1, includeHistoricalMetadata="true", includeHistoricalProtocol="true")
    assert _actions(answer) == [
        "protocol 1",
        "metaData 1",
        "cdc 1 1",
        "remove c 3",
        "add d 3",
        "metaData 4",
        "add f 4",
    ]


def test_changes_in_the_parquet_format(ask: Asker) -> None:
    answer = ask.changes("feed", PARQUET, startingVersion=1, endingVersion=3)
    assert _actions(answer) == ["protocol", "metaData 4", "cdf 1 1", "remove c 3", "add d 3"]


@pytest.mark.parametrize(
    ("start", "end", "versions"),
    [
        ("2024-01-01T00:00:00Z", "2024-01-01T01:00:00Z", [0, 1]),
        ("2024-01-01T00:00:00.001Z", "2024-01-01T02:59:59Z", [1]),
        ("2024-01-01T01:30:00Z", "2024-01-01T04:00:00Z", [3, 3, 4]),
        ("2024-01-01T04:00:00Z", None, [4]),
    ],
)
def test_changes_between_two_times(ask: Asker, start: str, end: str | None, versions: list[int]) -> None:
    times = {"startingTimestamp": start, **({"endingTimestamp": end} if end else {})}
    assert [file["version"] for file in files_of(ask.changes("feed", **times))] == versions


def test_changes_until_after_the_end_are_those_until_the_end(ask: Asker) -> None:
    answer = ask.changes("feed", startingVersion=3, endingVersion=99)
    assert [file["version"] for file in files_of(answer)] == [3, 3, 4]


def test_changes_do_not_miss_a_commit_that_is_gone(ask: Asker) -> None:
    assert _actions(ask.changes("holey", startingVersion=0)) == [
        "protocol",
        "metaData 3",
        "add a 0",
        "add c 2",
        "add d 3",
    ]


@pytest.mark.parametrize(
    ("table", "parameters", "refusal"),
    [
        ("unshared", {}, INVALID + "cdf is not enabled on table s.d.unshared"),
        ("feed", {}, INVALID + "No startingVersion or startingTimestamp provided for CDF read."),
        ("feed", {"startingVersion": 0, "startingTimestamp": "x"}, INVALID + "Multiple starting arguments provided for CDF read."),
        ("feed", {"startingVersion": 0, "endingVersion": 1, "endingTimestamp": "x"}, INVALID + "Multiple ending arguments provided"),
        ("feed", {"startingVersion": "x"}, INVALID + "startingVersion is not a valid number."),
        ("feed", {"startingVersion": 2, "endingVersion": 1}, INVALID + "CDF range from start 2 to end 1 was invalid. End cannot be before start."),
        ("feed", {"startingVersion": 6}, INVALID + "Provided Start version(6) for reading change data is invalid. Start version cannot be greater than the latest version of the table(4)."),
        ("feed", {"startingTimestamp": "2024-01-01"}, INVALID + "Invalid startingTimestamp: Text '2024-01-01'"),
        ("feed", {"startingVersion": 0, "endingTimestamp": "soon"}, INVALID + "Invalid endingTimestamp: Text 'soon'"),
        ("feed", {"startingTimestamp": "2000-01-01T00:00:00Z"}, INVALID + "The provided timestamp (2000-01-01 00:00:00.0) is before the earliest version available to this\ntable (2024-01-01 00:00:00.0)."),
        ("feed", {"startingTimestamp": "2040-01-01T00:00:00.25Z"}, INVALID + "The provided timestamp (2040-01-01 00:00:00.25) is after the latest version available to this\ntable (2024-01-01 04:00:00.0)."),
        ("feed", {"startingVersion": 0, "maxFiles": 0}, INVALID + "maxFiles must be positive."),
        ("feed", {"startingVersion": 0, "maxFiles": "many"}, INVALID + "expected a number but the string didn't have the appropriate format"),
        ("since2", {"startingVersion": 1}, INVALID + "You can only query table changes since version 2."),
        ("evolving", {"startingVersion": 0}, INVALID + "Error getting change data for range [0, 4] as change data was not recorded for version [0]"),
        ("interrupted", {"startingVersion": 0}, INVALID + "Error getting change data for range [0, 2] as change data was not recorded for version [1]"),
        ("dv_part", {"startingVersion": 0}, TOO_NEW),
        ("holey", {"startingVersion": 1, "endingVersion": 1}, "500 INTERNAL_ERROR: "),
    ],
)  # fmt: skip
def test_changes_that_are_refused(ask: Asker, table: str, parameters: dict[str, Any], refusal: str) -> None:
    assert refusal_of(ask.changes(table, **parameters)).startswith(refusal)


def test_ids_follow_the_hash_that_was_asked_for(ask: Asker) -> None:
    ids = {}
    for name in ("delta", "parquet"):
        headers = {"delta-sharing-capabilities": CAPABILITIES, "fileidhash": name}
        answer = ask("GET", "feed/changes", params={"startingVersion": 4}, headers=headers)
        assert answer.headers["fileidhash"] == name
        ids[name] = {len(file["id"]) for file in files_of(answer)}
    assert ids == {"delta": {64}, "parquet": {32}}
