"""Every recorded answer of the reference server, through the client: the right actions, or the right error."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from deltamirror.delta import features
from deltamirror.sharing import (
    Changes,
    CredentialsRejected,
    HistoryNotShared,
    NotShared,
    Profile,
    ProviderBroken,
    Query,
    RequestRefused,
    SharingClient,
    SharingError,
    TableName,
    transport,
)
from deltamirror.sharing.actions import ChangeFile, RemovedFile, SharedFile
from deltamirror.sharing.catalog import Schema, Share, Table
from tests.data import RECORDINGS
from tests.servers.replay import Replay, replaying

RECORDED = [
    pytest.param(json.loads(line), id=f"{path.stem}: {json.loads(line)['name']}")
    for path in sorted(RECORDINGS.glob("*.jsonl"))
    for line in path.read_text().splitlines()
]


@pytest.fixture(scope="module")
def replay() -> Iterator[Replay]:
    with replaying() as replay:
        yield replay


def test_all_recordings_are_here() -> None:
    assert len(RECORDED) == 414


@pytest.mark.parametrize("recording", RECORDED)
def test_a_recorded_answer(recording: dict[str, Any], replay: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "BACKOFF", 0.001)
    replay.recording = _single_page(recording)
    profile = Profile.from_dict({"shareCredentialsVersion": 1, "endpoint": replay.endpoint, "bearerToken": "t"})
    with SharingClient(profile, features.readable()) as client:
        if recording["status"] != 200:
            with pytest.raises(_error_class(recording)) as caught:
                _ask(client, recording["request"])
            code = json.loads(recording["body"]).get("errorCode") if recording["body"].startswith("{") else None
            assert caught.value.error_code == code
        else:
            answer = _ask(client, recording["request"])
            assert answer == _truth(recording)


def _error_class(recording: dict[str, Any]) -> type[SharingError]:
    match recording["status"]:
        case 401:
            return CredentialsRejected
        case 404:
            return NotShared
        case 500:
            return ProviderBroken
        case _:
            unshared = (
                "history sharing is not enabled" in recording["body"] or "cdf is not enabled" in recording["body"]
            )
            return HistoryNotShared if unshared else RequestRefused


def _ask(client: SharingClient, request: dict[str, Any]) -> Any:
    """Asks with the client's own methods for what was asked when it was recorded; a summary of what came back."""
    parts = request["path"].strip("/").split("/")
    params, body = request["params"] or {}, request["body"] or {}
    if len(parts) < 7:
        return _ask_catalog(client, parts)
    table = TableName(parts[1], parts[3], parts[5])
    match parts[6]:
        case "version":
            return client.version(table)
        case "metadata":
            found = client.metadata(table, params.get("version"))
            return found.version, found.metadata.id, found.metadata.schema_string, found.protocol.min_reader_version
        case "query":
            known = {"version", "startingVersion", "endingVersion", "maxFiles", "includeHistoricalProtocol"}
            names = {"startingVersion": "starting_version", "endingVersion": "ending_version", "maxFiles": "max_files"}
            query = Query(**{names.get(k, k): v for k, v in body.items() if k in known and k in {"version", *names}})
            answer = client.retried(lambda deadline: _files(client.query(table, query, deadline)))
        case "changes":
            start, end = params.get("startingVersion"), params.get("endingVersion")
            changes = Changes(starting_version=start, ending_version=end)
            answer = client.retried(lambda deadline: _files(client.changes(table, changes, deadline)))
    return answer


def _ask_catalog(client: SharingClient, parts: list[str]) -> Any:
    if len(parts) == 2:
        return [client.share(parts[1]).name]
    listing: Iterator[Share | Schema | Table]
    match parts[2:]:
        case []:
            listing = client.shares()
        case ["schemas"]:
            listing = client.schemas(parts[1])
        case ["all-tables"]:
            listing = client.all_tables(parts[1])
        case _:
            listing = client.tables(parts[1], parts[3])
    return [item.name for item in listing]


def _files(answer: Any) -> Any:
    summary: Counter[tuple[Any, ...]] = Counter()
    for action in answer.actions():
        match action:
            case SharedFile():
                vector = action.deletion_vector
                deleted = (vector.cardinality, vector.offset) if vector else None
                summary["add", action.id, action.size, deleted, action.stats is None, action.version] += 1
            case RemovedFile():
                summary["remove", action.id, action.size, action.version] += 1
            case ChangeFile():
                summary["cdc", action.id, action.size, action.version] += 1
    return answer.version, answer.metadata.id, summary


def _single_page(recording: dict[str, Any]) -> dict[str, Any]:
    """The recording without a token of a next page: it would be replayed for ever."""
    return {**recording, "body": re.sub(r'"nextPageToken":\s*"[^"]*"', '"nextPageToken":""', recording["body"])}


def _truth(recording: dict[str, Any]) -> Any:
    """The same summary, made from the recorded text alone."""
    path = recording["request"]["path"]
    if path.endswith("/version"):
        return int(recording["headers"]["delta-table-version"])
    if "/tables/" not in path:
        content = json.loads(recording["body"])
        return [content["share"]["name"]] if "share" in content else [item["name"] for item in content.get("items", [])]
    lines = [json.loads(line) for line in recording["body"].splitlines()]
    version = int(recording["headers"]["delta-table-version"])
    metadata = next(line["metaData"] for line in lines if "metaData" in line)
    metadata = metadata.get("deltaMetadata", metadata)
    if path.endswith("/metadata"):
        protocol = next(line["protocol"] for line in lines if "protocol" in line)
        reader = protocol.get("deltaProtocol", protocol)["minReaderVersion"]
        return version, metadata["id"], metadata["schemaString"], reader
    summary: Counter[tuple[Any, ...]] = Counter()
    for line in lines:
        for kind in ("file", "add", "remove", "cdf"):
            if kind in line:
                summary[_truth_of_file(kind, line[kind])] += 1
    return version, metadata["id"], summary


def _truth_of_file(kind: str, file: dict[str, Any]) -> tuple[Any, ...]:
    action = file.get("deltaSingleAction")
    if action is None:
        if kind in ("file", "add"):
            return "add", file["id"], file["size"], None, file.get("stats") is None, file.get("version")
        return ("cdc" if kind == "cdf" else kind), file["id"], file["size"], file.get("version")
    [(name, content)] = action.items()
    if name != "add":
        return name, file["id"], content.get("size"), file.get("version")
    vector = content.get("deletionVector")
    deleted = (vector["cardinality"], vector.get("offset")) if vector else None
    return "add", file["id"], content["size"], deleted, content.get("stats") is None, file.get("version")
