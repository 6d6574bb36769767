"""The official Python client on the provider: it reads the rows that Spark counted when the tables were made."""

from __future__ import annotations

import json
import subprocess
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import tools
from sharing_provider import Config, Flavour, Provider, serve
from sharing_provider.config import Schema, Share, Table
from tests.data import TABLES, expected

SNAPSHOTS = ["dv_basic", "dv_part", "cm_name", "cm_id"]
FEEDS = ["cdf_nodv", "orders", "cdf"]
# Calls a function of the client for each line of its input, a list of arguments; rows come back as text.
PROGRAM = """
import contextlib, json, sys
import delta_sharing

def rows(frame, **more):
    values = frame.astype(str).values.tolist() if more.get("values") else None
    return {"count": len(frame), "columns": list(frame.columns), "rows": values}

profile = sys.argv[1]
for line in sys.stdin:
    function, table, arguments = json.loads(line)
    url = f"{profile}#{table}"
    with contextlib.redirect_stdout(sys.stderr):  # the client prints
        try:
            if function == "list_all_tables":
                found = [[t.share, t.schema, t.name] for t in delta_sharing.SharingClient(profile).list_all_tables()]
            elif function == "get_table_version":
                found = delta_sharing.get_table_version(url, **arguments)
            else:
                found = rows(getattr(delta_sharing, function)(url, **arguments), values="changes" in function)
        except Exception as error:
            found = {"error": str(error)}
    print(json.dumps(found), flush=True)
"""


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    tables = [Table(name, f"file://{TABLES / name}", history_shared=True) for name in [*SNAPSHOTS, *FEEDS]]
    shares = [Share(name, [Schema("d", tables)], Flavour(name)) for name in ("reference", "hosted")]
    with serve(Config("token", shares)) as provider:
        yield provider


class OfficialClient:
    """One process for all questions: it takes seconds to start."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, function: str, table: str = "", **arguments: Any) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([function, table, arguments]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@pytest.fixture(scope="module")
def client(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OfficialClient]:
    folder = tmp_path_factory.mktemp("official client")
    profile = folder / "profile.json"
    profile.write_text(json.dumps(provider.profile()), encoding="utf-8")
    command = [str(tools.path("official-client")), "-c", PROGRAM, str(profile)]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with (
        (folder / "errors").open("wb") as errors,
        subprocess.Popen(command, **pipes, stderr=errors) as process,
    ):
        yield OfficialClient(process)
        assert process.stdin
        process.stdin.close()


def test_it_lists_all_tables(client: OfficialClient) -> None:
    shares = ("reference", "hosted")
    assert client.ask("list_all_tables") == [[s, "d", table] for s in shares for table in [*SNAPSHOTS, *FEEDS]]


@pytest.mark.parametrize("table", SNAPSHOTS)
def test_it_knows_the_version(client: OfficialClient, table: str) -> None:
    assert client.ask("get_table_version", f"reference.d.{table}") == max(expected(table))
    long_ago = {"starting_timestamp": "2020-01-01T00:00:00Z"}
    assert client.ask("get_table_version", f"reference.d.{table}", **long_ago) == 0


@pytest.mark.parametrize("share", ["reference", "hosted"])
@pytest.mark.parametrize("table", SNAPSHOTS)
def test_it_reads_every_version_with_vectors_and_column_mapping(client: OfficialClient, table: str, share: str) -> None:
    for version, facts in expected(table).items():
        found = client.ask("load_as_pandas", f"{share}.d.{table}", version=version)
        assert (found.get("error"), found["count"]) == (None, facts["count"])
        assert found["columns"] == facts["columns"]
    assert client.ask("load_as_pandas", f"{share}.d.{table}")["count"] == facts["count"]


@pytest.mark.parametrize(
    ("table", "use_delta_format"),
    [("reference.d.cdf_nodv", False), ("hosted.d.cdf_nodv", True), ("hosted.d.cdf", True)],
)
def test_its_changes_lead_from_each_version_to_the_next(
    client: OfficialClient, table: str, use_delta_format: bool
) -> None:
    """Applied to the rows of a version they give those of the next one, which Spark hashed."""
    feed = client.ask("load_table_changes_as_pandas", table, starting_version=0, use_delta_format=use_delta_format)
    assert feed.get("error") is None
    columns = feed["columns"]
    kind, commit = columns.index("_change_type"), columns.index("_commit_version")
    rows: Counter[str] = Counter()
    for version, facts in expected(table.rpartition(".")[2]).items():
        width = len(facts["columns"])
        for change in feed["rows"]:
            if int(change[commit]) == version:
                row = "|".join(change[:width])
                rows[row] += 1 if change[kind] in ("insert", "update_postimage") else -1
        assert all(times >= 0 for times in rows.values())
        found = rows.total(), sum(zlib.crc32(row.encode()) * times for row, times in rows.items())
        assert found == (facts["count"], facts["hash"]), f"version {version}"


@pytest.mark.parametrize("share", ["reference", "hosted"])
@pytest.mark.parametrize("use_delta_format", [False, True])
def test_the_changes_of_a_table_of_another_writer(client: OfficialClient, share: str, use_delta_format: bool) -> None:
    arguments = {"starting_version": 0, "use_delta_format": use_delta_format}
    feed = client.ask("load_table_changes_as_pandas", f"{share}.d.orders", **arguments)
    kind, commit = feed["columns"].index("_change_type"), feed["columns"].index("_commit_version")
    assert Counter((int(row[commit]), row[kind]) for row in feed["rows"]) == {
        (0, "insert"): 40,
        (1, "insert"): 20,
        (2, "insert"): 20,
        (4, "delete"): 8,
        (5, "update_preimage"): 1,
        (5, "update_postimage"): 1,
        (6, "insert"): 4,
    }


def test_the_reference_server_loses_writer_features_on_the_way_to_the_client(client: OfficialClient) -> None:
    """Its changes of a table with writer version 7 cannot be read in the delta format: recorded, and true here too."""
    arguments = {"starting_version": 0, "use_delta_format": True}
    found = client.ask("load_table_changes_as_pandas", "reference.d.cdf_nodv", **arguments)
    assert "Writer features must be present when minimum writer version = 7" in found["error"]
