"""Starting a server: for a process of its own, or in a thread of a test or a demo."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

from aiohttp import web

from sharing_provider.config import Config
from sharing_provider.server import PREFIX, Server


@dataclass(frozen=True, slots=True)
class Provider:
    """A server that listens."""

    endpoint: str
    server: Server

    def profile(self) -> dict[str, str | int]:
        """What a provider sends to a recipient: the contents of a profile file."""
        token = self.server.config.bearer_token
        return {"shareCredentialsVersion": 1, "endpoint": self.endpoint, "bearerToken": token}


@contextlib.asynccontextmanager
async def listening(server: Server, host: str, port: int) -> AsyncIterator[Provider]:
    # No access log: its lines would hold signed URLs.
    runner = web.AppRunner(server.application(), access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        bound = runner.addresses[0][1]
        yield Provider(f"http://{host}:{bound}{PREFIX}", server)
    finally:
        await runner.cleanup()


@contextlib.contextmanager
def serve(
    config: Config, host: str = "127.0.0.1", port: int = 0, make_server: Callable[[Config], Server] = Server
) -> Iterator[Provider]:
    """Runs a server in a thread while the context lasts. `make_server` may give one that misbehaves."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="sharing-provider", daemon=True)
    thread.start()
    running = listening(make_server(config), host, port)
    try:
        yield asyncio.run_coroutine_threadsafe(running.__aenter__(), loop).result()
    finally:
        asyncio.run_coroutine_threadsafe(running.__aexit__(None, None, None), loop).result()
        asyncio.run_coroutine_threadsafe(loop.shutdown_default_executor(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
