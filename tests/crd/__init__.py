"""Manifests that the resource must accept (valid/) and refuse (invalid/).

A refused one begins with `# expect:`, a part of what the API server says, and where `api.decode` says it in other words with
`# decode:` as well.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.servers.kubernetes import ApiServer

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FILE = ROOT / "crds" / "sharedtables.deltamirror.io.yaml"
VALID = sorted(HERE.glob("valid/*.yaml"))
INVALID = sorted(HERE.glob("invalid/*.yaml"))


def expectations(manifest: Path) -> tuple[str, str]:
    """What the API server and what the decoder say about a manifest that is refused."""
    said = dict(
        line.removeprefix("# ").split(": ", 1) for line in manifest.read_text().splitlines() if line.startswith("# ")
    )
    return said["expect"], said.get("decode", said["expect"])


def install(server: ApiServer) -> None:
    """Makes SharedTable a resource of the server; harmless if it is one."""
    server.kubectl("apply", "--server-side", "--force-conflicts", f"--filename={FILE}")
    server.kubectl("wait", "--for=condition=Established", f"crd/{FILE.stem}", "--timeout=30s")
