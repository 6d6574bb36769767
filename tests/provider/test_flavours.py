"""The other two kinds of server: a hosted one, where everything works on every table, and one from before `delta`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from botocore.config import Config as BotoConfig

from sharing_provider import ConfigError, Flavour, parse
from sharing_provider.config import S3, Schema, Share, Table, TemporaryCredentials
from tests.data import TABLES
from tests.provider import broken_tables
from tests.provider.asking import (
    CAPABILITIES,
    DELTA,
    Asker,
    Line,
    adds_of,
    asking,
    end_of,
    files_of,
    lines_of,
    refusal_of,
    share,
    version_of,
)
from tests.provider.hand_written import add, metadata, protocol, remove, vector, write
from tests.servers.s3 import S3Server

HOSTED, LEGACY = Flavour.HOSTED, Flavour.LEGACY
WITH_END = f"{CAPABILITIES};includeendstreamaction=true"
NAMES = ("dv_basic", "dv_part", "cm_id", "cdf", "v2ckpt", "orders")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    broken_tables.make(folder)
    return folder


@pytest.fixture(scope="module")
def hosted(made: Path) -> Iterator[Asker]:
    tables = [Table(name, f"file://{TABLES}/{name}", f"id-{name}", history_shared=True) for name in NAMES]
    tables += [Table(name, f"file://{made}/{name}", history_shared=True) for name in broken_tables.NAMES]
    config = share()
    config.shares[:] = [Share("s", [Schema("d", tables)], HOSTED)]
    with asking(config) as ask:
        yield ask


@pytest.fixture(scope="module")
def legacy() -> Iterator[Asker]:
    tables = [Table(n, f"file://{TABLES}/{n}", history_shared=True, flavour=LEGACY) for n in NAMES]
    with asking(share(*tables)) as ask:
        yield ask


def _metadata(answer: httpx.Response) -> Line:
    found: Line = lines_of(answer)[1]["metaData"]
    return found


def test_hosted_vectors_have_an_id_that_is_that_of_their_file(hosted: Asker) -> None:
    def ids() -> set[tuple[str, str]]:
        files = files_of(hosted.query("dv_basic"))
        with_vector = [f for f in files if "deletionVector" in f["deltaSingleAction"]["add"]]
        assert all(("deletionVectorFileId" in file) == (file in with_vector) for file in files)
        paths = [f["deltaSingleAction"]["add"]["deletionVector"]["pathOrInlineDv"].split("?")[0] for f in with_vector]
        return {(f["deletionVectorFileId"], path) for f, path in zip(with_vector, paths, strict=True)}

    found = ids()
    assert found == ids()
    assert len({i for i, _ in found}) == len({path for _, path in found}) == len(found) > 0


def test_a_hosted_server_passes_inline_vectors_on(hosted: Asker) -> None:
    (file,) = files_of(hosted.query("h_inline"))
    found = file["deltaSingleAction"]["add"]["deletionVector"]
    assert (found["storageType"], found["pathOrInlineDv"]) == ("i", broken_tables.INLINE)
    assert "deletionVectorFileId" not in file


def test_a_hosted_server_tells_the_size_of_a_table(hosted: Asker) -> None:
    adds = adds_of(hosted.query("dv_part"))
    expected = {"size": sum(add["size"] for add in adds), "numFiles": len(adds)}
    for answer in (hosted.query("dv_part"), hosted("GET", "dv_part/metadata")):
        about = _metadata(answer)
        assert {name: about[name] for name in expected} == expected
        assert not about.keys() & {"accessModes", "location"}
    parquet = hosted.query("orders", "responseformat=parquet")
    assert _metadata(parquet)["numFiles"] == len(lines_of(parquet)) - 2


def test_a_vector_that_is_replaced_in_a_range_is_a_removal_and_an_addition_with_one_id(hosted: Asker) -> None:
    by_key: dict[tuple[int, str], list[Line]] = {}
    for file in files_of(hosted.query("dv_basic", startingVersion=0)):
        by_key.setdefault((file["version"], file["id"]), []).append(file)
    pairs = [files for files in by_key.values() if len(files) == 2]
    assert pairs
    for files in pairs:
        actions = {kind: action for f in files for kind, action in f["deltaSingleAction"].items()}
        assert actions.keys() == {"add", "remove"}
        assert actions["add"]["path"] == actions["remove"]["path"]  # by which a client knows that it is one file
        assert actions["add"]["deletionVector"] != actions["remove"].get("deletionVector")
        assert actions["add"]["deletionVector"]["storageType"] == "p"


@pytest.mark.parametrize("table", ["dv_basic", "dv_part", "cm_id", "cdf", "v2ckpt"])
def test_hosted_ranges_and_pages_are_those_of_the_log(hosted: Asker, table: str) -> None:
    """Of every table that the reference server refuses them of."""
    expected = [
        (version, kind, action["dataChange"])
        for version, kind, action in _logged(TABLES / table)
        if kind in ("add", "remove") and action["dataChange"]
    ]
    answer = hosted.query(table, WITH_END, startingVersion=0)
    found = [
        (file["version"], kind, action["dataChange"])
        for file in files_of(answer)
        for kind, action in file["deltaSingleAction"].items()
    ]
    assert found == expected
    assert end_of(answer).keys() == {"minUrlExpirationTimestamp"}
    pages = [file for page in hosted.pages(table, startingVersion=0, maxFiles=2) for file in files_of(page)]
    assert len(pages) == len(expected)
    snapshot = {file["id"] for page in hosted.pages(table, maxFiles=2) for file in files_of(page)}
    assert snapshot == {file["id"] for file in files_of(hosted.query(table))}


def _logged(table: Path) -> Iterator[tuple[int, str, dict[str, Any]]]:
    for commit in sorted((table / "_delta_log").glob("0*.json")):
        if commit.stem.isdigit():
            for line in commit.read_text(encoding="utf-8").splitlines():
                ((kind, action),) = json.loads(line).items()
                yield int(commit.stem), kind, action


def test_hosted_changes_of_a_table_with_vectors(hosted: Asker) -> None:
    kinds = [next(iter(f["deltaSingleAction"])) for f in files_of(hosted.changes("cdf", startingVersion=0))]
    assert {"add", "remove", "cdc"} == set(kinds)


def test_hosted_ranges_show_the_protocols_on_the_way(tmp_path: Path) -> None:
    shown = vector("u", "ab^-aqEH.-t@S}K{vb[*k^", offset=4)
    commits = {
        0: [protocol(), metadata(), add("a")],
        1: [protocol("deletionVectors"), metadata(enableDeletionVectors="true")],
        2: [remove("a"), add("a", shown)],
    }
    table = Table("t", f"file://{write(tmp_path / 't', commits)}", history_shared=True, flavour=HOSTED)
    with asking(share(table)) as ask:
        lines = lines_of(ask.query("t", startingVersion=0, includeHistoricalProtocol=True))
    assert [(kind, value.get("version")) for line in lines for kind, value in line.items()] == [
        ("protocol", 0),
        ("metaData", 0),
        ("file", 0),
        ("protocol", 1),
        ("metaData", 1),
        ("file", 2),
        ("file", 2),
    ]
    assert lines[3]["protocol"]["deltaProtocol"]["readerFeatures"] == ["deletionVectors"]


def test_a_hosted_server_knows_all_reader_features_but_wants_them_declared(hosted: Asker) -> None:
    assert len(adds_of(hosted.query("variant", f"{CAPABILITIES},varianttype"))) == 1
    assert version_of(hosted("GET", "h_unk/version")) == "0"
    for table, feature in {"variant": "variantType", "dv_part": "delta.enableDeletionVectors"}.items():
        refused = hosted.query(table, "responseformat=delta")
        assert refused.status_code == 400
        body = refused.json()
        assert body["error_code"] == "INVALID_PARAMETER_VALUE"
        assert feature in body["message"]
        assert body["details"][0]["metadata"] == {"dsError": "DS_UNSUPPORTED_DELTA_TABLE_FEATURES"}


def test_a_hosted_refresh_token_means_its_version(tmp_path: Path) -> None:
    folder = write(tmp_path / "t", {0: [protocol(), metadata(), add("a")]})
    with asking(share(Table("t", f"file://{folder}", flavour=HOSTED))) as ask:
        token = end_of(ask.query("t", includeRefreshToken=True))["refreshToken"]
        write(folder, {1: [add("b")]})
        assert version_of(ask.query("t", refreshToken=token)) == "0"
        assert version_of(ask.query("t")) == "1"


def test_a_legacy_server_does_not_hear_of_capabilities(legacy: Asker) -> None:
    asked = {"delta-sharing-capabilities": WITH_END, "fileidhash": "crc"}
    for answer in (
        legacy("POST", "orders/query", json={}, headers=asked),
        legacy("POST", "orders/query", json={"maxFiles": 1, "includeRefreshToken": True}, headers=asked),
    ):
        protocol_line, metadata_line, *files = lines_of(answer)
        assert protocol_line == {"protocol": {"minReaderVersion": 1}}
        assert "schemaString" in metadata_line["metaData"]
        assert [next(iter(line)) for line in files] == ["file"] * 8
        assert all(len(line["file"]["id"]) == 32 and "expirationTimestamp" not in line["file"] for line in files)
        assert not answer.headers.keys() & {"delta-sharing-capabilities", "fileidhash"}


def test_a_legacy_server_has_versions_ranges_and_changes(legacy: Asker) -> None:
    files = [line["file"] for line in lines_of(legacy.query("orders", version=0))[2:]]
    assert {(file["version"], "timestamp" in file) for file in files} == {(0, True)}
    kinds = [next(iter(line)) for line in lines_of(legacy.query("orders", startingVersion=4))]
    assert kinds == ["protocol", "metaData", "add", "add", "remove", "remove", "add", "remove", *["add"] * 4]
    kinds = [next(iter(line)) for line in lines_of(legacy.changes("orders", startingVersion=5, maxFiles=1))]
    assert kinds == ["protocol", "metaData", "cdf", *["add"] * 4]


def test_a_legacy_server_cannot_open_newer_tables(legacy: Asker) -> None:
    for answer in (legacy("GET", "dv_part/version"), legacy("GET", "cm_id/metadata"), legacy.query("cdf")):
        assert refusal_of(answer).startswith("400 UNSUPPORTED_OPERATION: \nDelta protocol version (3,7) is too new")
    assert legacy("GET", "v2ckpt/version").status_code == 500


def test_a_table_may_be_of_another_flavour_than_its_share() -> None:
    text = """
bearerToken: token
shares:
  - name: s
    flavour: hosted
    schemas:
      - name: d
        tables:
          - {name: a, location: "file://TABLES/orders"}
          - {name: b, location: "file://TABLES/orders", flavour: legacy}
          - {name: c, location: "file://TABLES/orders", flavour: reference}
"""
    with asking(parse(text.replace("TABLES", str(TABLES)))) as ask:
        answers = {name: ask.query(name) for name in "abc"}
    assert {name: "numFiles" in _metadata(answer) for name, answer in answers.items()} == {
        "a": True,
        "b": False,
        "c": False,
    }
    assert [name for name in "abc" if "delta-sharing-capabilities" in answers[name].headers] == ["a", "c"]


@pytest.fixture(scope="module")
def directories(s3: S3Server) -> Iterator[Asker]:
    bucket = s3.make_bucket("with-directory-access")
    s3.upload_folder(bucket, "tables/orders", TABLES / "orders")
    location = f"s3://{bucket}/tables/orders"
    tables = [
        Table("t", location, history_shared=True, flavour=HOSTED, directory_access=True),
        Table("closed", location, history_shared=True, flavour=HOSTED),
        Table("unshared", location, flavour=HOSTED, directory_access=True),
    ]
    keys = S3(s3.endpoint, s3.region, s3.access_key, s3.secret_key)
    given = TemporaryCredentials(s3.access_key, s3.secret_key)  # this store refuses any session token
    with asking(share(*tables, s3=keys, temporary_credentials=given)) as ask:
        yield ask


def test_a_table_with_directory_access_says_so(directories: Asker) -> None:
    about = _metadata(directories("GET", "t/metadata"))
    location = "s3://with-directory-access/tables/orders"
    assert (about["accessModes"], about["location"]) == (["url", "dir"], location)
    assert "accessModes" not in _metadata(directories("GET", "closed/metadata"))
    listed = directories.client.get(f"{directories.endpoint}/shares/s/all-tables", headers=DELTA).json()["items"]
    assert {item["name"]: item.get("accessModes") for item in listed} == {
        "t": ["url", "dir"],
        "closed": None,
        "unshared": ["url", "dir"],
    }


def test_temporary_credentials_open_the_folder_of_the_table(directories: Asker, s3: S3Server) -> None:
    answer = directories("POST", "t/temporary-table-credentials")
    found = answer.raise_for_status().json()["credentials"]
    assert found.keys() == {"location", "awsTempCredentials", "expirationTime"}
    keys = found["awsTempCredentials"]
    client = boto3.client(
        "s3",
        endpoint_url=s3.endpoint,
        region_name=s3.region,
        aws_access_key_id=keys["accessKeyId"],
        aws_secret_access_key=keys["secretAccessKey"],
        aws_session_token=keys["sessionToken"] or None,
        config=BotoConfig(signature_version="s3v4", s3={"addressing_style": "path"}),
    )
    bucket, prefix = found["location"].removeprefix("s3://").split("/", 1)
    listed = client.list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/_delta_log/")["Contents"]
    assert len(listed) == 7


@pytest.mark.parametrize(
    ("location", "allowed"),
    [
        ("s3://with-directory-access/tables/orders", True),
        ("s3a://with-directory-access/tables/orders/", True),
        ("s3://with-directory-access/tables/orders/_delta_log", True),
        ("s3://with-directory-access/tables/orders2", False),
        ("s3://with-directory-access/tables/orders/../other", False),
        ("s3://with-directory-access", False),
        ("s3://another/tables/orders", False),
        ("gs://with-directory-access/tables/orders", False),
    ],
)
def test_temporary_credentials_are_for_the_table_alone(directories: Asker, location: str, allowed: bool) -> None:
    answer = directories("POST", "t/temporary-table-credentials", json={"location": location})
    if allowed:
        assert answer.raise_for_status().json()["credentials"]["location"] == location
    else:
        assert refusal_of(answer) == (
            "400 INVALID_PARAMETER_VALUE: The requested location must be the same as or under this table's"
            " configured storage location."
        )


def test_temporary_credentials_that_are_refused(directories: Asker) -> None:
    assert refusal_of(directories("POST", "closed/temporary-table-credentials")) == (
        "400 INVALID_PARAMETER_VALUE: Directory access is not enabled on table closed."
    )
    assert refusal_of(directories("POST", "unshared/temporary-table-credentials")) == (
        "400 INVALID_PARAMETER_VALUE: Temporary table credentials are not supported because history sharing is not"
        " enabled on table: s.d.unshared"
    )


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ("location: file:///t", "table t has directoryAccess, which needs a location in s3://"),
        ("location: s3://b/t", "table t has directoryAccess, which needs flavour: hosted"),
        ("location: s3://b/t, flavour: hosted", "table t has directoryAccess, and there are no temporaryCredentials"),
        ("location: s3://b/t, flavour: modern", "Invalid enum value 'modern'"),
    ],
)  # fmt: skip
def test_directory_access_that_cannot_be_given(table: str, sentence: str) -> None:
    shares = f"[{{name: s, schemas: [{{name: d, tables: [{{name: t, {table}, directoryAccess: true}}]}}]}}]"
    with pytest.raises(ConfigError, match=sentence):
        parse(f"bearerToken: x\nshares: {shares}")
