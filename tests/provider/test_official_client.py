"""The official Python client reads tables with deletion vectors and column mapping through the provider."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import tools
from sharing_provider import Config, Provider, serve
from sharing_provider.config import Schema, Share, Table

TABLES = Path(__file__).parents[1] / "data" / "tables"
NAMES = ["dv_basic", "dv_part", "cm_name"]
COUNT_ROWS = """
import json, sys
import delta_sharing
profile, *tables = sys.argv[1:]
print(json.dumps({t: len(delta_sharing.load_as_pandas(f"{profile}#s.d.{t}", use_delta_format=True)) for t in tables}))
"""


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    tables = [Table(name, f"file://{TABLES / name}") for name in NAMES]
    with serve(Config("token", [Share("s", [Schema("d", tables)])])) as provider:
        yield provider


def test_the_official_client_counts_the_rows_that_are_left(provider: Provider, tmp_path: Path) -> None:
    profile = tmp_path / "profile.json"
    profile.write_text(json.dumps(provider.profile()), encoding="utf-8")
    done = subprocess.run(
        [tools.path("official-client"), "-c", COUNT_ROWS, profile, *NAMES],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {name: _rows(name) for name in NAMES}


def _rows(name: str) -> int:
    """The rows of the latest version, as Spark counted them when the table was made."""
    versions = json.loads((TABLES / f"{name}.expected.json").read_bytes())["versions"]
    count: int = versions[max(versions, key=int)]["count"]
    return count
