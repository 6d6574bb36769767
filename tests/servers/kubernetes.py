"""A real Kubernetes API server: CRD schemas, CEL rules, RBAC, server-side apply and watches as in a cluster.

etcd and kube-apiserver only. There is no controller manager, scheduler or node: Jobs stay as they were
created, deleted namespaces stay Terminating, and owner references are not followed. Tests play those parts.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import secrets
import ssl
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import tools
from tests.servers.processes import ServerError, ServerProcess, free_port


class ApiServer:
    """A running API server with an empty etcd; `kubeconfig` is the administrator's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.kubeconfig = folder / "admin.kubeconfig"
        self._admin_token = secrets.token_urlsafe()
        self._binaries = tools.path("kubernetes")
        self._running = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as starting:
            # Unwound in reverse: the API server must stop before etcd, its graceful end hangs without it.
            etcd_url = self._start_etcd(starting)
            server = self._start_api_server(starting, etcd_url)
            # /readyz covers the RBAC bootstrap but not the default namespace, which comes a moment later.
            server.wait_until(lambda: self._status_of("/readyz") == 200, "ready", seconds=60)
            server.wait_until(
                lambda: self._status_of("/api/v1/namespaces/default") == 200,
                "serving the default namespace",
                seconds=30,
            )
            self._running = starting.pop_all()
        self._write_kubeconfig(self.kubeconfig, self._admin_token)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.close()

    def kubectl(self, *arguments: str, input: str | None = None, kubeconfig: Path | None = None) -> str:
        """What kubectl prints; a ServerError with its error text if it fails."""
        command = [
            str(self._binaries / "kubectl"),
            f"--kubeconfig={kubeconfig or self.kubeconfig}",
            f"--cache-dir={self.folder / 'kubectl-cache'}",
            *arguments,
        ]
        # KUBERC: the preferences of whoever runs the tests (aliases, default flags) must not matter.
        environment = {**os.environ, "KUBERC": "off"}
        done = subprocess.run(
            command, input=input, capture_output=True, text=True, env=environment, timeout=60, check=False
        )
        if done.returncode != 0:
            raise ServerError(f"kubectl {' '.join(arguments)} failed: {done.stderr.strip()}")
        return done.stdout

    def kubectl_json(self, *arguments: str, kubeconfig: Path | None = None) -> Any:
        return json.loads(self.kubectl(*arguments, "--output=json", kubeconfig=kubeconfig))

    def kubeconfig_for(self, token: str) -> Path:
        """A kubeconfig that holds this bearer token and nothing else."""
        file = self.folder / f"{secrets.token_hex(8)}.kubeconfig"
        self._write_kubeconfig(file, token)
        return file

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """A kubeconfig with the rights of a service account that exists, by a token made for it now."""
        return self.kubeconfig_for(self.kubectl("create", "token", name, f"--namespace={namespace}").strip())

    def _start_etcd(self, starting: contextlib.ExitStack) -> str:
        url = f"http://127.0.0.1:{free_port()}"
        command: list[str | Path] = [
            self._binaries / "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",  # the data need not survive the machine, and fsync is most of the start time
            "--log-level=warn",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            "--listen-peer-urls=http://127.0.0.1:0",
        ]
        starting.enter_context(ServerProcess("etcd", command, self.folder / "etcd.log"))
        return url

    def _start_api_server(self, starting: contextlib.ExitStack, etcd_url: str) -> ServerProcess:
        tokens = self.folder / "tokens.csv"
        tokens.write_text(f'{self._admin_token},admin,admin,"system:masters"\n', encoding="utf-8")
        account_key = self.folder / "service-accounts.key"
        account_key.write_text(_elliptic_curve_key(), encoding="ascii")
        command: list[str | Path] = [
            self._binaries / "kube-apiserver",
            f"--etcd-servers={etcd_url}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            # No pod will ever reach this server. An address reserved for documentation saves it from looking
            # for a default route, which a machine without a network does not have.
            "--advertise-address=192.0.2.1",
            "--endpoint-reconciler-type=none",
            f"--cert-dir={self.folder / 'certificates'}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=RBAC",
            f"--token-auth-file={tokens}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={account_key}",
            f"--service-account-signing-key-file={account_key}",
        ]
        return starting.enter_context(ServerProcess("kube-apiserver", command, self.folder / "kube-apiserver.log"))

    def _status_of(self, path: str) -> int:
        authority = self.folder / "certificates" / "apiserver.crt"
        if not authority.exists():
            return 0
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=5, context=ssl.create_default_context(cafile=authority)
        )
        with contextlib.closing(connection):
            connection.request("GET", path, headers={"Authorization": f"Bearer {self._admin_token}"})
            return connection.getresponse().status

    def _write_kubeconfig(self, file: Path, token: str) -> None:
        authority = base64.b64encode((self.folder / "certificates" / "apiserver.crt").read_bytes()).decode()
        cluster = {"server": self.url, "certificate-authority-data": authority}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": "tests", "user": {"token": token}}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
            "current-context": "tests",
        }
        file.touch(mode=0o600)
        file.write_text(json.dumps(config, indent=1), encoding="utf-8")


def _elliptic_curve_key() -> str:
    """A new P-256 private key in PEM (RFC 5915), with which the API server signs service-account tokens.

    Such a key is any 32 random bytes between two constants, so no library and no openssl is needed for it.
    """
    before, after = bytes.fromhex("30310201010420"), bytes.fromhex("a00a06082a8648ce3d030107")
    body = base64.encodebytes(before + secrets.token_bytes(32) + after).decode()
    return f"-----BEGIN EC PRIVATE KEY-----\n{body}-----END EC PRIVATE KEY-----\n"
