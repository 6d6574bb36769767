"""The calls to the Kubernetes API that a reconcile makes, as plain objects. Watching is kopf's."""

from __future__ import annotations

import json
from typing import Any

from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException

from deltamirror.errors import Fault, Kind
from kubernetes import client, config

_TIMEOUT = (5, 30)


class ClusterError(Fault):
    kind = Kind.TRANSIENT
    reason = "ClusterError"

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class ClusterMisconfigured(Fault):
    reason = "ClusterMisconfigured"


class Cluster:
    def __init__(self, api: client.ApiClient) -> None:
        self._api = api

    @classmethod
    def connect(cls) -> Cluster:
        """With the service account of the pod, else with the kubeconfig of the shell."""
        settings = client.Configuration()
        try:
            try:
                config.load_incluster_config(settings)
            except ConfigException:
                config.load_kube_config(client_configuration=settings)
        except ConfigException as error:
            raise ClusterMisconfigured(f"no cluster to talk to: {error}") from None
        return cls(client.ApiClient(settings))

    def get(self, path: str) -> dict[str, Any] | None:
        """An object, or None if there is none."""
        try:
            return self._call("GET", path)
        except ClusterError as error:
            if error.status == 404:
                return None
            raise

    def create(self, path: str, body: dict[str, Any]) -> bool:
        """Creates an object; False if one of that name is there already."""
        try:
            self._call("POST", path, body)
        except ClusterError as error:
            if error.status == 409:
                return False
            raise
        return True

    def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """A JSON merge patch; the object after it."""
        return self._call("PATCH", path, body, "application/merge-patch+json")

    def delete(self, path: str) -> None:
        try:
            self._call("DELETE", path, {"propagationPolicy": "Background"})
        except ClusterError as error:
            if error.status != 404:
                raise

    def _call(
        self, method: str, path: str, body: dict[str, Any] | None = None, content_type: str = "application/json"
    ) -> dict[str, Any]:
        headers = {"Accept": "application/json", "Content-Type": content_type}
        request = self._api.param_serialize(
            method, path, header_params=headers, body=body, auth_settings=["BearerToken"]
        )
        try:
            response = self._api.call_api(*request, _request_timeout=_TIMEOUT)
            data = response.read()
        except ApiException as error:
            raise _error(method, path, error.status or 0, error.body) from None
        except Exception as error:  # urllib3 and ssl errors of the connection
            raise ClusterError(f"the Kubernetes API does not answer: {type(error).__name__}", 0) from error
        if not 200 <= response.status < 300:
            raise _error(method, path, response.status, data)
        result: dict[str, Any] = json.loads(data)
        return result


def _error(method: str, path: str, status: int, body: Any) -> ClusterError:
    try:
        said = json.loads(body)["message"]
    except (TypeError, ValueError, KeyError):
        said = str(status)
    return ClusterError(f"the Kubernetes API refuses {method} {path}: {said}", status)
