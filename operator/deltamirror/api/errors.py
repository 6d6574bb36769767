from __future__ import annotations

from deltamirror.errors import Fault


class ManifestError(Fault):
    """The resource says something that cannot be meant."""

    reason = "InvalidSpec"
