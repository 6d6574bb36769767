"""The operator as a process of its own, with no more rights than the chart gives it."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tools
from tests.kstatus import broken_rules
from tests.servers.kubernetes import ApiServer
from tests.servers.processes import ServerProcess, free_port, wait_until

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts/deltamirror"
CRD = ROOT / "crds/sharedtables.deltamirror.io.yaml"


@dataclass(frozen=True)
class Namespace:
    """A namespace of the API server that an operator looks after."""

    server: ApiServer
    name: str

    def kubectl(self, *arguments: str, input: str | None = None) -> str:
        return self.server.kubectl("-n", self.name, *arguments, input=input)

    def apply(self, *objects: dict[str, Any]) -> None:
        self.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    def get(self, kind: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.kubectl("get", kind, name, "-o", "json"))
        return found

    def list(self, kind: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = json.loads(self.kubectl("get", kind, "-o", "json"))["items"]
        return items

    def table(self, name: str) -> dict[str, Any]:
        """A SharedTable; whatever its state is, its status keeps the rules."""
        found = self.get("sharedtable", name)
        assert not broken_rules(found), (broken_rules(found), found["status"])
        return found

    def wait(
        self, name: str, what: str, holds: Callable[[dict[str, Any]], bool], seconds: float = 60
    ) -> dict[str, Any]:
        """Waits for a state of a SharedTable."""
        seen: list[dict[str, Any]] = []

        def look() -> bool:
            seen[:] = [self.table(name)]
            return holds(seen[0].get("status") or {})

        try:
            wait_until(look, what, seconds)
        except TimeoutError as late:
            raise TimeoutError(f"{late}; its status is {json.dumps(seen[0].get('status'), indent=1)}") from None
        return seen[0]


def condition(status: dict[str, Any], kind: str) -> tuple[str, str] | None:
    """(status, reason) of a condition, or None."""
    found = next((c for c in status.get("conditions", []) if c["type"] == kind), None)
    return (found["status"], found["reason"]) if found else None


@contextlib.contextmanager
def operator(server: ApiServer, namespace: str, folder: Path, *flags: str) -> Iterator[Namespace]:
    """Installs the CRD and the chart's rights for one namespace, and runs the operator with them until the context ends."""
    server.kubectl("apply", "--server-side", "-f", str(CRD))
    server.kubectl("wait", "--for=condition=Established", "crd/sharedtables.deltamirror.io", "--timeout=30s")
    server.kubectl("create", "namespace", namespace)
    for document in chart_rights(namespace):
        server.kubectl("apply", "-n", namespace, "-f", "-", input=document)
    kubeconfig = server.service_account_kubeconfig(namespace, "deltamirror")
    port = free_port()
    program = str(Path(sys.executable).with_name("deltamirror"))
    command = [program, "operator", "--namespace", namespace, "--probe-port", str(port)]
    process = ServerProcess(
        "operator", [*command, *flags], folder / f"operator-{namespace}.log", {"KUBECONFIG": str(kubeconfig)}
    )
    with process:
        process.wait_until(lambda: _ready(port), "ready", seconds=30)
        yield Namespace(server, namespace)


def chart_rights(namespace: str) -> list[str]:
    """ServiceAccount, roles and bindings as the chart renders them for one namespace."""
    rendered = subprocess.run(
        [
            *(str(tools.path("helm")), "template", "deltamirror", str(CHART), "--namespace", namespace),
            *("--set", f"watchNamespaces={{{namespace}}}", "--set", "fullnameOverride=deltamirror"),
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    wanted = (
        "kind: ServiceAccount",
        "kind: Role",
        "kind: RoleBinding",
        "kind: ClusterRole",
        "kind: ClusterRoleBinding",
    )
    return [part for part in rendered.split("\n---\n") if any(f"\n{kind}\n" in f"\n{part}\n" for kind in wanted)]


def _ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    with contextlib.closing(connection):
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.HTTPStatus.OK
