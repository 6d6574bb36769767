"""The provider against the reference server: every recorded request again, on the same tables.

Compared are status, headers and body. Aside are what cannot be the same: the host and the query string of signed
URLs, their expiry (which must lie within the next hour), the text of tokens, the order of file lines and with it
which of them come first in pages, and in messages the table's location and the time of its last commit.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec
import pytest

from sharing_provider import Config, Provider, serve
from sharing_provider.config import S3, Schema, Share, Table
from tests.data import RECORDINGS as RECORDINGS_FOLDER
from tests.data import TABLES
from tests.provider import broken_tables
from tests.servers.s3 import S3Server

RECORDED = sorted(RECORDINGS_FOLDER.glob("*.jsonl"))
TOKEN = "a-token"
LIFETIME = 3600
HEADERS = ("delta-table-version", "content-type", "delta-sharing-capabilities", "fileidhash")
PAGES = ("first page of 2", "second page of 2")
LOCATIONS = {"nohist": "orders"}
"""Tables whose files are those of another one."""


class Request(msgspec.Struct, frozen=True):
    method: str
    path: str
    params: dict[str, Any] | None
    body: dict[str, Any] | None
    headers: dict[str, str]
    authorized: bool

    @property
    def table(self) -> str | None:
        found = re.search("/tables/([^/]+)/", self.path)
        return found.group(1) if found else None


class Recording(msgspec.Struct, frozen=True):
    name: str
    request: Request
    status: int
    headers: dict[str, str]
    body: str


def _recordings() -> Iterator[Any]:
    for file in RECORDED:
        for line in file.read_bytes().splitlines():
            recording = msgspec.json.decode(line, type=Recording)
            yield pytest.param(recording, id=f"{file.stem}: {recording.name}")


RECORDINGS = list(_recordings())


@dataclass(frozen=True)
class Served:
    provider: Provider
    client: httpx.Client
    url_prefix: str
    """What comes before the path of a file below its table, in the path of a signed URL."""

    def ask(self, recording: Recording, **changed: Any) -> httpx.Response:
        request = recording.request
        headers = dict(request.headers)
        if request.authorized:
            headers["Authorization"] = f"Bearer {TOKEN}"
        elif recording.name == "wrong token":
            headers["Authorization"] = "Bearer another-token"
        return self.client.request(
            request.method,
            self.provider.endpoint + request.path,
            params={**(request.params or {}), **changed.get("params", {})},
            json=None if request.body is None else {**request.body, **changed.get("body", {})},
            headers=headers,
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    shutil.copytree(TABLES, folder, dirs_exist_ok=True)
    broken_tables.make(folder)
    _set_commit_times(folder)
    return folder


def _set_commit_times(folder: Path) -> None:
    """To those of the recorded store, which had all commits of a table within one second."""
    for param in RECORDINGS:
        recording: Recording = param.values[0]
        if recording.name != "range from 0" or recording.status != 200:
            continue
        files = [json.loads(line)["file"] for line in recording.body.splitlines()[2:-1]]
        seconds = files[0]["timestamp"] // 1000
        for commit in (folder / (recording.request.table or "") / "_delta_log").glob("*.json"):
            os.utime(commit, (seconds, seconds))


@pytest.fixture(scope="module", params=["folder", "bucket"])
def served(request: pytest.FixtureRequest, folder: Path) -> Iterator[Served]:
    root, s3, prefix = f"file://{folder}", S3(), "/files/s/d/{table}/"
    if request.param == "bucket":
        server: S3Server = request.getfixturevalue("s3")
        bucket = server.make_bucket("recorded-tables")
        server.upload_folder(bucket, "some/where", folder)
        _set_commit_times(server.folder / "buckets" / bucket / "some" / "where")
        root, prefix = f"s3://{bucket}/some/where", f"/{bucket}/some/where/{{location}}/"
        s3 = S3(server.endpoint, server.region, server.access_key, server.secret_key)
    config = Config(TOKEN, [Share("s", [Schema("d", _tables(root))])], LIFETIME, s3=s3)
    with serve(config) as provider, httpx.Client() as client:
        yield Served(provider, client, prefix)


def _tables(root: str) -> list[Table]:
    """All tables that the recorded server shared, in its order; not all of them are here."""
    listing = next(p.values[0] for p in RECORDINGS if p.id == "catalog: list all tables")
    items = json.loads(listing.body)["items"]
    return [
        Table(i["name"], f"{root}/{LOCATIONS.get(i['name'], i['name'])}", i["id"], i["name"] != "nohist") for i in items
    ]


@pytest.mark.parametrize("recording", RECORDINGS)
def test_the_answer_is_the_recorded_one(recording: Recording, served: Served) -> None:
    answer = served.ask(recording, **_own_tokens(recording, served))

    assert answer.status_code == recording.status
    assert {h: answer.headers.get(h) for h in HEADERS} == {h: recording.headers.get(h) for h in HEADERS}
    table = recording.request.table or ""
    location = LOCATIONS.get(table, table)
    if recording.headers.get("content-type", "").startswith("application/x-ndjson"):
        prefix = served.url_prefix.format(table=table, location=location)
        recorded, lines = _lines(recording.body, f"/src/{location}/", timely=False), _lines(answer.text, prefix)
        if recording.name in PAGES:
            everything = _lines("\n".join(_all_pages(table, served)), prefix)
            assert recorded[2].items() <= everything[2].items()
            assert len(recorded[2]) == len(lines[2])
            recorded[2] = lines[2] = "files"
        assert lines == recorded
    elif recording.body.startswith("{"):
        assert _plain(answer.json()) == _plain(json.loads(recording.body))
    else:
        assert answer.text == recording.body


def test_no_recording_is_left_out() -> None:
    stored = sum(len(file.read_bytes().splitlines()) for file in RECORDED)
    assert len(RECORDINGS) == stored == 414


@pytest.mark.parametrize(
    "recording", [pytest.param(p.values[0], id=p.id) for p in RECORDINGS if p.values[0].name == "snapshot, delta"]
)
def test_every_url_gives_the_bytes_that_the_line_promises(recording: Recording, served: Served, folder: Path) -> None:
    table = recording.request.table or ""
    root = folder / LOCATIONS.get(table, table)
    for line in served.ask(recording).text.splitlines()[2:-1]:
        add = json.loads(line)["file"]["deltaSingleAction"]["add"]
        content = served.client.get(add["path"]).raise_for_status().content
        assert len(content) == add["size"]
        assert content[:4] == content[-4:] == b"PAR1"
        if vector := add.get("deletionVector"):
            name = urlsplit(vector["pathOrInlineDv"]).path.rpartition("/")[2]
            content = served.client.get(vector["pathOrInlineDv"]).raise_for_status().content
            assert content == (root / name).read_bytes()


def _own_tokens(recording: Recording, served: Served) -> dict[str, dict[str, str]]:
    """Where a recorded request hands back a token of the recorded server: one of ours, asked for first."""
    match recording.name:
        case "refresh":
            first = served.ask(_named("snapshot with a refresh token", recording.request.table))
            return {"body": {"refreshToken": _end(first)["refreshToken"]}}
        case "second page of 2":
            first = served.ask(_named("first page of 2", recording.request.table))
            return {"body": {"pageToken": _end(first)["nextPageToken"]}}
        case "list tables, second page":
            first = served.ask(_named("list tables, pages of 5", None))
            return {"params": {"pageToken": first.json()["nextPageToken"]}}
    return {}


def _all_pages(table: str, served: Served) -> Iterator[str]:
    """The lines of all pages, without repeating what every page starts and ends with."""
    page = _named("first page of 2", table)
    answer = served.ask(page)
    yield from answer.text.splitlines()[:-1]
    while token := _end(answer).get("nextPageToken"):
        answer = served.ask(page, body={"pageToken": token})
        yield from answer.text.splitlines()[2:-1]


def _named(name: str, table: str | None) -> Recording:
    found: Recording = next(
        p.values[0] for p in RECORDINGS if p.values[0].name == name and p.values[0].request.table == table
    )
    return found


def _end(answer: httpx.Response) -> dict[str, str]:
    end: dict[str, str] = json.loads(answer.text.splitlines()[-1])["endStreamAction"]
    return end


def _lines(body: str, url_prefix: str, timely: bool = True) -> list[Any]:
    """The lines of an answer in their order, but the files as one value."""
    found: list[Any] = []
    files: dict[tuple[str, int | None, str], Any] = {}
    for line in map(json.loads, body.splitlines()):
        (kind,) = line
        if kind == "file":
            file = _plain(line["file"], url_prefix, timely)
            (action,) = file.get("deltaSingleAction", {"add": None})
            key = file["id"], file.get("version"), action
            assert key not in files
            files[key] = file
            if files not in found:
                found.append(files)
        else:
            found.append({kind: _plain(line[kind], url_prefix, timely)})
    return found


def _plain(value: Any, url_prefix: str = "", timely: bool = False, key: str = "") -> Any:
    """A JSON value without what differs between any two servers."""
    match value:
        case dict():
            return {k: _plain(v, url_prefix, timely, k) for k, v in value.items()}
        case list():
            items = [_plain(item, url_prefix, timely) for item in value]
            return sorted(items) if key in ("readerFeatures", "writerFeatures") else items
        case str() if key in ("refreshToken", "nextPageToken"):
            return f"a {key}"
        case str() if key == "message":
            return _plain_message(value)
        case str() if value.startswith("http"):
            path = urlsplit(value).path
            assert path.startswith(url_prefix)
            return path.removeprefix(url_prefix)
        case int() if key in ("expirationTimestamp", "minUrlExpirationTimestamp"):
            now = time.time()
            assert not timely or now < value / 1000 <= now + LIFETIME
            return "an expiry"
    return value


def _plain_message(text: str) -> str:
    text = re.sub(r"(s3a?|file)://[^ `:]*/", "", text)
    return re.sub(r"or equal to \d+ ms \([^)]+Z\)", "or equal to that of the last commit", text)
