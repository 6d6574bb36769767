"""The chart renders what an API server accepts, asks for no right it does not need, and refuses a typo."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

import tools
from deltamirror.cli.main import cli
from tests.crd import FILE as CRD
from tests.crd import install
from tests.servers.kubernetes import ApiServer
from tests.servers.processes import ServerError, wait_until

CHART = Path(__file__).parents[2] / "charts" / "deltamirror"
NAMESPACE = "chart-release"
WATCHED = ["chart-one", "chart-two"]

DEFAULTS: dict[str, Any] = {}
NAMESPACED = {"watchNamespaces": WATCHED}
NARROWEST = {**NAMESPACED, "clusterID": "blue", "rbac": {"aggregateRoles": False}, "crds": {"install": False}}
EVERYTHING = {
    "clusterID": "blue",
    "image": {"repository": "images.example.com/deltamirror", "digest": f"sha256:{'0a' * 32}"},
    "imagePullSecrets": [{"name": "registry"}],
    "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/lake"}},
    "rbac": {"extraRules": [{"apiGroups": ["spark.apache.org"], "resources": ["sparkapplications"], "verbs": ["get"]}]},
    "podAnnotations": {"note": "1"},
    "podLabels": {"team": "lake"},
    "nodeSelector": {"pool": "operators"},
    "tolerations": [{"key": "operators", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "priorityClassName": "system-cluster-critical",
    "extraArgs": ["--log-level=debug"],
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
    "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
    "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ca"}],
    "metrics": {"service": {"enabled": True}},
    "networkPolicy": {"enabled": True, "metricsFrom": [{"namespaceSelector": {}}]},
}
BORROWED = {"serviceAccount": {"create": False, "name": "default"}, "rbac": {"create": False}}
VALUES = {
    "defaults": DEFAULTS,
    "namespaced": NAMESPACED,
    "narrowest": NARROWEST,
    "everything": EVERYTHING,
    "borrowed": BORROWED,
}
Object = dict[str, Any]


def helm(*arguments: str | Path, values: Object | None = None, environment: dict[str, str] | None = None) -> str:
    """What helm prints; a CalledProcessError if it refuses."""
    return subprocess.run(
        [tools.path("helm"), *arguments, *(["--values=-"] if values is not None else [])],
        input=json.dumps(values),
        env={**os.environ, **(environment or {})},
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def render(values: Object) -> list[Object]:
    printed = helm("template", "dm", CHART, f"--namespace={NAMESPACE}", values=values)
    return [document for document in yaml.safe_load_all(printed) if document]


def one(objects: list[Object], kind: str) -> Object:
    [found] = [o for o in objects if o["kind"] == kind]
    return found


def roles(objects: list[Object], kind: str) -> dict[tuple[str | None, str], list[Object]]:
    """The rules of each role, by namespace and name."""
    return {(o["metadata"].get("namespace"), o["metadata"]["name"]): o["rules"] for o in objects if o["kind"] == kind}


@pytest.fixture(scope="module")
def server(api_server: ApiServer) -> ApiServer:
    install(api_server)  # rights to a resource that is not served cannot be asked about
    for namespace in [NAMESPACE, *WATCHED]:
        api_server.kubectl("create", "namespace", namespace)
    return api_server


def test_lint_has_nothing_to_say() -> None:
    helm("lint", "--strict", CHART)


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_the_api_server_accepts_it(server: ApiServer, values: Object) -> None:
    objects = {"apiVersion": "v1", "kind": "List", "items": render(values)}
    arguments = ("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--filename=-")
    server.kubectl(*arguments, input=json.dumps(objects))


def test_the_pod_runs_where_only_restricted_pods_may(server: ApiServer) -> None:
    namespace = "chart-restricted"
    server.kubectl("create", "namespace", namespace)
    server.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    server.kubectl("create", "serviceaccount", "dm-deltamirror", f"--namespace={namespace}")
    template = one(render(DEFAULTS), "Deployment")["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    pod["metadata"]["name"] = "operator"

    def create(pod: Object) -> None:
        server.kubectl("create", "--dry-run=server", f"--namespace={namespace}", "--filename=-", input=json.dumps(pod))

    create(pod)
    for container in pod["spec"]["containers"]:
        assert container["securityContext"]["readOnlyRootFilesystem"]
    lax = deepcopy(pod)
    del lax["spec"]["securityContext"]["seccompProfile"]
    with pytest.raises(ServerError, match="violates PodSecurity"):  # so the namespace does look
        create(lax)


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_the_operator_understands_its_arguments(values: Object) -> None:
    [container] = one(render(values), "Deployment")["spec"]["template"]["spec"]["containers"]
    name, *arguments = container["args"]
    parsed = cli.commands[name].make_context(name, arguments).params
    assert list(parsed["namespaces"]) == values.get("watchNamespaces", [])
    assert parsed["all_namespaces"] == ("watchNamespaces" not in values)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert (parsed["probe_port"], parsed["metrics_port"]) == (ports["probes"], ports["metrics"])
    assert parsed["listen"] == "0.0.0.0"


def test_a_digest_wins_over_the_tag() -> None:
    [container] = one(render(EVERYTHING), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"images.example.com/deltamirror@sha256:{'0a' * 32}"


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_no_right_is_a_wildcard_and_secrets_are_read_by_name_only(values: Object) -> None:
    objects = render(values)
    for rules in [*roles(objects, "Role").values(), *roles(objects, "ClusterRole").values()]:
        for rule in rules:
            assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]]
            if "secrets" in rule["resources"]:
                assert rule["verbs"] == ["get"]


def test_with_namespaces_there_are_no_rights_elsewhere() -> None:
    objects = render(NAMESPACED)
    found = roles(objects, "Role")
    assert set(found) == {(n, "dm-deltamirror") for n in WATCHED} | {(NAMESPACE, "dm-deltamirror-lease")}
    cluster_wide = roles(objects, "ClusterRole")
    assert cluster_wide.pop((None, f"dm-deltamirror-cluster-id-{NAMESPACE}")) == [
        {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["kube-system"], "verbs": ["get"]}
    ]
    assert set(cluster_wide) == {(None, "dm-deltamirror-view"), (None, "dm-deltamirror-edit")}
    bound = [o["roleRef"]["name"] for o in objects if o["kind"] == "ClusterRoleBinding"]
    assert bound == [f"dm-deltamirror-cluster-id-{NAMESPACE}"]


def test_one_can_install_it_without_any_right_over_the_cluster() -> None:
    assert {o["kind"] for o in render(NARROWEST)} == {"ServiceAccount", "Role", "RoleBinding", "Deployment"}


def test_the_rights_are_as_good_as_their_names(server: ApiServer) -> None:
    objects = [o for o in render(NAMESPACED) if "Role" in o["kind"]]
    server.kubectl("apply", "--filename=-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    account = f"system:serviceaccount:{NAMESPACE}:dm-deltamirror"

    def may(*what: str, namespace: str = WATCHED[0]) -> bool:
        try:
            server.kubectl("auth", "can-i", *what, f"--as={account}", f"--namespace={namespace}")
        except ServerError:
            return False
        return True

    wait_until(lambda: may("get", "secrets"), "bound", seconds=10)
    assert may("patch", "sharedtables.deltamirror.io", "--subresource=status")
    assert may("create", "jobs.batch")
    assert may("get", "namespace/kube-system", namespace="kube-system")
    assert not may("list", "secrets")
    assert not may("get", "secrets", namespace=NAMESPACE)
    assert not may("create", "sharedtables.deltamirror.io")
    assert not may("create", "pods")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"watchNamespace": ["a"]}, "watchNamespace"),
        ({"crds": {"instal": False}}, "instal"),
        ({"watchNamespaces": "a"}, "watchNamespaces"),
        ({"logLevel": "loud"}, "logLevel"),
        ({"image": {"digest": "latest"}}, "digest"),
        ({"serviceAccount": {"create": False}}, "serviceAccount.name is needed"),
    ],
)
def test_a_typo_is_refused(values: Object, words: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        render(values)
    assert words in refused.value.stderr


def test_every_value_has_a_place_in_the_schema_and_the_other_way_round() -> None:
    def keys(values: Object, schema: Object, path: str) -> Iterator[tuple[str, str]]:
        for key in {*values, *schema.get("properties", values)} - {"global"}:
            yield f"{path}.{key}", f"{key in values} {key in schema.get('properties', values)}"
            inner = schema.get("properties", {}).get(key, {})
            if "properties" in inner:
                yield from keys(values.get(key, {}), inner, f"{path}.{key}")

    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    assert {k: v for k, v in keys(values, schema, "") if v != "True True"} == {}


def test_its_crd_is_that_of_the_repository() -> None:
    assert (CHART / "files" / "crds" / CRD.name).read_bytes() == CRD.read_bytes(), "run `make chart`"
    rendered = one(render(DEFAULTS), "CustomResourceDefinition")
    assert rendered["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    del rendered["metadata"]["labels"]
    assert rendered == yaml.safe_load(CRD.read_text(encoding="utf-8"))
    assert "annotations" not in one(render({"crds": {"keep": False}}), "CustomResourceDefinition")["metadata"]


def test_metrics_are_found_by_prometheus() -> None:
    objects = render({"metrics": {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}}})
    monitor, service, deployment = (one(objects, kind) for kind in ("ServiceMonitor", "Service", "Deployment"))
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    [endpoint], [port] = monitor["spec"]["endpoints"], service["spec"]["ports"]
    assert endpoint["port"] == port["name"]
    pod = deployment["spec"]["template"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert port["targetPort"] in {p["name"] for p in pod["spec"]["containers"][0]["ports"]}


def test_a_release_says_what_to_do_next_and_leaves_the_tables_when_it_goes(server: ApiServer, tmp_path: Path) -> None:
    release = f"dm-{secrets.token_hex(4)}"
    home = {"KUBECONFIG": str(server.kubeconfig), "HELM_CACHE_HOME": str(tmp_path), "HELM_CONFIG_HOME": str(tmp_path)}
    there = f"--namespace={NAMESPACE}"
    said = helm("install", release, CHART, there, "--take-ownership", values=NAMESPACED, environment=home)
    assert f"kubectl apply --namespace {WATCHED[0]} -f -" in said
    helm("upgrade", release, CHART, there, values=NAMESPACED, environment=home)
    helm("uninstall", release, there, environment=home)
    assert server.kubectl("get", "crd", CRD.stem, "--output=name")
    assert release not in server.kubectl("get", "deployments,roles,clusterroles", "--all-namespaces", "--output=name")
