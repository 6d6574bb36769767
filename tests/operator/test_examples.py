"""Every manifest in examples/ is one that the API server and the decoder accept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from deltamirror import api
from tests.crd import ROOT, install
from tests.servers.kubernetes import ApiServer

EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
NAMESPACE = "examples"


@pytest.fixture(scope="module")
def server(api_server: ApiServer) -> ApiServer:
    install(api_server)
    api_server.kubectl("create", "namespace", NAMESPACE)
    return api_server


def documents(file: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(file.read_text(encoding="utf-8")))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_is_accepted(server: ApiServer, file: Path) -> None:
    for document in documents(file):
        if document["kind"] == "SharedTable":
            api.load(file)
        document["metadata"]["namespace"] = NAMESPACE  # the namespace of the example belongs to other tests
        server.kubectl("create", "--dry-run=server", "--filename=-", input=json.dumps(document))


def test_the_secrets_that_the_examples_read_are_among_them() -> None:
    found = [document for file in EXAMPLES for document in documents(file)]
    keys = {d["metadata"]["name"]: d["stringData"] for d in found if d["kind"] == "Secret"}
    for spec in (api.decode(d).spec for d in found if d["kind"] == "SharedTable"):
        assert spec.source.profile_secret_ref.key in keys[spec.source.profile_secret_ref.name]
        if spec.destination.credentials_secret_ref is not None:
            assert spec.destination.credentials_secret_ref.name in keys


def test_the_readme_shows_the_first_example() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = yaml.safe_load(readme.partition("```yaml\n")[2].partition("```")[0])
    example = yaml.safe_load((ROOT / "examples" / "orders.yaml").read_text(encoding="utf-8"))
    assert shown == example
