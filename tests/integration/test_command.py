"""The command as a person meets it: what it prints, and its exit status. No mistake ends in a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sharing_provider import Provider, serve
from tests.data import TABLES, expected
from tests.servers.processes import free_port
from tests.servers.s3 import S3Server
from tests.sharing import config

MANIFEST = """
apiVersion: deltamirror.io/v1alpha1
kind: SharedTable
metadata: {{name: orders, namespace: analytics}}
spec:
  source: {{profileSecretRef: {{name: acme}}, share: s, schema: d, table: {table}}}
  destination: {{uri: '{uri}'{more}}}
"""


@pytest.fixture(scope="module")
def provider() -> Any:
    with serve(config([{"name": "dv_basic", "location": f"file://{TABLES}/dv_basic"}])) as provider:
        yield provider


class Desk:
    """A folder with a manifest and a profile, and a shell to run the command in."""

    def __init__(self, folder: Path, provider: Provider) -> None:
        self.folder = folder
        self.manifest("dv_basic", f"file://{folder}/mirror")
        self.profile(provider.profile())

    def manifest(self, table: str, uri: str, more: str = "") -> None:
        (self.folder / "table.yaml").write_text(MANIFEST.format(table=table, uri=uri, more=more))

    def profile(self, content: object) -> None:
        (self.folder / "profile.json").write_text(json.dumps(content))

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = Path(sys.executable).with_name("deltamirror")
        base = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
        return subprocess.run(
            [command, *arguments],
            cwd=self.folder,
            env={**base, **environment},
            capture_output=True,
            text=True,
            timeout=120,
        )

    def sync(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.run("sync", "-f", "table.yaml", "--profile", "profile.json", *arguments, **environment)

    def refused(self, status: int, sentence: str, **environment: str) -> None:
        done = self.sync(**environment)
        assert done.returncode == status, done.stderr
        assert sentence in done.stderr
        assert "Traceback" not in done.stderr
        assert done.stdout == ""


@pytest.fixture
def desk(tmp_path: Path, provider: Provider) -> Desk:
    return Desk(tmp_path, provider)


def test_sync_prints_one_object_of_json(desk: Desk) -> None:
    facts = expected("dv_basic")[10]
    done = desk.sync("--output", "json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["sourceVersion"] == 10
    assert result["rows"] == facts["count"]
    assert {"mirrorVersion", "mode", "access", "filesAdded", "filesRemoved", "filesCopied", "bytesCopied"} <= set(
        result
    )
    assert {"deletionVectorsCopied", "commits", "requests", "seconds"} <= set(result)


def test_plan_says_what_sync_would_do_and_does_nothing(desk: Desk) -> None:
    done = desk.run("plan", "-f", "table.yaml", "--profile", "profile.json")
    assert "source version 10: copy" in done.stdout
    assert list((desk.folder / "mirror").iterdir()) == []


def test_a_second_sync_says_that_there_is_nothing_to_do(desk: Desk) -> None:
    desk.sync()
    assert "up to date: mirror version 0 is source version 10" in desk.sync().stderr


def test_a_manifest_with_a_typo(desk: Desk) -> None:
    path = desk.folder / "table.yaml"
    path.write_text(path.read_text() + "  refresh: {intervall: 5m}")
    desk.refused(2, "spec.refresh has no field 'intervall'; did you mean 'interval'?")


def test_a_profile_that_is_none(desk: Desk) -> None:
    (desk.folder / "profile.json").write_text("token: abc")
    desk.refused(2, "the profile is not JSON")


def test_no_profile(desk: Desk) -> None:
    done = desk.run("sync", "-f", "table.yaml")
    assert done.returncode == 2
    assert "--profile" in done.stderr


def test_a_wrong_token(desk: Desk, provider: Provider) -> None:
    desk.profile({**provider.profile(), "bearerToken": "WRONG-TOKEN"})
    desk.refused(3, "the provider rejects the token")
    assert "WRONG-TOKEN" not in desk.sync().stderr


def test_a_table_that_is_not_shared(desk: Desk) -> None:
    desk.manifest("nothing", f"file://{desk.folder}/mirror")
    desk.refused(3, "s.d.nothing is not shared with this recipient")


def test_an_endpoint_where_nobody_answers(desk: Desk, provider: Provider) -> None:
    desk.profile({**provider.profile(), "endpoint": f"http://127.0.0.1:{free_port()}/delta-sharing"})
    desk.refused(4, "the provider at 127.0.0.1 does not answer")


def test_an_endpoint_that_is_something_else(desk: Desk, provider: Provider) -> None:
    desk.profile({**provider.profile(), "endpoint": provider.endpoint.replace("/delta-sharing", "/elsewhere")})
    desk.refused(3, "is not shared with this recipient")


def test_a_bucket_that_does_not_exist(desk: Desk, s3: S3Server) -> None:
    desk.manifest("dv_basic", "s3://nobucket/orders", f", s3: {{endpoint: '{s3.endpoint}'}}")
    keys = {"AWS_ACCESS_KEY_ID": s3.access_key, "AWS_SECRET_ACCESS_KEY": s3.secret_key}
    desk.refused(3, "s3://nobucket/orders does not exist: create the bucket first", **keys)


def test_wrong_credentials_of_the_bucket(desk: Desk, s3: S3Server) -> None:
    desk.manifest("dv_basic", "s3://nobucket/orders", f", s3: {{endpoint: '{s3.endpoint}'}}")
    desk.refused(3, "check the credentials", AWS_ACCESS_KEY_ID=s3.access_key, AWS_SECRET_ACCESS_KEY="wrong")


def test_no_credentials_for_the_bucket(desk: Desk, s3: S3Server) -> None:
    desk.manifest("dv_basic", "s3://nobucket/orders", f", s3: {{endpoint: '{s3.endpoint}'}}")
    desk.refused(3, "no AWS credentials were found", AWS_EC2_METADATA_DISABLED="true")


def test_a_store_that_does_not_answer(desk: Desk) -> None:
    desk.manifest("dv_basic", "s3://lake/orders", f", s3: {{endpoint: 'http://127.0.0.1:{free_port()}'}}")
    desk.refused(4, "s3://lake/orders cannot", AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b")


def test_a_destination_that_holds_another_table(desk: Desk) -> None:
    desk.manifest("dv_basic", f"file://{TABLES}/dv_part")
    desk.refused(3, "holds a Delta table that is not a mirror")


def test_a_mirror_of_somebody_else(desk: Desk) -> None:
    desk.sync()
    path = desk.folder / "table.yaml"
    path.write_text(path.read_text().replace("name: orders", "name: others"))
    desk.refused(3, "is the mirror of local/analytics/orders, not of local/analytics/others")
