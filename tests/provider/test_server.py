"""What the recordings do not show of snapshots: times, limits, hints; and settings, and the server as a process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from aiohttp import web

from sharing_provider import Answer, ConfigError, Server, parse, tokens
from sharing_provider.config import REFERENCE_READER_FEATURES, S3, Table
from sharing_provider.tokens import RefreshToken
from tests.data import TABLES
from tests.provider import broken_tables
from tests.provider.asking import DELTA, Asker, adds_of, asking, refusal_of, share, version_of
from tests.servers.s3 import S3Server

PROGRAM = [sys.executable, "-m", "sharing_provider", "--config"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of `orders` with a commit each hour from 2024-01-01T00:00 on, the first two at the same time."""
    folder = tmp_path_factory.mktemp("orders")
    shutil.copytree(TABLES / "orders", folder, dirs_exist_ok=True)
    for commit in (folder / "_delta_log").glob("*.json"):
        modified = 1704067200 + 3600 * max(0, int(commit.stem) - 1)
        os.utime(commit, (modified, modified))
    return folder


@pytest.fixture(scope="module")
def ask(orders: Path) -> Iterator[Asker]:
    with asking(
        share(
            Table("orders", f"file://{orders}", "id-orders", history_shared=True),
            Table("since3", f"file://{orders}", history_shared=True, start_version=3),
            Table("dv_part", f"file://{TABLES / 'dv_part'}"),
            Table("cm_name", f"file://{TABLES / 'cm_name'}"),
            Table("nowhere", f"file://{orders}/nowhere"),
        )
    ) as ask:
        yield ask


@pytest.mark.parametrize(
    ("timestamp", "version"),
    [
        ("2024-01-01T00:00:00Z", "0"),
        ("2024-01-01T00:00:00.001Z", "1"),
        ("2024-01-01T01:59:59+01:00", "1"),
        ("2024-01-01T02:00:00Z", "3"),
        ("2024-01-01T05:00:00Z", "6"),
    ],
)
def test_a_time_means_the_last_commit_until_then(ask: Asker, timestamp: str, version: str) -> None:
    assert version_of(ask("POST", "orders/query", json={"timestamp": timestamp})) == version
    assert version_of(ask("GET", "orders/metadata", params={"timestamp": timestamp})) == version


@pytest.mark.parametrize(
    ("timestamp", "version"),
    [("2023-12-31T23:59:59Z", "0"), ("2024-01-01T00:00:00Z", "1"), ("2024-01-01T03:30:00Z", "5")],
)
def test_a_starting_time_means_the_first_commit_after_it(ask: Asker, timestamp: str, version: str) -> None:
    assert version_of(ask("GET", "orders/version", params={"startingTimestamp": timestamp})) == version


def test_times_outside_of_the_history_are_refused(ask: Asker, orders: Path) -> None:
    early = ask("POST", "orders/query", json={"timestamp": "2023-12-31T00:00:00Z"})
    assert refusal_of(early) == (
        f"400 MALFORMED_REQUEST: file://{orders}: The provided timestamp 1703980800000 ms (2023-12-31T00:00:00Z)"
        " is before the earliest available version 0."
        " Please use a timestamp greater than or equal to 1704067200000 ms (2024-01-01T00:00:00Z)."
    )
    late = ask("GET", "orders/version", params={"startingTimestamp": "2024-01-01T05:00:00Z"})
    assert refusal_of(late).endswith(
        "Cannot load table version 7 as it does not exist. The latest available version is 6."
    )
    unreadable = ask("GET", "orders/version", params={"startingTimestamp": "yesterday"})
    assert refusal_of(unreadable).startswith("400 INVALID_PARAMETER_VALUE: Invalid startingTimestamp: Text 'yesterday'")


def test_versions_before_the_start_version_are_not_listed(ask: Asker) -> None:
    refusal = "400 INVALID_PARAMETER_VALUE: You can only query table data since version 3."
    assert refusal_of(ask("POST", "since3/query", json={"version": 2})) == refusal
    assert refusal_of(ask("POST", "since3/query", json={"timestamp": "2024-01-01T00:30:00Z"})) == refusal
    assert version_of(ask("POST", "since3/query", json={"version": 3})) == "3"
    asked = {"startingTimestamp": "2024-01-01T00:00:00Z"}
    assert refusal_of(ask("GET", "since3/version", params=asked)).startswith(refusal)


def test_a_log_whose_start_was_cleaned_up(tmp_path: Path) -> None:
    shutil.copytree(TABLES / "v2ckpt", tmp_path / "t")
    for version in (0, 1, 2):
        for file in (tmp_path / "t" / "_delta_log").glob(f"{version:020d}.*"):
            file.unlink()
    with asking(share(Table("t", f"file://{tmp_path}/t", history_shared=True))) as ask:
        assert version_of(ask("GET", "t/version")) == "5"
        assert refusal_of(ask("POST", "t/query", json={"version": 1})).endswith(
            "Cannot load table version 1 as the transaction log has been truncated due to manual deletion or the"
            " log/checkpoint retention policy. The earliest available version is 4."
        )


def test_a_table_without_files(ask: Asker, orders: Path) -> None:
    for path in ("nowhere/version", "nowhere/metadata"):
        assert refusal_of(ask("GET", path)) == "400 RESOURCE_DOES_NOT_EXIST: table files missing"
    assert not (orders / "nowhere").exists()


def test_a_bucket_that_is_not_there_and_one_that_is_closed(s3: S3Server) -> None:
    bucket = s3.make_bucket("closed-to-us")
    tables = Table("gone", "s3://no-such-bucket/t"), Table("empty", f"s3://{bucket}/t")
    with asking(share(*tables, s3=S3(s3.endpoint, s3.region, s3.access_key, s3.secret_key))) as ask:
        for name in ("gone", "empty"):
            answer = ask("POST", f"{name}/query", json={})
            assert refusal_of(answer) == "400 RESOURCE_DOES_NOT_EXIST: table files missing"
    with asking(share(*tables, s3=S3(s3.endpoint, s3.region, s3.access_key, "wrong"))) as ask:
        answer = ask("POST", "empty/query", json={})
        assert refusal_of(answer) == "400 RESOURCE_DOES_NOT_EXIST: permission denied"


def test_a_limit_is_answered_with_just_enough_files(ask: Asker) -> None:
    everything = adds_of(ask("POST", "dv_part/query", json={}))
    some = adds_of(ask("POST", "dv_part/query", json={"limitHint": 10}))
    rows = [json.loads(a["stats"])["numRecords"] - a.get("deletionVector", {}).get("cardinality", 0) for a in some]
    assert sum(rows[:-1]) < 10 <= sum(rows)
    assert len(some) < len(everything)


def _column(name: str, kind: str) -> dict[str, Any]:
    return {"op": "column", "name": name, "valueType": kind}


def _literal(value: str, kind: str) -> dict[str, Any]:
    return {"op": "literal", "value": value, "valueType": kind}


def _op(op: str, *children: dict[str, Any]) -> dict[str, Any]:
    return {"op": op, "children": list(children)}


P, PD, PI = _column("p", "string"), _column("pd", "date"), _column("pi", "int")
ODD = "a b/c=%d"
EARLY, LATE = "2024-02-28", "2024-02-29"
ALL = [(None, LATE), (ODD, LATE), ("plain", EARLY), ("ünï", EARLY)]


@pytest.mark.parametrize(
    ("predicate", "partitions"),
    [
        pytest.param(_op("equal", P, _literal(ODD, "string")), [(ODD, LATE)], id="equal"),
        pytest.param(_op("isNull", P), [(None, LATE)], id="null"),
        pytest.param(_op("not", _op("equal", P, _literal("plain", "string"))), [ALL[1], ALL[3]], id="not"),
        pytest.param(_op("lessThan", PD, _literal(LATE, "date")), ALL[2:], id="less"),
        pytest.param(_op("greaterThanOrEqual", PD, _literal(LATE, "date")), ALL[:2], id="greater or equal"),
        pytest.param(_op("greaterThan", PI, _literal("10", "int")), [], id="as numbers, not as text"),
        pytest.param(_op("or", _op("isNull", P), _op("equal", P, _literal("plain", "string"))), ALL[::2], id="or"),
        pytest.param(
            _op("and", _op("isNull", P), _op("equal", _column("id", "long"), _literal("1", "long"))),
            ALL[:1],
            id="and: the part about partitions",
        ),
        pytest.param(_op("equal", _column("id", "long"), _literal("1", "long")), ALL, id="of no partition column"),
        pytest.param(_op("equal", _column("p", "int"), _literal("1", "int")), ALL, id="of another type"),
        pytest.param(_op("startsWith", P, _literal("a", "string")), ALL, id="not understood"),
        pytest.param({"op": "equal"}, ALL, id="incomplete"),
    ],
)
def test_a_json_predicate_leaves_out_partitions(
    ask: Asker, predicate: dict[str, Any], partitions: list[tuple[str | None, str]]
) -> None:
    adds = adds_of(ask("POST", "dv_part/query", json={"jsonPredicateHints": json.dumps(predicate)}))
    found = {(a["partitionValues"]["p"], a["partitionValues"]["pd"]) for a in adds}
    assert found == set(partitions)


def test_other_hints_are_accepted(ask: Asker) -> None:
    everything = adds_of(ask("POST", "orders/query", json={}))
    for hints in ({"predicateHints": ["country = 'DE'"]}, {"jsonPredicateHints": "garbage"}):
        assert len(adds_of(ask("POST", "orders/query", json=hints))) == len(everything)


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ({"beginningVersion": 0}, "400 MALFORMED_REQUEST: Object contains unknown field `beginningVersion`"),
        ({"version": -1}, "400 INVALID_PARAMETER_VALUE: table version cannot be negative."),
        ({"version": "x"}, "400 MALFORMED_REQUEST: Expected `int | null`, got `str` - at `$.version`"),
        (
            {"version": 1, "includeRefreshToken": True},
            "400 INVALID_PARAMETER_VALUE: includeRefreshToken cannot be used when querying a specific version.",
        ),
        (
            {"version": 1, "refreshToken": "x"},
            "400 INVALID_PARAMETER_VALUE: refreshToken cannot be used when querying a specific version.",
        ),
        ({"refreshToken": "garbage"}, "400 INVALID_PARAMETER_VALUE: Error decoding refresh token: garbage."),
    ],
)
def test_queries_that_are_refused(ask: Asker, body: dict[str, Any], refusal: str) -> None:
    assert refusal_of(ask("POST", "orders/query", json=body)) == refusal


def test_a_query_needs_no_body_but_json_where_it_says_so(ask: Asker) -> None:
    assert ask("POST", "orders/query").status_code == 200
    assert ask("POST", "orders/query", headers={"Content-Type": "application/json"}).status_code == 400


def test_a_refresh_token_is_good_for_its_table_and_for_a_while(ask: Asker) -> None:
    end = json.loads(ask("POST", "orders/query", json={"includeRefreshToken": True}).text.splitlines()[-1])
    token = end["endStreamAction"]["refreshToken"]
    assert refusal_of(ask("POST", "since3/query", json={"refreshToken": token})) == (
        "400 INVALID_PARAMETER_VALUE: The table specified in the refresh token does not match the table being queried."
    )
    old = tokens.encode(RefreshToken("id-orders", 6, 1))
    assert refusal_of(ask("POST", "orders/query", json={"refreshToken": old})) == (
        "400 INVALID_PARAMETER_VALUE: The refresh token has expired. Please restart the query."
    )


def test_capabilities_are_read_without_case_but_not_trimmed(ask: Asker) -> None:
    spaced = {"delta-sharing-capabilities": "responseformat=delta; readerfeatures=deletionvectors"}
    assert ask("POST", "dv_part/query", headers=spaced).status_code == 400
    upper = {"delta-sharing-capabilities": "responseFormat=Delta;READERFEATURES=deletionVectors;x;y="}
    assert ask("POST", "dv_part/query", headers=upper).status_code == 200
    empty = ask("POST", "orders/query", headers={"delta-sharing-capabilities": "responseformat="})
    assert empty.headers["delta-sharing-capabilities"] == "responseformat=parquet"


def test_an_unknown_file_id_hash_is_refused(ask: Asker) -> None:
    assert refusal_of(ask("POST", "orders/query", headers={"fileidhash": "crc"})) == (
        "400 INVALID_PARAMETER_VALUE: Unsupported fileidhash: 'crc'. Supported: parquet, delta"
    )


def test_a_feature_that_the_reference_server_refuses_can_be_allowed(tmp_path: Path) -> None:
    broken_tables.make(tmp_path)
    table = Table("variant", f"file://{tmp_path}/variant")
    features = REFERENCE_READER_FEATURES | {"variantType"}
    with asking(share(table, reader_features=features)) as ask:
        assert len(adds_of(ask("POST", "variant/query", json={}))) == 1


def test_a_server_can_be_made_to_misbehave(orders: Path) -> None:
    class Truncating(Server):
        async def send(self, request: web.Request, answer: Answer) -> web.StreamResponse:
            return await super().send(request, Answer(answer.headers, iter(list(answer.lines)[:3])))

    with asking(share(Table("t", f"file://{orders}")), Truncating) as ask:
        assert len(ask("POST", "t/query", json={}).text.splitlines()) == 3


def test_a_failure_in_the_middle_breaks_the_connection(orders: Path) -> None:
    class Failing(Server):
        async def send(self, request: web.Request, answer: Answer) -> web.StreamResponse:
            return await super().send(request, Answer(answer.headers, self._two_of(answer.lines)))

        def _two_of(self, lines: Iterator[bytes]) -> Iterator[bytes]:
            yield next(lines)
            yield next(lines)
            raise RuntimeError("the disk is gone")

    with asking(share(Table("t", f"file://{orders}")), Failing) as ask, pytest.raises(httpx.TransportError):
        ask("POST", "t/query", json={})


def test_unknown_settings_are_refused_with_a_sentence() -> None:
    for text, sentence in {
        "bearerToken: x\nshare: []": "the configuration cannot be used: Object contains unknown field `share`",
        "shares: []": "the configuration cannot be used: Object missing required field `bearerToken`",
        "bearerToken: [": "the configuration is not YAML: ",
        "bearerToken: x\nshares: [{name: s, schemas: [{name: d, tables: [{name: t, location: /t}]}]}]": (
            "the configuration cannot be used: Expected `str` matching regex '^(file:///|s3://)'"
        ),
    }.items():
        with pytest.raises(ConfigError) as refused:
            parse(text)
        assert str(refused.value).startswith(sentence)


def test_the_example_configuration_is_valid() -> None:
    example = Path(__file__).parents[2] / "examples" / "provider" / "provider.yaml"
    assert parse(example.read_text(encoding="utf-8")).shares


def test_the_program_says_where_it_listens_and_ends_when_told(orders: Path, tmp_path: Path) -> None:
    config = tmp_path / "provider.yaml"
    config.write_bytes(msgspec.yaml.encode(share(Table("orders", f"file://{orders}"))))
    with subprocess.Popen([*PROGRAM, config, "--port", "0"], stdout=subprocess.PIPE, env=ENVIRONMENT) as process:
        assert process.stdout
        endpoint = json.loads(process.stdout.readline())["endpoint"]
        answer = httpx.get(f"{endpoint}/shares", headers=DELTA)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    assert answer.json() == {"items": [{"name": "s"}]}


def test_the_program_explains_a_bad_configuration(tmp_path: Path) -> None:
    command = [*PROGRAM, str(tmp_path / "none.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert done.returncode == 2
    assert done.stderr == f"error: {tmp_path}/none.yaml cannot be read: No such file or directory\n"
