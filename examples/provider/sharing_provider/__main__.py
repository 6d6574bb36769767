"""python -m sharing_provider --config provider.yaml --port 8080

Prints one line of JSON with the endpoint once it listens: whoever started it with `--port 0` learns the port.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import signal
import sys
from pathlib import Path

from sharing_provider import config
from sharing_provider.server import Server
from sharing_provider.serving import listening


async def _run(server: Server, host: str, port: int) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with listening(server, host, port) as provider:
        print(json.dumps({"endpoint": provider.endpoint}), flush=True)
        await stop.wait()


def main() -> int:
    parser = argparse.ArgumentParser(prog="sharing_provider", description="A small Delta Sharing server.")
    parser.add_argument("--config", type=Path, required=True, help="what to share: see provider.yaml")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080, help="0: any that is free")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        server = Server(config.load(arguments.config))
        asyncio.run(_run(server, arguments.host, arguments.port))
    except (config.ConfigError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
