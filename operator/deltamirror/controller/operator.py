"""The process that the pod runs: kopf watches, the queue says when, threads reconcile, probes and metrics answer.

kopf is used for what it is best at, watching without missing anything; its handlers that keep state in annotations or finalizers are not
used, so that ten thousand objects cost no write at start-up.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import kopf
import prometheus_client
from aiohttp import web

from deltamirror.api.shared_table import GROUP, PLURAL, VERSION
from deltamirror.controller.cluster import Cluster, ClusterError, ClusterMisconfigured
from deltamirror.controller.due import DueQueue, Key
from deltamirror.controller.metrics import TABLES
from deltamirror.controller.objects import Objects
from deltamirror.controller.reconcile import Policy, Reconciler
from deltamirror.jobs.batch_job import LABEL_TABLE

RETRY_SECONDS = 5.0
STUCK_SECONDS = 60.0
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Options:
    namespaces: Collection[str] = ()
    """Namespaces to look after; all of them where empty."""
    workers: int = 16
    cluster_id: str = ""
    allow_file_destinations: bool = False
    probe_address: tuple[str, int] | None = None
    metrics_address: tuple[str, int] | None = None


def run(options: Options) -> None:
    asyncio.run(Operator(options).run())


class Operator:
    def __init__(self, options: Options) -> None:
        self._options = options
        self._objects = Objects()
        self._queue = DueQueue(time.time)
        self._watching = asyncio.Event()
        self._beat = time.monotonic()
        cluster = Cluster.connect()
        self._reconciler = Reconciler(
            cluster, Policy(options.cluster_id or _cluster_id(cluster), options.allow_file_destinations)
        )

    async def run(self) -> None:
        """Until SIGTERM or SIGINT, which kopf listens to. A sync that is under way is finished first."""
        pool = ThreadPoolExecutor(self._options.workers, thread_name_prefix="reconcile")
        workers = [asyncio.create_task(self._work(pool)) for _ in range(self._options.workers)]
        workers.append(asyncio.create_task(self._heartbeat()))
        probes = await self._serve_probes()
        try:
            await kopf.operator(
                registry=self._registry(),
                settings=_settings(),
                standalone=True,
                clusterwide=not self._options.namespaces,
                namespaces=self._options.namespaces,
                ready_flag=self._watching,
            )
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            pool.shutdown(wait=True)
            if probes is not None:
                await probes.cleanup()

    async def _work(self, pool: ThreadPoolExecutor) -> None:
        while True:
            key = await self._queue.get()
            self._queue.done(key, await self._reconcile(key, pool))

    async def _reconcile(self, key: Key, pool: ThreadPoolExecutor) -> float | None:
        body = self._objects.get(key)
        if body is None:
            return None
        try:
            after, due = await asyncio.get_running_loop().run_in_executor(
                pool, self._reconciler.reconcile, body, self._objects.due.get(key)
            )
        except ClusterError as error:
            if error.status == 404:
                return None  # deleted while we worked on it
            logger.warning("%s/%s: %s", *key, error)
            return time.time() + RETRY_SECONDS
        except Exception:
            logger.exception("%s/%s: unexpected", *key)
            return time.time() + RETRY_SECONDS
        if self._objects.get(key) is not None:
            self._objects.saw(key, after)
            self._objects.due.pop(key, None)
            if due is not None:
                self._objects.due[key] = due
        return due.timestamp() if due else None

    def _registry(self) -> kopf.OperatorRegistry:
        registry = kopf.get_default_registry()

        @kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)
        async def shared_table(type: str | None, body: kopf.Body, namespace: str | None, name: str, **_: Any) -> None:
            key = (namespace or "", name)
            if type == "DELETED":
                self._objects.drop(key)
                self._queue.forget(key)
            else:
                self._objects.saw(key, dict(body))
                self._queue.offer(key)
            TABLES.set(len(self._objects))

        @kopf.on.event("batch", "v1", "jobs", labels={LABEL_TABLE: kopf.PRESENT}, registry=registry)
        async def child(namespace: str | None, labels: kopf.Labels, **_: Any) -> None:
            self._queue.offer((namespace or "", labels[LABEL_TABLE]))

        return registry

    async def _heartbeat(self) -> None:
        while True:
            self._beat = time.monotonic()
            await asyncio.sleep(1)

    async def _serve_probes(self) -> web.AppRunner | None:
        if self._options.metrics_address is not None:
            host, port = self._options.metrics_address
            prometheus_client.start_http_server(port, host)
        if self._options.probe_address is None:
            return None
        application = web.Application()
        application.router.add_get("/healthz", self._healthz)
        application.router.add_get("/readyz", self._readyz)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        host, port = self._options.probe_address
        await web.TCPSite(runner, host, port).start()
        return runner

    async def _healthz(self, _: web.Request) -> web.Response:
        late = time.monotonic() - self._beat
        return web.Response(status=200 if late < STUCK_SECONDS else 500, text=f"event loop seen {late:.0f} s ago\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        ready = self._watching.is_set()
        return web.Response(status=200 if ready else 503, text="watching\n" if ready else "starting\n")


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False  # events are ours: only on transitions
    settings.scanning.disabled = True  # no right to list CRDs or namespaces is needed
    settings.watching.chunk_size = 500
    settings.watching.connect_timeout = 10
    settings.watching.server_timeout = 600
    settings.watching.label_selectors["jobs"] = "app.kubernetes.io/managed-by=deltamirror"
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 10
    return settings


def _cluster_id(cluster: Cluster) -> str:
    """The identity of this cluster in the mirrors that it owns: by custom, that of its oldest namespace."""
    try:
        namespace = cluster.get("/api/v1/namespaces/kube-system")
    except ClusterError as error:
        raise ClusterMisconfigured(
            f"this cluster has to be told apart from others: set --cluster-id ({error})"
        ) from None
    if namespace is None:
        raise ClusterMisconfigured("this cluster has no namespace kube-system: set --cluster-id")
    return str(namespace["metadata"]["uid"])
