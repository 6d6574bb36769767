"""Signed URLs of tables on the local disk: good for one file, one method and a while, as those of a store are."""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

import httpx
import pytest
from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials

from deltamirror.store import S3Options
from sharing_provider import Config, Provider, serve
from sharing_provider.config import Schema, Share, Table
from sharing_provider.urls import S3Signer

ODD_NAMES = [
    "plain.parquet",
    "p=a b/c.parquet",
    "p=a%2Fb%3D%25c/c.parquet",
    "p=%252F/c.parquet",
    "p=ünï ☃/c.parquet",
    "p=q?x=1&y=2#z/c+d;e.parquet",
    "p='quoted\"/~!$(),:@[]{}|\\^`.parquet",
    "p=2024-01-01 10%3A00%3A00/c.parquet",
]
"""Names as they stand on the disk."""
CONTENT = bytes(range(256)) * 40


def _write_table(folder: Path, names: list[str]) -> None:
    adds = []
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(CONTENT)
        add = {"path": quote(name), "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
        adds.append({"add": add})
    metadata = {"id": "m", "format": {"provider": "parquet", "options": {}}, "partitionColumns": []}
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {**metadata, "schemaString": '{"type":"struct","fields":[]}', "configuration": {}}},
        *adds,
    ]
    log = folder / "_delta_log"
    log.mkdir()
    (log / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")


def _provider(folder: Path, lifetime: int) -> Iterator[Provider]:
    table = Table("t", f"file://{folder}")
    with serve(Config("token", [Share("s", [Schema("d", [table])])], lifetime)) as provider:
        yield provider


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd names")
    _write_table(folder, ODD_NAMES)
    return folder


@pytest.fixture(scope="module")
def provider(table: Path) -> Iterator[Provider]:
    yield from _provider(table, 3600)


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with httpx.Client() as client:
        yield client


def _urls(provider: Provider, client: httpx.Client) -> list[str]:
    answer = client.post(
        f"{provider.endpoint}/shares/s/schemas/d/tables/t/query",
        json={},
        headers={"Authorization": "Bearer token", "delta-sharing-capabilities": "responseformat=delta"},
    ).raise_for_status()
    files = [json.loads(line)["file"] for line in answer.text.splitlines()[2:]]
    return [file["deltaSingleAction"]["add"]["path"] for file in files]


@pytest.fixture
def url(provider: Provider, client: httpx.Client) -> str:
    return _urls(provider, client)[0]


def _refusal(answer: httpx.Response) -> str:
    assert answer.headers["content-type"].startswith("application/xml")
    found = re.search("<Code>(.+)</Code>", answer.text)
    assert found
    return f"{answer.status_code} {found.group(1)}"


def test_names_with_odd_characters_are_served_and_stay_the_end_of_the_url(
    provider: Provider, client: httpx.Client
) -> None:
    urls = _urls(provider, client)
    assert [unquote(urlsplit(url).path).removeprefix("/files/s/d/t/") for url in urls] == ODD_NAMES
    for url in urls:
        assert client.get(url).raise_for_status().content == CONTENT


def test_the_api_wants_a_token_and_files_do_not(provider: Provider, client: httpx.Client, url: str) -> None:
    assert client.get(f"{provider.endpoint}/shares").status_code == 401
    assert client.get(url).status_code == 200


def test_a_url_expires(table: Path, client: httpx.Client) -> None:
    for provider in _provider(table, lifetime=1):
        url = _urls(provider, client)[0]
        assert client.get(url).status_code == 200
        time.sleep(1.1)
        answer = client.get(url)
        assert _refusal(answer) == "403 AccessDenied"
        assert "Request has expired" in answer.text


def test_a_url_that_was_tampered_with_is_refused(provider: Provider, client: httpx.Client) -> None:
    one, other = (urlsplit(url) for url in _urls(provider, client)[:2])
    found = re.fullmatch("expires=([0-9]+)&X-Amz-Signature=([0-9a-f]+)", one.query)
    assert found
    expires, signature = found.groups()
    flipped = signature[:-1] + ("0" if signature[-1] != "0" else "1")
    for tampered in (
        one._replace(query=f"expires={expires}&X-Amz-Signature={flipped}"),
        one._replace(query=f"expires={int(expires) + 60_000}&X-Amz-Signature={signature}"),
        one._replace(query=f"expires={expires}"),
        one._replace(query=f"expires=never&X-Amz-Signature={signature}"),
        one._replace(query=""),
        one._replace(path=other.path),
        one._replace(path=one.path + "/"),
    ):
        assert _refusal(client.get(tampered.geturl())) == "403 SignatureDoesNotMatch"


def test_a_url_is_good_for_get_alone(client: httpx.Client, url: str) -> None:
    assert client.head(url).status_code == 403


def test_a_url_of_another_process_is_refused(table: Path, provider: Provider, client: httpx.Client, url: str) -> None:
    for other in _provider(table, 3600):
        moved = url.replace(provider.endpoint.split("/")[2], other.endpoint.split("/")[2])
        assert _refusal(client.get(moved)) == "403 SignatureDoesNotMatch"


@pytest.mark.parametrize("session_token", [None, "session/token+="])
def test_urls_of_a_bucket_are_signed_as_boto3_signs_them(
    session_token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = ReadOnlyCredentials("AKIA/KEY", "secret", session_token)
    s3 = S3Options(endpoint="http://store:9000", region="eu-central-1")
    signer = S3Signer(s3, keys, "s3://bucket/some where/", 900)
    auth = S3SigV4QueryAuth(keys, "s3", "eu-central-1", expires=900)
    for name in ODD_NAMES:
        own = urlsplit(signer.sign(name).url)
        moment = datetime.strptime(parse_qs(own.query)["X-Amz-Date"][0], "%Y%m%dT%H%M%SZ")
        monkeypatch.setattr("botocore.auth.get_current_datetime", lambda moment=moment: moment)
        request = AWSRequest("GET", f"http://store:9000/bucket/some%20where/{quote(name)}")
        auth.add_auth(request)
        theirs = urlsplit(str(request.url))
        assert (own.netloc, own.path, parse_qs(own.query)) == (theirs.netloc, theirs.path, parse_qs(theirs.query))


@pytest.mark.parametrize(
    ("wanted", "start", "end"),
    [("bytes=0-3", 0, 4), ("bytes=100-", 100, 10240), ("bytes=-4", 10236, 10240), ("bytes=10000-99999", 10000, 10240)],
)
def test_a_range_of_a_file(client: httpx.Client, url: str, wanted: str, start: int, end: int) -> None:
    answer = client.get(url, headers={"Range": wanted})
    assert answer.status_code == 206
    assert answer.headers["content-range"] == f"bytes {start}-{end - 1}/{len(CONTENT)}"
    assert answer.content == CONTENT[start:end]


def test_a_range_past_the_end(client: httpx.Client, url: str) -> None:
    answer = client.get(url, headers={"Range": "bytes=10240-"})
    assert answer.status_code == 416
    assert answer.headers["content-range"] == "bytes */10240"


def test_a_file_that_is_gone(tmp_path: Path, client: httpx.Client) -> None:
    _write_table(tmp_path, ["a.parquet"])
    (tmp_path / "a.parquet").unlink()
    for provider in _provider(tmp_path, 3600):
        assert _refusal(client.get(_urls(provider, client)[0])) == "404 NoSuchKey"


def test_a_log_cannot_share_what_lies_outside_of_its_table(tmp_path: Path, client: httpx.Client) -> None:
    (tmp_path / "table").mkdir()
    _write_table(tmp_path / "table", ["../secret", "a/../../secret"])
    for provider in _provider(tmp_path / "table", 3600):
        for url in map(urlsplit, _urls(provider, client)):
            # Sent as it is: most clients would resolve the dots themselves.
            connection = http.client.HTTPConnection(url.netloc)
            connection.request("GET", f"{url.path}?{url.query}")
            assert connection.getresponse().status == 404
            connection.close()
