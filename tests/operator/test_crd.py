"""The API server and the decoder accept and refuse the same manifests, with words that say what to do."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deltamirror import api
from deltamirror.api import crd
from deltamirror.api.units import DURATION_PATTERN
from tests.crd import FILE, INVALID, VALID, expectations, install
from tests.servers.kubernetes import ApiServer
from tests.servers.processes import ServerError, wait_until

SMALLEST = next(file for file in VALID if file.stem == "smallest")


@pytest.fixture(scope="module")
def server(api_server: ApiServer) -> ApiServer:
    install(api_server)
    return api_server


@pytest.fixture
def namespace(server: ApiServer) -> str:
    """A namespace of its own with the smallest SharedTable in it."""
    name = f"crd-{secrets.token_hex(4)}"
    server.kubectl("create", "namespace", name)
    server.kubectl("apply", f"--namespace={name}", f"--filename={SMALLEST}")
    return name


def dry_run(server: ApiServer, manifest: Path) -> dict[str, Any]:
    found: dict[str, Any] = server.kubectl_json(
        "create", "--namespace=default", "--dry-run=server", f"--filename={manifest}"
    )
    return found


def schemas(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """A schema and all in it, by path."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from schemas(inner, f"{path}.{name}")
    if "items" in schema:
        yield from schemas(schema["items"], f"{path}[]")


def all_schemas() -> dict[str, dict[str, Any]]:
    root = crd.definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return {p: s for part in ("spec", "status") for p, s in schemas(root["properties"][part], part)}


def test_the_file_is_what_the_models_say() -> None:
    assert FILE.read_text(encoding="utf-8") == crd.render(), "run `make crds`"


def test_every_field_is_described_and_only_templates_take_anything() -> None:
    found = all_schemas()
    undescribed = [p for p, s in found.items() if "description" not in s and not p.endswith("[]")]
    assert undescribed == []
    anything = {p for p, s in found.items() if "x-kubernetes-preserve-unknown-fields" in s}
    assert anything == {
        "spec.source.partitionFilter",
        "spec.transfer.podTemplate",
        "spec.jobs[].job.podTemplate",
        "spec.jobs[].sparkApplication",
        "spec.jobs[].apacheSpark",
    }


def test_no_duration_may_be_zero() -> None:
    found = all_schemas()
    for path in (p for p, s in found.items() if s.get("pattern") == DURATION_PATTERN):
        parent, _, name = path.rpartition(".")
        rules = [r["rule"] for r in found[parent]["x-kubernetes-validations"] if r["fieldPath"] == f".{name}"]
        assert any("matches('[1-9]')" in rule for rule in rules), path


@pytest.mark.parametrize("manifest", VALID, ids=lambda file: file.stem)
def test_a_good_manifest_is_accepted_and_means_the_same_after_the_defaults(server: ApiServer, manifest: Path) -> None:
    stored = dry_run(server, manifest)
    assert api.decode(stored).spec == api.load(manifest).spec


@pytest.mark.parametrize("manifest", INVALID, ids=lambda file: file.stem)
def test_the_api_server_refuses_a_bad_manifest(server: ApiServer, manifest: Path) -> None:
    with pytest.raises(ServerError) as refused:
        dry_run(server, manifest)
    assert expectations(manifest)[0] in str(refused.value)


@pytest.mark.parametrize("manifest", INVALID, ids=lambda file: file.stem)
def test_the_decoder_refuses_a_bad_manifest(manifest: Path) -> None:
    with pytest.raises(api.ManifestError) as refused:
        api.load(manifest)
    assert expectations(manifest)[1] in str(refused.value)


def test_the_decoder_names_all_that_is_wrong() -> None:
    resource = yaml.safe_load(SMALLEST.read_text(encoding="utf-8"))
    resource["spec"] |= {"history": {}, "jobs": [{"name": "a"}, {"name": "b", "apacheSpark": {}, "timeout": "0s"}]}
    with pytest.raises(api.ManifestError) as refused:
        api.decode(resource)
    said = str(refused.value)
    assert "spec.history: is for mode: History" in said
    assert "spec.jobs[0].job: a job is started in exactly one way" in said
    assert "spec.jobs[1].timeout: must be longer than zero" in said


@pytest.mark.parametrize(
    ("field", "patch"),
    [
        ("spec.destination.uri", {"destination": {"uri": "s3://lake/elsewhere"}}),
        ("spec.mode", {"mode": "History"}),
    ],
)
def test_a_mirror_neither_moves_nor_changes_its_mode(
    server: ApiServer, namespace: str, field: str, patch: dict[str, Any]
) -> None:
    with pytest.raises(ServerError, match=f"{field}: Invalid value: .*cannot be changed; to mirror .*, make another"):
        change(server, namespace, patch)


def test_what_is_not_fixed_can_be_changed(server: ApiServer, namespace: str) -> None:
    change(server, namespace, {"destination": {"writeProtection": True}, "suspend": True})


def change(server: ApiServer, namespace: str, spec: dict[str, Any]) -> None:
    server.kubectl(
        *(
            "patch",
            "stbl",
            "orders",
            f"--namespace={namespace}",
            "--type=merge",
            f"--patch={json.dumps({'spec': spec})}",
        )
    )


def test_an_unknown_field_that_nobody_checks_is_not_kept(server: ApiServer) -> None:
    unknown = next(file for file in INVALID if file.stem == "unknown-field-of-the-spec")
    arguments = ("create", "--namespace=default", "--dry-run=server", "--validate=ignore", f"--filename={unknown}")
    assert "refersh" not in server.kubectl_json(*arguments)["spec"]


def test_defaults_are_filled_in(server: ApiServer) -> None:
    stored = dry_run(server, SMALLEST)
    assert stored["status"] == {"observedGeneration": -1}
    assert stored["spec"] == {
        "source": {
            "profileSecretRef": {"name": "acme", "key": "profile.json"},
            "share": "sales",
            "schema": "retail",
            "table": "orders",
            "access": "Auto",
        },
        "destination": {"uri": "s3://lake/mirrors/orders", "writeProtection": False, "allowUnsafeCommits": False},
        "refresh": {"policy": "Interval", "fullCheck": "24h"},
        "mode": "Snapshot",
        "onSourceRecreated": "Fail",
        "onMirrorModified": "Fail",
        "retention": {"removedFiles": "168h", "log": "720h"},
        "transfer": {"runIn": "Auto", "concurrency": 16, "timeout": "2h"},
        "deletionPolicy": "Retain",
        "suspend": False,
    }


def test_a_group_that_is_given_in_part_is_completed(server: ApiServer) -> None:
    schedule = next(file for file in VALID if file.stem == "schedule")
    assert dry_run(server, schedule)["spec"]["refresh"]["fullCheck"] == "24h"


def test_kubectl_explains_every_field(server: ApiServer) -> None:
    said = explained(server, "sharedtable.spec.refresh")
    assert "How fresh the mirror is kept." in said
    assert "Time between two looks at the source" in said
    assert "enum: Interval, Manual, Schedule" in said


def explained(server: ApiServer, field: str) -> str:
    """A new resource is served a moment before it is explained."""
    said: list[str] = []

    def ask() -> bool:
        try:
            said.append(server.kubectl("explain", field))
        except ServerError:
            return False
        return True

    wait_until(ask, "explained", seconds=30)
    return said[-1]


def test_kubectl_get_shows_how_a_table_is(server: ApiServer, namespace: str) -> None:
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Synced",
        "message": "mirror version 3 is source version 7",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {
        "conditions": [ready],
        "mirror": {"version": 3, "sourceVersion": 7, "bytes": 1024},
        "lastSyncTime": "2026-01-01T00:00:00Z",
        "nextSyncTime": "2026-01-01T00:10:00Z",
    }
    patch = json.dumps({"status": status})
    here = f"--namespace={namespace}"
    server.kubectl("patch", "stbl", "orders", here, "--subresource=status", "--type=merge", f"--patch={patch}")

    head, row = server.kubectl("get", "stbl", here).splitlines()
    assert columns(head) == ["NAME", "TABLE", "MODE", "VERSION", "READY", "STATUS", "LAST-SYNC", "AGE"]
    assert columns(row)[:6] == ["orders", "orders", "Snapshot", "3", "True", "mirror-version-3-is-source-version-7"]

    head, row = server.kubectl("get", "deltamirror", here, "--output=wide").splitlines()
    assert columns(head)[-4:] == ["SOURCE-VERSION", "NEXT-SYNC", "BYTES", "AGE"]
    assert columns(row)[-4:-1] == ["7", "2026-01-01T00:10:00Z", "1024"]


def columns(line: str) -> list[str]:
    return [cell.strip().replace(" ", "-") for cell in line.split("  ") if cell.strip()]


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("spec.source.share=sales,spec.source.schema=retail", "sharedtable.deltamirror.io/orders"),
        ("spec.destination.uri=s3://lake/mirrors/orders", "sharedtable.deltamirror.io/orders"),
        ("spec.suspend=true", ""),
    ],
)
def test_tables_can_be_selected_by_where_they_come_from(
    server: ApiServer, namespace: str, selector: str, found: str
) -> None:
    listed = server.kubectl("get", "stbl", f"--namespace={namespace}", f"--field-selector={selector}", "--output=name")
    assert listed.strip() == found


def test_jobs_are_merged_by_name(server: ApiServer, namespace: str) -> None:
    """Two who apply a job each, server-side, do not undo each other."""
    for name in ("one", "two"):
        resource = {
            "apiVersion": "deltamirror.io/v1alpha1",
            "kind": "SharedTable",
            "metadata": {"name": "orders", "namespace": namespace},
            "spec": {"jobs": [{"name": name, "sparkApplication": {}}]},
        }
        arguments = ("apply", "--server-side", f"--field-manager={name}", "--filename=-")
        server.kubectl(*arguments, input=json.dumps(resource))
    stored = server.kubectl_json("get", "stbl", "orders", f"--namespace={namespace}")
    assert [job["name"] for job in stored["spec"]["jobs"]] == ["one", "two"]
