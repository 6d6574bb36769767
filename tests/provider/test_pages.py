"""Pages of files: whole together, of one moment, and only for the query that they were begun with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sharing_provider import tokens
from sharing_provider.config import Table
from sharing_provider.tokens import PageToken
from tests.data import TABLES
from tests.provider.asking import CAPABILITIES, Asker, asking, end_of, files_of, lines_of, refusal_of, share, version_of
from tests.provider.hand_written import add, checkpoint, metadata, protocol, remove, write

CDF = {"enableChangeDataFeed": "true"}
INVALID = "400 INVALID_PARAMETER_VALUE: "


@pytest.fixture
def growing(tmp_path: Path) -> Path:
    """A table with files 0 to 6, the last of them in version 1."""
    first = [protocol(), metadata(**CDF), *(add(f"{number}") for number in range(6))]
    return write(tmp_path / "growing", {0: first, 1: [add("6")]})


@pytest.fixture
def ask(growing: Path) -> Iterator[Asker]:
    config = share(
        Table("t", f"file://{growing}", "id-t", history_shared=True),
        Table("orders", f"file://{TABLES}/orders", "id-orders", history_shared=True),
    )
    with asking(config) as ask:
        yield ask


def _ids(ask: Asker) -> list[str]:
    return sorted(file["id"] for file in files_of(ask.query("t")))


@pytest.mark.parametrize("size", [1, 3, 7, 8, 100])
def test_all_pages_together_are_the_snapshot(ask: Asker, size: int) -> None:
    whole = [file["id"] for file in files_of(ask.query("t"))]
    pages = [files_of(answer) for answer in ask.pages("t", maxFiles=size)]
    assert sorted(file["id"] for page in pages for file in page) == sorted(whole)
    assert len(pages) == -(-7 // size)
    assert all(len(page) == size for page in pages[:-1])


def test_every_page_has_a_head_and_an_end_that_nobody_asked_for(ask: Asker) -> None:
    for answer in ask.pages("t", maxFiles=3):
        protocol_line, metadata_line, *_, end_line = lines_of(answer)
        assert protocol_line.keys() | metadata_line.keys() == {"protocol", "metaData"}
        assert "minUrlExpirationTimestamp" in end_line["endStreamAction"]
        assert answer.headers["delta-sharing-capabilities"] == "responseformat=delta"
    asked = ask.query("t", f"{CAPABILITIES};includeendstreamaction=true", maxFiles=3)
    assert asked.headers["delta-sharing-capabilities"] == "responseformat=delta;includeendstreamaction=true"


def test_files_on_pages_are_those_of_delta_standalone(ask: Asker) -> None:
    (file, *_) = files_of(ask.query("t", maxFiles=1, version=1))
    shared = file["deltaSingleAction"]["add"]
    assert (file["version"], shared["dataChange"], shared["pathAsUri"]) == (1, False, shared["path"])
    assert "timestamp" in file
    (latest, *_) = files_of(ask.query("t", maxFiles=1))
    assert not latest.keys() & {"version", "timestamp"}


def test_a_commit_between_two_pages_is_not_seen(ask: Asker, growing: Path) -> None:
    before = _ids(ask)
    pages = ask.pages("t", maxFiles=2)
    ids = [file["id"] for file in files_of(next(pages))]
    write(growing, {2: [remove("0"), remove("5"), add("00")]})
    checkpoint(growing)
    for answer in pages:
        assert version_of(answer) == "1"
        ids += [file["id"] for file in files_of(answer)]
    assert sorted(ids) == before != _ids(ask)


def test_a_range_in_pages_ends_where_it_would_have_ended(ask: Asker, growing: Path) -> None:
    pages = ask.pages("t", startingVersion=0, maxFiles=3)
    versions = [file["version"] for file in files_of(next(pages))]
    write(growing, {2: [add("7")]})
    for answer in pages:
        assert version_of(answer) == "0"
        versions += [file["version"] for file in files_of(answer)]
    assert versions == [0] * 6 + [1]


def test_metadata_in_a_range_stands_on_one_page(tmp_path: Path) -> None:
    commits = {0: [protocol(), metadata()], 1: [add("a"), add("b")], 2: [metadata(**CDF)], 3: [add("c"), remove("a")]}
    table = Table("t", f"file://{write(tmp_path / 't', commits)}", history_shared=True)
    with asking(share(table)) as ask:
        pages = list(ask.pages("t", startingVersion=0, maxFiles=1))
    kinds = [[next(iter(line)) for line in lines_of(answer)[2:-1]] for answer in pages]
    assert kinds == [["file"], ["file", "metaData"], ["file"], ["file"]]


def test_changes_in_pages(ask: Asker) -> None:
    whole = files_of(ask.changes("orders", startingVersion=0))
    found = files_of(answer := ask.changes("orders", startingVersion=0, maxFiles=4))
    while token := end_of(answer).get("nextPageToken"):
        found += files_of(answer := ask.changes("orders", startingVersion=0, maxFiles=4, pageToken=token))
    assert [(f["id"], f["version"]) for f in found] == [(f["id"], f["version"]) for f in whole]


def test_a_page_has_ten_thousand_files_at_most(tmp_path: Path) -> None:
    adds = [add(f"{number:05d}") for number in range(10_001)]
    write(tmp_path / "many", {0: [protocol(), metadata(), *adds]})
    with asking(share(Table("many", f"file://{tmp_path}/many"))) as ask:
        sizes = [len(files_of(answer)) for answer in ask.pages("many", maxFiles=50_000)]
    assert sizes == [10_000, 1]


def test_a_limit_does_not_shorten_a_page(ask: Asker) -> None:
    assert len(files_of(ask.query("t", limitHint=1))) == 1
    assert len(files_of(ask.query("t", limitHint=1, maxFiles=5))) == 5


@pytest.mark.parametrize(
    "changed",
    [{"limitHint": 5}, {"version": 1}, {"startingVersion": 0}, {"predicateHints": ["x"]}, {"jsonPredicateHints": "x"}],
)
def test_a_page_of_another_query_is_refused(ask: Asker, changed: dict[str, Any]) -> None:
    token = end_of(ask.query("t", maxFiles=2))["nextPageToken"]
    assert len(files_of(ask.query("t", maxFiles=3, pageToken=token))) == 3  # the size is no part of the query
    assert refusal_of(ask.query("t", pageToken=token, **changed)) == (
        INVALID + "Query parameter mismatch detected for the next page query. The query parameter\n"
        "cannot change when querying the next page results."
    )


def test_page_tokens_that_are_refused(ask: Asker) -> None:
    token = end_of(ask.query("t", maxFiles=2))["nextPageToken"]
    assert refusal_of(ask.query("orders", pageToken=token)) == (
        INVALID + "The table specified in the page token does not match the table being queried."
    )
    assert refusal_of(ask.query("t", pageToken="garbage")) == INVALID + "Error decoding the page token: garbage."
    old = tokens.encode(msgspec.structs.replace(tokens.decode(token, PageToken), expires=1))
    expired = INVALID + "The page token has expired. Please restart the query."
    assert refusal_of(ask.query("t", pageToken=old)) == expired
    assert refusal_of(ask.changes("t", startingVersion=0, pageToken=old)) == expired


def test_tokens_that_do_not_go_together(ask: Asker) -> None:
    first = " must be used in the first page request."
    refused = ask.query("t", pageToken="x", includeRefreshToken=True)
    assert refusal_of(refused) == f"{INVALID}includeRefreshToken{first}"
    assert refusal_of(ask.query("t", pageToken="x", refreshToken="x")) == f"{INVALID}refreshToken{first}"
    assert refusal_of(ask.query("t", maxFiles=0)) == INVALID + "maxFiles must be positive."


def test_a_refresh_token_counts_in_pages_and_only_there(ask: Asker, growing: Path) -> None:
    token = end_of(ask.query("t", includeRefreshToken=True))["refreshToken"]
    write(growing, {2: [add("7")]})
    assert version_of(ask.query("t", refreshToken=token, maxFiles=100)) == "1"
    assert version_of(ask.query("t", refreshToken=token, predicateHints=["x"])) == "1"
    assert version_of(ask.query("t", refreshToken=token)) == "2"


def test_a_time_outside_of_the_history_is_refused_in_the_words_of_delta_standalone(ask: Asker) -> None:
    answer = ask.query("t", maxFiles=2, timestamp="2000-01-01T00:00:00Z")
    assert refusal_of(answer).startswith(INVALID + "The provided timestamp (2000-01-01 00:00:00.0) is before")
